"""What the documents tell a reader to follow or to type exists: links, commands, options, make targets."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from infer_opt import profiles
from infer_opt.cli.main import run
from infer_opt.errors import UserError
from infer_opt.passes import Pipeline
from tests.documents import DOCS, FENCED, NAMES, ROOT, infer_opt, text_of

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
END_OF_COMMAND = re.compile(r"\s(?:[|>&#]|\d>)|\s{2,}")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = HEADING.findall(FENCED.sub("", document.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: Path, text: str) -> list[str]:
    """Relative links of a text that lead nowhere."""
    found = []
    for link in LINK.findall(FENCED.sub("", text)):
        path, _, anchor = link.partition("#")
        goal = (document.parent / path).resolve() if path else document
        outside = "://" not in link and not goal.is_relative_to(ROOT)
        missing = "://" not in link and not (goal.exists() and (not anchor or anchor in anchors(goal)))
        found += [link] if outside or missing else []
    return found


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    """Each file, folder and heading that is linked to is there."""
    assert broken_links(ROOT / name, text_of(name)) == []


@pytest.mark.parametrize(
    "link", ["docs/nothing.md", "docs/profiles.md#nothing", "#nothing", "../outside.md", "infer_opt/ir/nothing.py"]
)
def test_a_broken_link_is_found(link: str) -> None:
    """Files, headings, and what is outside the repository."""
    assert broken_links(ROOT / "README.md", f"see [this]({link})") == [link]


def test_the_index_names_every_document() -> None:
    """A document that nothing leads to is not found by a reader."""
    index = DOCS / "README.md"
    linked = {(DOCS / link).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))}
    assert {*DOCS.rglob("*.md")} - {index} - linked == set()


def shown(text: str, program: str) -> list[str]:
    """Every command line of a program in a text: in fenced blocks at the start of a line, and in backticks."""
    blocks = "\n".join(body.replace("\\\n", " ") for _, body in FENCED.findall(text))
    fenced = re.findall(rf"^\s*(?:\$ )?(?:- )?(?:run: )?({program} .*)$", blocks, re.MULTILINE)
    inline = re.findall(rf"`({program} [^`\n]+)`", FENCED.sub("", text))
    return [END_OF_COMMAND.split(line, maxsplit=1)[0] for line in (*fenced, *inline)]


@cache
def help_of(*command: str) -> str:
    """What `infer-opt COMMAND --help` prints; empty where there is no such command."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        code = run([*command, "--help"])
    return "" if code else out.getvalue()


def path_of(words: list[str]) -> tuple[str, ...]:
    """The command and, where it is a group, the sub-command that a command line calls."""
    path: tuple[str, ...] = ()
    for word in words:
        if not re.fullmatch(r"[a-z][a-z-]*", word) or (path and "\nCommands:\n" not in help_of(*path)):
            break
        path = (*path, word)
    return path


def faults(line: str) -> Iterator[str]:
    """What in a command line does not exist. Words in capitals, or in brackets, stand for something else."""
    words = shlex.split(line)[1:]
    path = path_of(words)
    if not help_of(*path):
        yield f"no command `{' '.join(path)}`"
    known = {*OPTION.findall(help_of(*path))}
    for word, value in zip(words, [*words[1:], ""], strict=True):
        option = word.partition("=")[0].strip("[]")
        if option.startswith("--") and option not in known:
            yield f"no option `{option}`"
        elif option == "--target":
            yield from (f"no profile `{name}`" for name in value.split(",") if not is_profile(name))
        elif option == "--precision" and value not in choices(help_of(*path), option):
            yield f"no precision `{value}`"
        elif option == "--pipeline" and not value.isupper():
            yield from faults_of_pipeline(value)


def choices(text: str, option: str) -> list[str]:
    """The values that the text of a help lists for an option."""
    found = re.search(rf"{option} <([^>]+)>", text)
    return found[1].split("|") if found else []


def is_profile(name: str) -> bool:
    """Whether it is a shipped profile, a file, or stands for one."""
    return name in profiles.names() or name.endswith(".toml") or name.isupper() or "|" in name


def faults_of_pipeline(text: str) -> Iterator[str]:
    """What `--pipeline` says against a text."""
    try:
        Pipeline.parse(text)
    except UserError as error:
        yield error.message


@pytest.mark.parametrize("name", NAMES)
def test_commands_can_be_typed(name: str) -> None:
    """Every command, option, profile, precision and pipeline that is shown exists."""
    found = [f"{line}: {fault}" for line in shown(text_of(name), "infer-opt") for fault in faults(line)]
    assert found == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("infer-opt complie m.onnx", "no command `complie`"),
        ("infer-opt profiles lists", "no command `profiles lists`"),
        ("infer-opt compile m.onnx --target t4 --max-dorp 1", "no option `--max-dorp`"),
        ("infer-opt verify made --fail-above 5%", "no option `--fail-above`"),
        ("infer-opt compile m.onnx --target t4,t5", "no profile `t5`"),
        ("infer-opt compile m.onnx --target t4 --precision int9", "no precision `int9`"),
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str, fault: str) -> None:
    """In a block, behind a prompt, as a step of CI, and in backticks."""
    for text in (f"```\n{line}\n```", f"```console\n$ {line} > out\n```", f"```\n- run: {line}\n```", f"so `{line}`."):
        assert [found for each in shown(text, "infer-opt") for found in faults(each)] == [fault]


def test_a_bad_pipeline_is_found() -> None:
    """Its own words say what is wrong."""
    assert list(faults('infer-opt compile m.onnx --target t4 --pipeline "simplify,fuze"')) != []


def test_the_documents_show_commands() -> None:
    """Where nothing was found, the tests above would hold of nothing."""
    counts = {name: len(shown(text_of(name), "infer-opt")) for name in NAMES}
    assert all(
        counts[name] for name in ("README.md", "README.zh.md", "CONTRIBUTING.md", "docs/ci.md", "docs/passes.md")
    )


@pytest.mark.parametrize("name", NAMES)
def test_make_targets_exist(name: str) -> None:
    """Each `make WORD` in code is a target of the Makefile."""
    targets_of_make = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    assert {line.split()[1] for line in shown(text_of(name), "make")} - targets_of_make == set()


def test_the_readme_shows_what_compile_prints(tmp_path: Path) -> None:
    """The same rows, in the same order; figures differ from host to host, and what a host cannot do adds rows."""
    example = text_of("README.md").partition("<!-- compile examples/digits -->")[2]
    _, block = FENCED.findall(example)[0]
    command, *printed = block.splitlines()
    for name in ("digits.onnx", "calib.npz"):
        shutil.copy(ROOT / "examples" / "digits" / name, tmp_path)
    done = infer_opt(ROOT, tmp_path, *shlex.split(command)[2:])
    assert done.returncode == 0, done.stderr
    labels = [re.match(r"  (\w*) ", line) for line in done.stderr.splitlines()[1:]]
    actual = [label[1] for label in labels if label and label[1] not in {"unchecked", "warning"}]
    assert actual == [label[1] for line in printed if (label := re.match(r"  (\w*) ", line))]
    assert done.stdout.splitlines() == printed[-1:]

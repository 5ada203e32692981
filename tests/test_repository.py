"""What is committed: nothing large, nothing of one machine, no command in a document that does not exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LARGEST_FILE = 1_000_000  # bytes
MACHINE_FOLDER = re.compile(r"(?<![\w.~\-/])/(?:work|root|farm)\b(?!-)")
REGISTRY_HOST = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|registry\.npmjs\.org|(?:deb|security)\.debian\.org|proxy\.golang\.org)\b"
)
DOCUMENTS = ("README.md", "README.zh.md", "CONTRIBUTING.md")


def committed_files() -> list[Path]:
    """What git tracks, and what it would take with `git add --all`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def committed_lines() -> list[tuple[str, str]]:
    """Every line of text with the place it stands at; files that are not UTF-8 have no lines."""
    found = []
    for file in filter(is_text, committed_files()):
        text = file.read_text(encoding="utf-8")
        place = file.relative_to(ROOT)
        found += [(f"{place}:{number}", line) for number, line in enumerate(text.splitlines(), start=1)]
    return found


def commands_named(document: str, pattern: str) -> set[str]:
    """The words that follow `make` or `infer-opt` in the code of a document, fenced or in backticks."""
    text = (ROOT / document).read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL))
    return set(re.findall(pattern, code))


def test_git_lists_this_file() -> None:
    """Without the list every other test here would hold of nothing."""
    assert Path(__file__).resolve() in committed_files()


def test_nothing_is_kept_that_a_run_leaves_behind() -> None:
    """Whatever is no text is the example's model or its samples; caches, databases and lists of fonts are not ours."""
    binary = {file.relative_to(ROOT).as_posix() for file in committed_files() if not is_text(file)}
    assert binary == {"examples/digits/calib.npz", "examples/digits/digits.onnx"}
    kinds = {file.suffix for file in committed_files() if file.is_relative_to(ROOT / "tests")}
    assert kinds <= {".py", ".txt", ".md"}


def is_text(file: Path) -> bool:
    """Whether a file is UTF-8."""
    try:
        file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def test_no_file_is_large() -> None:
    """A large file stays in the history for ever."""
    sizes = {str(file.relative_to(ROOT)): file.stat().st_size for file in committed_files()}
    assert {file: size for file, size in sizes.items() if size > LARGEST_FILE} == {}


@pytest.mark.parametrize("pattern", [MACHINE_FOLDER, REGISTRY_HOST], ids=["folder", "registry"])
def test_no_file_names_one_machine(pattern: re.Pattern[str]) -> None:
    """Neither a folder of the machine it was written on nor the host its packages came from."""
    assert [place for place, line in committed_lines() if pattern.search(line)] == []


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("see /{}/main/a.py", True),
        ("/{}", True),
        ('open("/{}/x")', True),
        ("`/{}`", True),
        ("examples/{}/x", False),
        ("./{}/x", False),
        ("/{}shop", False),
        ("a {} of art", False),
    ],
)
@pytest.mark.parametrize("folder", ["work", "root", "farm"])
def test_the_pattern_for_folders_catches(line: str, folder: str, *, caught: bool) -> None:
    """An absolute path is caught, a part of a longer path or word is not."""
    assert bool(MACHINE_FOLDER.search(line.format(folder))) is caught


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_in_a_document_exists(document: str) -> None:
    """What the reader is told to type works."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    assert commands_named(document, r"\bmake ([a-z-]+)") - targets == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_in_a_document_exists(document: str) -> None:
    """Each `infer-opt WORD` answers to --help."""
    commands = commands_named(document, r"(?:^|[\s`$(])infer-opt ([a-z][a-z-]*)\b")
    missing = {
        command
        for command in commands
        if subprocess.run(
            [sys.executable, "-m", "infer_opt", command, "--help"], capture_output=True, check=False
        ).returncode
    }
    assert missing == set()


def test_the_readme_shows_how_to_begin() -> None:
    """Its first commands are there to be checked by the tests above."""
    assert {"demo", "test"} <= commands_named("README.md", r"\bmake ([a-z-]+)")
    assert "compile" in commands_named("README.md", r"infer-opt ([a-z-]+)")


def test_every_make_target_is_explained() -> None:
    """`make help` lists each target a person may call."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.findall(r"^\.PHONY: ([a-z-]+)$", makefile, flags=re.MULTILINE))
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  make ([a-z-]+)", listed, flags=re.MULTILINE)) == phony

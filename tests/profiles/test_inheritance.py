"""`extends`: what a file takes from its base, and chains that do not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_opt import profiles
from infer_opt.errors import InputError
from infer_opt.profiles import Profile
from infer_opt.profiles.inheritance import inherit

BACKENDS = {"onnxruntime", "tensorrt"}


def write(folder: Path, name: str, text: str) -> Path:
    """A profile file with that text; folders are made."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def load(file: Path) -> Profile:
    """The profile in the file."""
    return profiles.load(str(file), backends=BACKENDS)


def test_a_revision_says_only_what_differs(tmp_path: Path) -> None:
    """The rest is the base's, keys inside tables too."""
    text = 'extends = "t4"\nname = "t4@half"\nmemory_mb = 8192\n[peak]\nint8_tops = 65\n'
    base, revision = profiles.load("t4", backends=BACKENDS), load(write(tmp_path, "t4@half.toml", text))
    assert (revision.name, revision.memory_mb) == ("t4@half", 8192)
    assert (revision.peak.int8_tops, revision.peak.fp16_tflops) == (65, base.peak.fp16_tflops)
    assert (revision.dialect, revision.backend, revision.isa) == (base.dialect, base.backend, base.isa)


def test_a_list_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """A device that has less must be able to say so."""
    text = 'extends = "t4"\nname = "mine"\nprecisions = ["fp32"]\n'
    assert load(write(tmp_path, "mine.toml", text)).precisions == ("fp32",)


def test_a_file_names_itself(tmp_path: Path) -> None:
    """Name and summary are not inherited, nor is being a base."""
    file = write(tmp_path, "mine.toml", 'extends = "onnxruntime-cpu"\n')
    assert [problem.message for problem in profiles.check(file, backends=BACKENDS)] == ["missing `name`"]
    profile = load(write(tmp_path, "mine.toml", 'extends = "onnxruntime-cpu"\nname = "mine"\n'))
    assert (profile.name, profile.summary) == ("mine", "")


def test_a_path_is_relative_to_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the command is run from, over several steps, upwards too."""
    write(tmp_path, "boards/base.toml", 'name = "base"\nbackend = "onnxruntime"\ncores = 4\nthreads = 4\n')
    write(tmp_path, "boards/a/one.toml", 'extends = "../base.toml"\nname = "one"\nthreads = 2\n')
    write(tmp_path, "two.toml", 'extends = "boards/a/one.toml"\nname = "two"\nmemory_mb = 512\n')
    monkeypatch.chdir(tmp_path / "boards")
    profile = load(Path("../two.toml"))
    assert (profile.name, profile.cores, profile.threads, profile.memory_mb) == ("two", 4, 2, 512)


def test_origins_follow_the_facts() -> None:
    """A fact stated anew, or called unknown, loses the old note; one no longer unknown leaves the list."""
    base = {
        "cores": 4,
        "peak": {"fp16_tflops": 1.0},
        "unknown": ["memory_mb", "bandwidth_gbs", "peak.int8_tops"],
        "source": {"cores": "manual", "memory_mb": "asked", "peak": "sheet", "peak.fp16_tflops": "page 3"},
    }
    over = {
        "memory_mb": 512,
        "peak": {"int8_tops": 2.0},
        "unknown": ["cores", "peak.fp16_tflops"],
        "source": {"cores": "manual withdrawn", "peak": {"int8_tops": "measured"}},
    }
    assert inherit(base, over) == {
        "memory_mb": 512,
        "peak": {"int8_tops": 2.0},
        "unknown": ["bandwidth_gbs", "cores", "peak.fp16_tflops"],
        "source": {"cores": "manual withdrawn", "peak": "sheet", "peak.int8_tops": "measured"},
    }
    assert base["cores"] == 4, "the base is left as it was"


@pytest.mark.parametrize(
    ("base", "steps", "hint"),
    [
        ("x86-avx512-vnn", "`x86-avx512-vnn`", 'write `extends = "x86-avx512-vnni"`'),
        ("toaster", "`toaster`", "give a shipped name, or the path of a `.toml` relative to this file"),
        (
            "b.toml",
            "`{folder}/b.toml`",
            "give a shipped name, or the path of a `.toml` relative to this file",
        ),
    ],
)
def test_a_missing_base_names_the_chain(base: str, steps: str, hint: str, tmp_path: Path) -> None:
    """The whole way to it, and the line in the file that asks for it."""
    middle = write(tmp_path, "middle.toml", f'name = "middle"\nextends = "{base}"\n')
    file = write(tmp_path, "mine.toml", 'extends = "middle.toml"\nname = "mine"\n')
    with pytest.raises(InputError) as caught:
        load(file)
    trail = f"`{file}` -> `{middle}` -> {steps.format(folder=tmp_path)}"
    assert caught.value.message == (f"`{middle}`, line 2: `extends` names a profile that does not exist: {trail}")
    assert caught.value.hint == hint


def test_a_circle_names_the_chain(tmp_path: Path) -> None:
    """Two files that extend each other, and one that extends itself under another spelling."""
    a = write(tmp_path, "a.toml", 'name = "a"\nextends = "b.toml"\n')
    b = write(tmp_path, "b.toml", 'name = "b"\nextends = "a.toml"\n')
    (problem,) = profiles.check(a, backends=BACKENDS)
    assert (problem.where, problem.line) == (str(b), 2)
    assert problem.message == f"`extends` goes in a circle: `{a}` -> `{b}` -> `{a}`"
    assert problem.hint == "end the chain at a file without `extends`"
    own = write(tmp_path, "own.toml", 'extends = "./sub/../own.toml"\n')
    (tmp_path / "sub").mkdir()
    assert profiles.check(own, backends=BACKENDS)[0].message.startswith("`extends` goes in a circle: ")


def test_a_fault_is_placed_in_the_file_that_holds_it(tmp_path: Path) -> None:
    """A misspelt key of the base, a range that only both together make wrong."""
    base = write(tmp_path, "base.toml", 'name = "base"\nbackend = "onnxruntime"\ncorse = 4\n')
    file = write(tmp_path, "mine.toml", 'extends = "base.toml"\nname = "mine"\n')
    (problem,) = profiles.check(file, backends=BACKENDS)
    assert (problem.where, problem.line, problem.message) == (str(base), 3, "unknown key `corse`")
    file = write(tmp_path, "mine.toml", 'extends = "t4"\nname = "mine"\n\n[opset]\nmin = 22\n')
    (problem,) = profiles.check(file, backends=BACKENDS)
    assert (problem.where, problem.line) == (str(file), 4)
    assert problem.message == "`opset.min` 22 is above `opset.max` 20"


def test_a_broken_base_is_named_itself(tmp_path: Path) -> None:
    """Not TOML, or a folder: the file at fault is the base."""
    base = write(tmp_path, "base.toml", "name = \n")
    file = write(tmp_path, "mine.toml", 'extends = "base.toml"\nname = "mine"\n')
    (problem,) = profiles.check(file, backends=BACKENDS)
    assert (problem.where, problem.line) == (str(base), 1)
    file = write(tmp_path, "mine.toml", 'extends = "./"\nname = "mine"\n')
    (problem,) = profiles.check(file, backends=BACKENDS)
    assert problem.message == "is a folder, not a profile"

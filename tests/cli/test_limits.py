"""Limits of a run: how they are written, and that they are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_opt.cli.limits import seconds
from infer_opt.errors import UsageError
from tests.hosts import target_here

TARGET = ("--target", target_here())


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), (" 0.5 s ", 0.5), (None, None)]
)
def test_durations(text: str | None, expected: float | None) -> None:
    """Seconds, minutes and hours, with fractions."""
    assert seconds("--time-budget", text) == expected


@pytest.mark.parametrize("text", ["", "10", "m", "-5s", "0s", "0.0h", "1e3s", "10 days", "10m30s", "nan", "inf s"])
def test_other_texts_are_no_durations(text: str) -> None:
    """The option is named, and the form told."""
    with pytest.raises(UsageError, match=r"^--time-budget cannot be `") as caught:
        seconds("--time-budget", text)
    assert caught.value.hint == "give a time like `90s`, `10m` or `1h`"


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--time-budget", "soon", "--time-budget cannot be `soon`"),
        ("--max-memory", "2", "--max-memory cannot be `2`"),
        ("--max-memory", "2 gigs", "--max-memory cannot be `2 gigs`"),
        ("--max-memory", "-1GiB", "--max-memory"),
        ("--max-memory", "0MiB", "infer-opt itself needs 256 MiB"),
        ("--max-memory", "200MB", "--max-memory cannot be `200MB`: infer-opt itself needs 256 MiB"),
    ],
)
def test_a_limit_that_makes_no_sense_is_code_2(infer_opt: Callable, option: str, text: str, said: str) -> None:
    """Before any work, in one line that names the option."""
    ran = infer_opt("compile", "net.onnx", *TARGET, f"{option}={text}")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 2)
    assert said in ran.err.splitlines()[0]
    assert list(Path().iterdir()) == []


def test_time_that_is_over_at_once_still_gives_an_artifact(infer_opt: Callable) -> None:
    """Of what is known by then; the report says that it is not reproducible."""
    ran = infer_opt("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--time-budget", "0.001s", "--json")
    assert ran.code == 0
    [warning] = [text for text in ran.json["warnings"] if "--time-budget" in text]
    assert warning.startswith("--time-budget ended the search, without ")
    assert warning.endswith(": the result is not reproducible")
    assert Path(ran.json["artifact"], "model.onnx").is_file()
    assert not [item for item in ran.json["candidates"] if item["name"].startswith("mixed")]


def test_time_that_suffices_changes_nothing(infer_opt: Callable) -> None:
    """No warning of it, and of the same times the same candidates."""
    options = ("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--json")
    free = infer_opt(*options, "--out", "free").json
    timed = infer_opt(*options, "--time-budget", "1h", "--latency-table", "free/latency.json", "--out", "timed").json
    assert timed["warnings"] == free["warnings"]
    assert [item["name"] for item in timed["candidates"]] == [item["name"] for item in free["candidates"]]


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is limited on Linux only")
def test_a_compile_beyond_its_memory_ends_in_one_line(kit: Path, tmp_path: Path) -> None:
    """Code 1, nothing written; the same command with enough of it makes the artifact."""
    here, environment = tmp_path / "here", os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    here.mkdir()

    def compiled(batch: int, memory: str) -> subprocess.CompletedProcess[str]:
        words = ["compile", str(kit / "net.onnx"), *TARGET, "--shape", f"x:{batch}x3x8x8", "--max-memory", memory]
        command = [sys.executable, "-m", "infer_opt", *words, "--calib", "random", "--precision", "fp32", "--out", "a"]
        return subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)

    ran = compiled(400_000, "400MiB")  # 307 MB an input, 819 MB the first value
    assert (ran.returncode, ran.stdout) == (1, "")
    error, hint = ran.stderr.splitlines()
    assert error.startswith("error: out of memory: ")
    assert hint.startswith("hint: allow more (--max-memory)")
    assert list(here.iterdir()) == []
    assert compiled(1, "4GiB").returncode == 0


@pytest.mark.parametrize(
    ("model", "options", "differs"),
    [
        ("fixed.onnx", (), "model"),
        ("net.onnx", ("--threads", "3"), "threads"),
        ("net.onnx", ("--target", "arm-a78"), "target"),
    ],
)
def test_a_table_of_another_compile_is_refused(
    infer_opt: Callable, model: str, options: tuple[str, ...], differs: str
) -> None:
    """Before any work: it would decide by times of something else."""
    made = infer_opt("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--out", "made", "--json")
    assert made.json["latency"]["kind"] == "measured"
    ran = infer_opt(
        "compile",
        model,
        *TARGET,
        "--calib",
        "calib.npz",
        *options,
        "--out",
        "b",
        "--latency-table",
        "made/latency.json",
    )
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 2)
    assert ran.err.startswith(f"error: `made/latency.json` is a table of another {differs}: ")
    assert [file.name for file in Path().iterdir()] == ["made"]


def test_a_pinned_table_gives_the_same_bytes(
    infer_opt: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of every file but for the seconds that work took; nothing is timed, with and without journals."""
    options = ("compile", "net.onnx", *TARGET, "--calib", "calib.npz")
    assert infer_opt(*options, "--out", "made").code == 0
    Path("made").rename("first")

    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("infer_opt.calibrate.sensing.region_times", never)
    monkeypatch.setattr("infer_opt.calibrate.judging.interleaved", never)
    for name, cache in [("off", "off"), ("new", str(tmp_path / "cache")), ("known", str(tmp_path / "cache"))]:
        monkeypatch.setenv("INFER_OPT_CACHE", cache)
        assert infer_opt(*options, "--latency-table", "first/latency.json", "--out", "made").code == 0
        Path("made").rename(name)
        assert contents(Path(name)) == contents(Path("off"))
    assert list((tmp_path / "cache").glob("*.jsonl"))
    for file in ("model.onnx", "manifest.json", "latency.json"):
        assert Path("off", file).read_bytes() == Path("first", file).read_bytes()


def contents(folder: Path) -> dict[str, object]:
    """Every file of an artifact, without what work took; the page shows what the report holds."""
    report = json.loads((folder / "report.json").read_text())
    del report["stages"]
    for step in report["passes"]:
        del step["seconds"]
    files = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("report.")}
    return files | {"report": report}

"""The entry: exit codes, streams, and what becomes of every exception."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_opt import __version__
from infer_opt.cli.main import run
from infer_opt.errors import BudgetError, InputError, UsageError

COMMAND = [sys.executable, "-m", "infer_opt"]
ROOT = Path(__file__).parents[2]
SLOW_SAMPLES = """import pathlib, time
import numpy as np

def samples():
    yield {"x": np.zeros((1, 3, 8, 8), np.float32)}
    pathlib.Path("started").touch()
    time.sleep(60)
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_version(infer_opt: Callable) -> None:
    """On stdout, by the package's own number."""
    ran = infer_opt("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"infer-opt {__version__}\n", "")


def test_help_is_an_answer_and_a_bare_command_is_usage(infer_opt: Callable) -> None:
    """Both list the commands: help on stdout with code 0, nothing at all on stderr with code 2."""
    asked, bare = infer_opt("--help"), infer_opt()
    assert (asked.code, asked.err, bare.code, bare.out) == (0, "", 2, "")
    for command in ("compile", "inspect", "sensitivity", "verify", "bench", "profiles", "passes", "doctor"):
        assert f"\n  {command} " in asked.out
        assert f"\n  {command} " in bare.err


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("complie",), ["error: no such command `complie`", "hint: did you mean `compile`?"]),
        (("profiles", "shwo"), ["error: no such command `shwo`", "hint: did you mean `show`?"]),
        (("frobnicate",), ["error: no such command `frobnicate`", "hint: see `infer-opt --help`"]),
        (
            ("compile", "m.onnx", "--target", "t4", "--max-dorp", "1"),
            ["error: no such option: `--max-dorp`", "hint: did you mean `--max-drop` or `--max-memory`?"],
        ),
        (
            ("compile", "m.onnx"),
            ["error: missing option `--target`", "hint: see `infer-opt compile --help`"],
        ),
        (
            ("compile", "m.onnx", "--target", "t4", "--precision", "int9"),
            [
                "error: invalid value for `--precision`: `int9` is not one of `auto`, `fp32`, `fp16`, `int8`, `int4`",
                "hint: see `infer-opt compile --help`",
            ],
        ),
        (
            ("compile", "m.onnx", "--target", "t4", "--max-drop", "nan"),
            None,
        ),
        (("bench",), ["error: missing argument `ARTIFACT|MODEL`", "hint: see `infer-opt bench --help`"]),
    ],
)
def test_usage(infer_opt: Callable, words: tuple[str, ...], lines: list[str] | None) -> None:
    """Code 2, the culprit in the first line and a hint in the second, nothing on stdout."""
    ran = infer_opt(*words)
    assert (ran.code, ran.out) == (2, "")
    if lines is not None:
        assert ran.err.splitlines() == lines
    else:
        assert "--max-drop" in ran.err


@pytest.mark.parametrize("option", ["--search", "--student", "--tile"])
def test_what_does_not_exist_is_not_taken(infer_opt: Callable, option: str) -> None:
    """An option of a later version is refused, not ignored."""
    ran = infer_opt("compile", "net.onnx", "--target", "t4", option, "x")
    assert ran.code == 2
    assert f"`{option}`" in ran.err


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (InputError("`m` is bad", "mend it"), 1, ["error: `m` is bad", "hint: mend it"]),
        (UsageError("no `x`"), 2, ["error: no `x`"]),
        (BudgetError("too slow", "wait"), 3, ["error: too slow", "hint: wait"]),
        (
            InputError("node `a\x1b[2J\nb`", "r\u00e9sum\u00e9"),
            1,
            ["error: node `a\\x1b[2J\\nb`", "hint: r\u00e9sum\u00e9"],
        ),
        (
            MemoryError(),
            1,
            [
                "error: out of memory",
                "hint: allow more (--max-memory) or use a machine with more, fewer samples, or fewer threads",
            ],
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "d/f"),
            1,
            [
                "error: `d/f` cannot be written: No space left on device",
                "hint: free some space, or pass another --out",
            ],
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "d/f"),
            1,
            ["error: `d/f` cannot be used: Permission denied", "hint: check its permissions and its disk"],
        ),
        (
            ModuleNotFoundError("no", name="scipy"),
            1,
            ["error: the package `scipy` is missing", "hint: install it, or all of infer-opt again"],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_user_can_mend(
    infer_opt: Callable, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, lines: list[str]
) -> None:
    """A message, a hint, the code of its kind; control characters of a model's names do not reach the terminal."""
    monkeypatch.setattr("infer_opt.profiles.names", raising(error))
    ran = infer_opt("profiles")
    assert (ran.code, ran.out, ran.err.splitlines()) == (code, "", lines)


@pytest.mark.parametrize(
    "error", [KeyError("gone"), FileNotFoundError(2, "gone", "f"), ModuleNotFoundError(name="infer_opt.x")]
)
def test_a_bug(infer_opt: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception) -> None:
    """Code 70, its traceback, and a folder with all that is needed to see it again but the model."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("infer_opt.compile.compile_model", raising(error))
    ran = infer_opt("compile", "net.onnx", "--target", "t4", "--pipeline", "simplify, fuse", "--out", "a b")
    assert (ran.code, ran.out) == (70, "")
    assert f"{type(error).__name__}: " in ran.err
    assert "Traceback (most recent call last)" in ran.err
    [folder] = tmp_path.glob("infer-opt-bug-*")
    assert f"`{folder}`" in ran.err.splitlines()[-1]
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    assert set(texts) == {"command.txt", "versions.json", "traceback.txt", "pipeline.txt"}
    assert texts["command.txt"].startswith("infer-opt compile ")
    assert texts["command.txt"].endswith("net.onnx --target t4 --pipeline 'simplify, fuse' --out 'a b'\n")
    assert texts["pipeline.txt"] == "simplify, fuse\n"
    assert json.loads(texts["versions.json"])["infer-opt"] == __version__


def raising(error: Exception) -> Callable[..., None]:
    """A function that does nothing but raise."""

    def function(*_: object, **__: object) -> None:
        raise error

    return function


def test_a_reader_that_leaves_is_no_error() -> None:
    """`infer-opt ... | head -1` ends quietly and with code 0."""
    process = subprocess.Popen(
        [*COMMAND, "passes"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait()) == ("", 0)
    process.stderr.close()


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_is_no_error(closed: str) -> None:
    """What would be printed there is not printed."""
    shell = f'"{sys.executable}" -m infer_opt profiles {closed}'
    assert subprocess.run(["bash", "-c", shell], env=ENVIRONMENT, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_leaves_nothing_behind(kit: Path, tmp_path: Path, number: int) -> None:
    """The half-made folder goes, and no traceback comes."""
    (tmp_path / "slow.py").write_text(SLOW_SAMPLES)
    options = ["--target", "x86-avx2", "--calib", "slow.py:samples"]
    process = subprocess.Popen(
        [*COMMAND, "compile", str(kit / "net.onnx"), *options],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "interrupted\n")
    assert {file.name for file in tmp_path.iterdir()} <= {"slow.py", "started", "__pycache__"}


def on_a_terminal(arguments: list[str], folder: Path, **environment: str) -> bytes:
    """What a command writes to a terminal of 80 columns that is its stderr."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env={**ENVIRONMENT, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
        stdout=subprocess.DEVNULL,
        stderr=child,
    )
    os.close(child)
    written = b""
    while True:
        try:
            piece = os.read(parent, 1 << 16)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(parent)
    assert process.wait() == 0
    return written


def test_bars_are_drawn_on_a_terminal_only(kit: Path, tmp_path: Path) -> None:
    """A terminal sees the stages; a file sees the summary alone, without escape codes."""
    options = ["compile", str(kit / "net.onnx"), "--target", "x86-avx2", "--calib", str(kit / "calib.npz"), "--force"]
    shown = on_a_terminal(options, tmp_path)
    assert b"calibrate" in shown
    assert b"24/24" in shown
    done = subprocess.run([*COMMAND, *options], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=True)
    assert b"\x1b" not in done.stderr
    assert b"calibrate" not in done.stderr


def test_no_color_is_obeyed(kit: Path, tmp_path: Path) -> None:
    """Without it a terminal gets colours, with it none."""
    options = ["compile", str(kit / "net.onnx"), "--target", "x86-avx2", "--force"]
    assert b"\x1b[38" in on_a_terminal(options, tmp_path) or b"\x1b[3" in on_a_terminal(options, tmp_path)
    plain = on_a_terminal(options, tmp_path, NO_COLOR="1")
    assert b"\x1b[3" not in plain


def test_run_returns_where_main_exits() -> None:
    """The process ends with the code that `run` gives."""
    done = subprocess.run([*COMMAND, "frobnicate"], env=ENVIRONMENT, capture_output=True, check=False)
    assert (run(["frobnicate"]), done.returncode) == (2, 2)

"""The command line answers at once, because it imports nothing heavy before a command needs it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

HEAVY = {
    "PIL",
    "google",
    "jinja2",
    "matplotlib",
    "numpy",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "onnxscript",
    "scipy",
    "sklearn",
    "torch",
}
LONGEST_SECONDS = 0.3
TRIES = 5


def run(*arguments: str, python_options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [sys.executable, *python_options, "-m", "infer_opt", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [("--help",), ("compile", "--help"), ("bench", "--help")])
def test_help_imports_no_heavy_package(arguments: tuple[str, ...]) -> None:
    """Read off the interpreter's own record of what it imported."""
    done = run(*arguments, python_options=("-X", "importtime"))
    assert done.returncode == 0, done.stderr
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "infer_opt" in imported
    assert imported & HEAVY == set()


def test_help_answers_in_time() -> None:
    """The best of five whole processes, the interpreter's own start included."""
    times = []
    for _ in range(TRIES):
        start = time.perf_counter()
        done = run("--help")
        times.append(time.perf_counter() - start)
        assert done.returncode == 0, done.stderr
    assert min(times) < LONGEST_SECONDS

"""Compiles the digit classifier for the CPU it runs on, then measures it before and after: `make demo`.

Everything printed is measured here, on digits that neither training nor calibration saw, the two models in
turns on one thread. Exit code 1 where accuracy falls by more than a point or the artifact is not faster.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from digits_data import Digits, load_split
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
MODEL = HERE / "digits.onnx"
CALIBRATION = HERE / "calib.npz"
ARTIFACT = HERE.parents[1] / "build" / "digits"
THREADS = 1
ROUNDS = 15
RUNS_PER_ROUND = 100
LARGEST_DROP = 0.01
SMALLEST_SPEEDUP = 1.0


@dataclass(frozen=True)
class Measured:
    """What one model did on the held-out digits; `latency` is the P50 of one image in milliseconds."""

    accuracy: float
    latency: float
    kilobytes: float


def main() -> int:
    target = host_target()
    status = compile_digits(target)
    if status != 0:
        return status
    artifact = ARTIFACT / json.loads((ARTIFACT / "manifest.json").read_text(encoding="utf-8"))["model"]
    before, after = measure([MODEL, artifact], load_split().test)
    Console().print(summary(target, before, after))
    return verdict(before, after)


def host_target() -> str:
    """The profile of this CPU, by its architecture and the instructions that Linux lists."""
    if platform.machine().lower() in {"aarch64", "arm64"}:
        return "arm-a78"
    listed = Path("/proc/cpuinfo")
    flags = listed.read_text(encoding="utf-8").split() if listed.exists() else []
    return "x86-avx512-vnni" if "avx512_vnni" in flags else "x86-avx2"


def compile_digits(target: str) -> int:
    """Run the command that a user would run, its messages on the terminal, and return its exit code."""
    options = ["--target", target, "--calib", CALIBRATION, "--out", ARTIFACT, "--force", "--threads", THREADS]
    command = [sys.executable, "-m", "infer_opt", "compile", MODEL, *options]
    return subprocess.run(list(map(str, command)), check=False).returncode


def measure(models: list[Path], digits: Digits) -> list[Measured]:
    """Score every model, then time them in turns, so that a change of clock speed meets all alike."""
    sessions = [open_session(model) for model in models]
    accuracies = [accuracy(session, digits) for session in sessions]
    rounds = [[median_run(session, digits.images[:1]) for session in sessions] for _ in range(ROUNDS)]
    latencies = np.median(rounds, axis=0)
    sizes = [model.stat().st_size / 1000 for model in models]
    return [Measured(*figures) for figures in zip(accuracies, latencies, sizes, strict=True)]


def open_session(model: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def accuracy(session: onnxruntime.InferenceSession, digits: Digits) -> float:
    """Share of `digits` whose largest logit is the right one, one image at a time as a device would."""
    logits = [session.run(None, {"image": image[np.newaxis]})[0] for image in digits.images]
    return float((np.concatenate(logits).argmax(axis=1) == digits.labels).mean())


def median_run(session: onnxruntime.InferenceSession, image: np.ndarray) -> float:
    """Median time of one run in milliseconds, after one that does not count."""
    session.run(None, {"image": image})
    times = []
    for _ in range(RUNS_PER_ROUND):
        start = time.perf_counter()
        session.run(None, {"image": image})
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1000


def verdict(before: Measured, after: Measured) -> int:
    """Exit code 0 where the artifact keeps the accuracy and is not slower; else 1, the reason on stderr."""
    drop, speedup = before.accuracy - after.accuracy, before.latency / after.latency
    if drop > LARGEST_DROP:
        print(f"accuracy fell by {drop:.4f}, more than {LARGEST_DROP}", file=sys.stderr)
        return 1
    if speedup < SMALLEST_SPEEDUP:
        print(f"the speed-up is {speedup:.2f}, less than {SMALLEST_SPEEDUP}", file=sys.stderr)
        return 1
    return 0


def summary(target: str, before: Measured, after: Measured) -> Table:
    """The table that `make demo` ends with."""
    table = Table(
        title=f"digits.onnx for {target}, one thread",
        caption=f"speed-up {before.latency / after.latency:.2f}x (measured)",
    )
    for heading in ("measured", "before", "after"):
        table.add_column(heading, justify="left" if heading == "measured" else "right")
    table.add_row("accuracy on 360 held-out digits", f"{before.accuracy:.4f}", f"{after.accuracy:.4f}")
    table.add_row("P50 latency of one image, ms", f"{before.latency:.3f}", f"{after.latency:.3f}")
    table.add_row("model file, kB", f"{before.kilobytes:.1f}", f"{after.kilobytes:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main())

"""How a user of each quantizer calls it, in a process of its own, so that its memory and its crashes are its own.

`make` is what a benchmark calls. Run as a script this file is that process, under the Python that has the engine:
nothing but the standard library and numpy is imported before the engine is.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

__all__ = ["MAKERS", "PYTHONS", "Made", "fresh", "make", "missing_packages", "python_of"]

PYTHONS = {"nncf-openvino": "RIVAL_PYTHON_NNCF"}  # engines that have their own environment
MADE = "made.json"  # what the process tells: the file to load, and its peak resident MB


@dataclass(frozen=True)
class Job:
    """What every maker gets: files and folders, and the profile's name."""

    model: Path
    feeds: Path
    out: Path
    target: str

    def samples(self) -> Iterator[dict[str, np.ndarray]]:
        for path in sorted(self.feeds.glob("*.npz")):
            with np.load(path) as arrays:
                yield {name: arrays[name] for name in arrays.files}


class Reader:
    """The calibration feeds as onnxruntime's quantizer asks for them."""

    def __init__(self, job: Job) -> None:
        self._samples = job.samples()

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next feed, or None after the last."""
        return next(self._samples, None)


def infer_opt(job: Job) -> Path:
    """The command line with its defaults."""
    from infer_opt.cli.main import run

    out = job.out / "artifact"
    words = ["--target", job.target, "--calib", str(job.feeds), "--out", str(out)]
    if code := run(["compile", str(job.model), *words]):
        sys.exit(code)
    return out / str(json.loads((out / "manifest.json").read_text(encoding="utf-8"))["model"])


def prepared(job: Job) -> Path:
    """What onnxruntime's guide asks for before quantization; the model as it is where that fails."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    def attempt(*, skip: bool) -> bool:
        try:
            quant_pre_process(job.model, path, skip_symbolic_shape=skip)
        except Exception as error:  # noqa: BLE001 - it raises bare Exception itself; the log keeps what it said
            print(f"quant_pre_process, skip_symbolic_shape={skip}: {error}")
            return False
        return True

    path = job.out / "prepared.onnx"
    return path if attempt(skip=False) or attempt(skip=True) else job.model


def ort_static(job: Job, method: str) -> Path:
    """`quantize_static` of onnxruntime: QDQ, u8 activations, s8 weights per channel."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    path = job.out / "model.onnx"
    quantize_static(
        prepared(job),
        path,
        Reader(job),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod[method],
    )
    return path


def ort_dynamic(job: Job) -> Path:
    """`quantize_dynamic` of onnxruntime, per channel; its guide asks for no preparation."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = job.out / "model.onnx"
    quantize_dynamic(job.model, path, per_channel=True, weight_type=QuantType.QInt8)
    return path


def nncf_openvino(job: Job) -> Path:
    """NNCF's `quantize` on the OpenVINO model, MIXED preset: asymmetric activations, symmetric weights."""
    import nncf
    import openvino

    path = job.out / "model.xml"
    model = openvino.Core().read_model(job.model)
    quantized = nncf.quantize(model, nncf.Dataset(list(job.samples())), preset=nncf.QuantizationPreset.MIXED)
    openvino.save_model(quantized, path, compress_to_fp16=False)
    return path


MAKERS = {
    "infer-opt": infer_opt,
    "ort-minmax": partial(ort_static, method="MinMax"),
    "ort-percentile": partial(ort_static, method="Percentile"),
    "ort-dynamic": ort_dynamic,
    "nncf-openvino": nncf_openvino,
}
PACKAGES = {
    "infer-opt": ("infer_opt",),
    "ort-minmax": ("onnx", "onnxruntime"),
    "ort-percentile": ("onnx", "onnxruntime"),
    "ort-dynamic": ("onnx", "onnxruntime"),
    "nncf-openvino": ("nncf", "openvino"),
}


@dataclass(frozen=True)
class Made:
    """What became of one call: an artifact, or why there is none; seconds are wall-clock, measured."""

    seconds: float
    artifact: Path | None = None
    peak_mb: float | None = None
    fails: str | None = None

    @property
    def megabytes(self) -> float:
        """Of the artifact with its weights, on disk."""
        files = self.artifact.parent.glob(f"{self.artifact.stem}.*") if self.artifact else ()
        return sum(file.stat().st_size for file in files) / 1e6


def python_of(engine: str) -> str:
    """The interpreter that has the engine's packages."""
    return os.environ.get(PYTHONS.get(engine, ""), sys.executable)


def missing_packages(engine: str) -> list[str]:
    """Those that its Python does not have; all where there is no such Python."""
    names = PACKAGES[engine]
    code = "import importlib.util, sys; print(*(name for name in sys.argv[1:] if not importlib.util.find_spec(name)))"
    try:
        done = subprocess.run([python_of(engine), "-c", code, *names], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return list(names)
    return done.stdout.split()


def fresh(folder: Path) -> Path:
    """The folder, empty: what an earlier run left there goes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def make(engine: str, model: Path, feeds: Path, out: Path, target: str, *, limit: float) -> Made:
    """Let an engine make its artifact.

    Args:
        model: an .onnx file.
        feeds: a folder of .npz files, each one feed by input name.
        out: becomes a folder that holds nothing else than the artifact and `log.txt`, what the engine said.
        target: the profile that infer-opt compiles for.
        limit: seconds that it may take.
    """
    log = fresh(out) / "log.txt"
    command = [python_of(engine), __file__, engine, *(str(path.resolve()) for path in (model, feeds, out)), target]
    started = time.perf_counter()
    with log.open("w", encoding="utf-8") as words:
        try:
            run = partial(subprocess.run, stdout=words, stderr=subprocess.STDOUT, timeout=limit, check=False)
            code = run(command).returncode
        except subprocess.TimeoutExpired:
            return Made(time.perf_counter() - started, fails=f"took more than {limit:g} s")
    seconds = time.perf_counter() - started
    if code:
        return Made(seconds, fails=reason(log, code))
    told = json.loads((out / MADE).read_text(encoding="utf-8"))
    return Made(seconds, Path(told["artifact"]), told["peak_mb"])


def reason(log: Path, code: int) -> str:
    """The last thing that a maker said, or what ended it."""
    if code < 0:
        return f"ended by signal {-code}"
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    said = [line for line in lines if line and not line.startswith("hint:")]
    return said[-1][:200] if said else f"ended with code {code}"


def peak_megabytes() -> float | None:
    """Of this process, or of the largest that it ran; None where the operating system does not tell.

    Its own from /proc: getrusage's begins at what the parent had. A child's begins at this one's, which is no more.
    """
    if not sys.platform.startswith("linux"):
        return None
    own = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # kB on Linux
    return max(int(own[1]), children) * 1024 / 1e6 if own else None


def main() -> None:
    engine, model, feeds, out, target = sys.argv[1:]
    job = Job(Path(model), Path(feeds), Path(out), target)
    path = MAKERS[engine](job)
    told = {"artifact": str(path), "peak_mb": peak_megabytes()}
    (job.out / MADE).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Running a model in onnxruntime on this host: one place for session options and for what its failures mean."""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from infer_opt import ir
from infer_opt.errors import InputError, pass_on_no_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RunError", "Runner", "runtime_version", "to_keep"]

_FAULTS = (
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
)
_NODE = re.compile(r"running (?P<op>\w+) node\. Name:'(?P<name>[^']*)' Status Message: (?P<why>.*)", re.DOTALL)
_UNKNOWN_OPERATOR = "is not a registered function/op"
_KERNEL = "_kernel_time"  # how onnxruntime's profile ends the name of a kernel's event
_MICROSECOND = 1e-6
_WARM_UPS = 2
_CODE_PLACE = re.compile(r"\S*\.(?:cc|h):\d+ \S+(?: \[[^\]]*\])?\s*")


Mode = Literal["fast", "lean", "profiled"]


def runtime_version() -> str:
    """Of onnxruntime: another has other kernels, which round otherwise."""
    return str(ort.__version__)


class RunError(InputError):
    """onnxruntime refused to load or to run a model."""


class Runner:
    """One onnxruntime session on the CPU.

    Args:
        model: a file, the bytes of a model, or a model whose weights stand beside it.
        what: how messages call the model.
        threads: intra-op threads.
        arena: whether memory is kept for the next run; without it, peak memory follows the largest sample only.
        optimized: whether onnxruntime may rewrite the graph.
        mode: `lean` frees values as early as they can be, at some cost in time: nodes run in the order of the graph,
            and onnxruntime keeps none of them back to convert its layout later; `profiled` times every kernel, for
            `kernel_seconds`.
        signed: whether int8 activations stay signed, as on Arm; on x86 onnxruntime makes them uint8 otherwise.

    Raises:
        RunError: onnxruntime cannot load the model.
        MemoryError: there is not enough for it.
    """

    def __init__(
        self,
        model: Path | bytes | ir.Detached,
        what: str,
        *,
        threads: int = 1,
        arena: bool = True,
        optimized: bool = True,
        mode: Mode = "fast",
        signed: bool = False,
    ) -> None:
        self.what = what
        self._file = model if isinstance(model, Path) else None
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        options.enable_cpu_mem_arena = arena
        options.enable_mem_pattern = arena
        if mode == "lean":
            options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        if signed:
            options.add_session_config_entry("session.qdqisint8allowed", "1")
        if mode == "profiled":
            self._profile = TemporaryDirectory(prefix="infer-opt-profile-")
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(self._profile.name) / "run")
        if not optimized:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        source = str(model) if isinstance(model, Path) else model
        if isinstance(source, ir.Detached):
            # The session reads these arrays for as long as it lives.
            self._weights = [ort.OrtValue.ortvalue_from_numpy(array) for array in source.weights.values()]
            options.add_external_initializers(list(source.weights), self._weights)
            source = source.model
        try:
            self._session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except _FAULTS as error:
            reason = _reason(error)
            pass_on_no_memory(error, f"{what}: {reason}")
            raise RunError(
                f"onnxruntime cannot load {what}: {reason}",
                "run it on the device, or name a reference of the operator (--plugin)"
                if _UNKNOWN_OPERATOR in reason
                else "check the model with `onnx.checker`",
            ) from error
        self.outputs: tuple[str, ...] = tuple(output.name for output in self._session.get_outputs())

    @classmethod
    def of_file(cls, path: Path, what: str | None = None, *, threads: int = 1, signed: bool = False) -> Runner:
        """A session of a file; custom operators run as their references, where a plugin registered some.

        Args:
            what: how messages call the model, `path` if None.
        """
        what = what or f"`{path}`"
        if ir.registered_references():
            model = ir.load(path)
            if ir.referenced_operators(model):
                return cls.of_model(model, what, threads=threads, signed=signed)
        return cls(path, what, threads=threads, signed=signed)

    @classmethod
    def of_model(
        cls,
        model: ir.Model,
        what: str,
        *,
        threads: int = 1,
        arena: bool = True,
        mode: Mode = "fast",
        signed: bool = False,
        disposable: bool = False,
    ) -> Runner:
        """A session of a model in memory, which shares its weights; custom operators run as their references.

        Args:
            disposable: nobody needs the model afterwards.
        """
        detached = ir.detach(ir.expand_references(model), disposable=disposable)
        return cls(detached, what, threads=threads, arena=arena, mode=mode, signed=signed)

    def run(
        self, feed: Mapping[str, np.ndarray[Any, Any]], sample: str = "a sample"
    ) -> dict[str, np.ndarray[Any, Any]]:
        """All outputs by name, in memory of the session, which stays as long as one of them does.

        Raises:
            RunError: a node failed; the message names it and the sample.
            MemoryError: there is not enough for it.
        """
        try:
            results = self._session.run(None, dict(feed))
        except _FAULTS as error:
            pass_on_no_memory(error, f"{self.what} on {sample}: {_reason(error)}")
            raise RunError(
                f"{self.what} fails on {sample}: {self._reason_in_its_names(feed, error)}",
                "check the model's shapes, and the sample's, against each other",
            ) from error
        return dict(zip(self.outputs, (np.asarray(result) for result in results), strict=True))

    def _reason_in_its_names(self, feed: Mapping[str, np.ndarray[Any, Any]], error: Exception) -> str:
        """The reason by the names of the file: onnxruntime renames the nodes that it fuses or converts."""
        if self._file is not None:
            options = ort.SessionOptions()
            options.log_severity_level = 4
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            try:
                ort.InferenceSession(str(self._file), options, providers=["CPUExecutionProvider"]).run(None, dict(feed))
            except _FAULTS as plain:
                return _reason(plain)
        return _reason(error)

    def kernel_seconds(self, feed: Mapping[str, np.ndarray[Any, Any]], repeats: int) -> dict[str, float]:
        """Median seconds of each kernel by name, measured over `repeats` runs after two more; only once a session."""
        for _ in range(_WARM_UPS + repeats):
            self._session.run(None, dict(feed))
        profile = Path(self._session.end_profiling())
        taken: dict[str, list[float]] = defaultdict(list)
        for event in json.loads(profile.read_text(encoding="utf-8")):
            if event.get("cat") == "Node" and event["name"].endswith(_KERNEL):
                taken[event["name"].removesuffix(_KERNEL)].append(event["dur"] * _MICROSECOND)
        self._profile.cleanup()
        return {name: float(np.median(times[_WARM_UPS:])) for name, times in taken.items()}

    def seconds(self, feed: Mapping[str, np.ndarray[Any, Any]], repeats: int = 1) -> float:
        """Mean wall-clock seconds of one run over `repeats` runs, as measured."""
        ready = dict(feed)
        started = time.perf_counter()
        for _ in range(repeats):
            self._session.run(None, ready)
        return (time.perf_counter() - started) / repeats


def to_keep(outputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Outputs of `run` in memory of their own: one of them would keep all that its session ever took.

    That was 200 MB for each of eight parts of a Whisper encoder, of which 6 MB were to be kept (measured).
    """
    return {name: array.copy() for name, array in outputs.items()}


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    node = _NODE.search(text)
    if node:
        return f"node `{node['name']}` ({node['op']}): {_CODE_PLACE.sub('', node['why']).strip()[:160]}"
    return _CODE_PLACE.sub("", text.split(" : ", 3)[-1]).strip()[:200]

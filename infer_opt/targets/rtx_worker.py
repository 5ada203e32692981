"""Run by the Python of the environment `tensorrt-rtx`: parse a graph, build it for a GPU that is not here, and tell.

    python rtx_worker.py MODEL.onnx SM SHAPES

SHAPES is JSON: by input the smallest, the usual and the largest shape. The last line of stdout is JSON too. Nothing of
infer_opt is imported: that Python does not have it.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

_LIBRARIES = ("libtensorrt_rtx.so.1", "libtensorrt_onnxparser_rtx.so.1")
_MOST_ERRORS = 3


def main(model: str, wanted: str, shapes: str) -> dict[str, Any]:
    """What the parser and the builder made of the file."""
    trt = _bindings()
    capability = _nearest(trt, wanted)
    log = _log(trt)
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, log)
    found: dict[str, Any] = {"version": trt.__version__, "capability": capability, "parsed": False, "built": None}
    if not parser.parse_from_file(model):
        errors = [parser.get_error(index) for index in range(min(parser.num_errors, _MOST_ERRORS))]
        return found | {"errors": [f"{error.node_name()}: {error.desc()}" for error in errors] or log.lines}
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    outputs = [layer.get_output(index) for layer in layers for index in range(layer.num_outputs)]
    types = Counter(str(value.dtype).rpartition(".")[2] for value in outputs if value is not None)
    found |= {"parsed": True, "layers": len(layers), "types": dict(types.most_common()), "errors": []}
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    opened = [value for value in inputs if any(size < 0 for size in value.shape)]
    known = json.loads(shapes)
    found["open"] = _words(opened, known)
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(getattr(trt.ComputeCapability, capability), 0)
    if opened:
        profile = builder.create_optimization_profile()
        for value in opened:
            ones = [max(1, size) for size in value.shape]
            profile.set_shape(value.name, *known.get(value.name, [ones] * 3))
        config.add_optimization_profile(profile)
    built = builder.build_serialized_network(network, config) is not None
    return found | {"built": built, "errors": [] if built else log.lines[-_MOST_ERRORS:]}


def _words(opened: list[Any], known: dict[str, Any]) -> str | None:
    """What open sizes are taken for; None where there are none."""
    if not opened:
        return None
    return "the shapes of the samples" if all(value.name in known for value in opened) else "open sizes of 1"


def _bindings() -> Any:
    spec = importlib.util.find_spec("tensorrt_rtx_libs")
    folder = Path(str(spec.origin)).parent if spec is not None else Path()
    for name in _LIBRARIES:
        ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
    return importlib.import_module("tensorrt_rtx_bindings")


def _log(trt: Any) -> Any:
    class Log(trt.ILogger):  # type: ignore[misc]
        """Keeps what went wrong."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.lines: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            """Called by TensorRT."""
            if severity <= trt.ILogger.ERROR:
                self.lines.append(" ".join(message.split()))

    return Log()


def _nearest(trt: Any, wanted: str) -> str:
    """The capability itself, or the next lower one that the builder knows: 86 stands in for 87."""
    known = sorted(int(name[2:]) for name in dir(trt.ComputeCapability) if name.startswith("SM"))
    return f"SM{max((each for each in known if each <= int(wanted)), default=known[0])}"


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))  # noqa: T201 - the answer

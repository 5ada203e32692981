"""ONNX models written as text, loaded as a user's file is, and run by onnxruntime as they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime

from infer_opt import ir

HEADER = '<ir_version: 8, opset_import: ["": 13]>'
Feed = dict[str, np.ndarray]


def parse(text: str) -> onnx.ModelProto:
    """The model of a text; IR version 8 and opset 13 where it does not begin with its own `<...>`."""
    return onnx.parser.parse_model(text if text.lstrip().startswith("<") else HEADER + text)


def load(model: str | onnx.ModelProto, folder: Path) -> ir.Model:
    """Write a model to a file in `folder`, and load that."""
    file = folder / "model.onnx"
    file.write_bytes((parse(model) if isinstance(model, str) else model).SerializeToString())
    return ir.load(file)


def run(model: bytes, feed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs, with no optimisation and one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, dict(feed))


def random_feed(
    model: onnx.ModelProto,
    sizes: Mapping[str, int],
    seed: int,
    below: Mapping[str, int] | None = None,
) -> Feed:
    """Random values for the inputs that have no default: normal, or small integers (from 0 where `below` has a name).

    Args:
        sizes: of the symbolic dimensions, by symbol.
        below: an upper bound of the integers of an input.
    """
    random = np.random.default_rng(seed)
    defaults = {tensor.name for tensor in model.graph.initializer}
    feed = {}
    for value in model.graph.input:
        if value.name in defaults:
            continue
        tensor = value.type.tensor_type
        shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        low, high = (0, below[value.name]) if below and value.name in below else (-3, 4)
        whole = dtype.kind in "iu"
        values = random.integers(0 if dtype.kind == "u" else low, high, shape) if whole else random.normal(0, 2, shape)
        feed[value.name] = np.asarray(values > 0 if dtype.kind == "b" else values).astype(dtype)
    return feed


def node_kinds(model: ir.Model) -> Sequence[str]:
    """The operators of the main graph, in order."""
    return [node.op_type for node in model.graph]

"""Evaluating one node on constant inputs, with the runtime's own kernels, so that folding changes no result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from infer_opt.ir.constants import constant

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["evaluate"]

_FAULTS = (
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
    RuntimeError,  # numpy has no type for an output (bfloat16, float8)
)


def evaluate(node: ir.Node, opsets: Mapping[str, int]) -> list[np.ndarray[Any, Any]] | None:
    """The outputs of a node whose inputs are all constants, as arrays.

    Returns:
        None where onnxruntime has no kernel for the node's dtypes, the node fails on these inputs, or an input or
        output is no tensor of numbers: it is then left in the graph, to do at run time whatever it does.
    """
    proto = onnx.NodeProto()
    ir.serde.serialize_node_into(proto, node)
    initializers = []
    for value in {value.name: value for value in node.inputs if value is not None}.values():
        array = constant(value)
        if array is None or value.dtype == ir.DataType.STRING:
            return None
        initializers.append(ir.serde.serialize_tensor(ir.tensor(array, name=value.name)))
    outputs = [onnx.ValueInfoProto(name=value.name) for value in node.outputs if value.name]
    graph = onnx.helper.make_graph([proto], "node", [], outputs, initializers)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, {})
    except _FAULTS:
        return None
    # A sequence comes as a list, strings as objects.
    return results if all(isinstance(item, np.ndarray) and item.dtype != np.object_ for item in results) else None

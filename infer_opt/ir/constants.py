"""Constants of a graph: what may be treated as one, and its value as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from infer_opt.ir.edit import all_graphs, inner_graphs

__all__ = ["array", "constant", "content_bytes", "initializer_bytes", "is_constant", "known_ahead", "scalar"]


def is_constant(value: ir.Value | None) -> bool:
    """Whether `value` is an initializer whose content no caller can replace.

    An initializer that is also a graph input is a default, not a constant (ONNX IR version 4 and later).
    """
    return value is not None and value.is_initializer() and not value.is_graph_input() and value.const_value is not None


def constant(value: ir.Value | None) -> np.ndarray[Any, Any] | None:
    """The array of a constant, or None where `value` is none. Not a copy: never write into it."""
    if value is None or not is_constant(value):
        return None
    assert value.const_value is not None  # noqa: S101 - is_constant has just said so; this tells the type checker
    return value.const_value.numpy()


def array(value: ir.Value) -> np.ndarray[Any, Any]:
    """The array of a value that is known to be constant.

    Raises:
        ValueError: it is not.
    """
    found = constant(value)
    if found is None:
        message = f"`{value.name}` is not a constant"
        raise ValueError(message)
    return found


def scalar(value: ir.Value | None) -> Any | None:
    """The single element of a one-element constant of any rank, or None."""
    found = constant(value)
    if found is None or found.size != 1 or found.dtype.kind in "OSU":
        return None
    return found.reshape(())[()].item()


def known_ahead(model: ir.Model) -> set[ir.Value]:
    """Initializers, defaults of inputs included, and what nodes without subgraphs make of constants alone."""
    found: set[ir.Value] = set()
    for graph in all_graphs(model):
        found.update(graph.initializers.values())
        for node in graph:
            reads = [value for value in node.inputs if value is not None]
            folded = bool(reads) and not any(inner_graphs(node)) and found.issuperset(reads)
            if folded or node.op_type == "Constant":
                found.update(node.outputs)
    return found


def content_bytes(tensor: ir.TensorProtocol) -> bytes:
    """The content of a tensor as bytes; two tensors of one dtype and shape hold the same where these are equal."""
    if tensor.dtype == ir.DataType.STRING:
        return repr(tensor.numpy().tolist()).encode()
    return tensor.tobytes()


def initializer_bytes(model: ir.Model) -> int:
    """Bytes of all initializers of a model, subgraphs included."""
    return sum(
        value.const_value.nbytes
        for graph in all_graphs(model)
        for value in graph.initializers.values()
        if value.const_value is not None
    )

"""Shapes and dtypes of values: inferred by onnx, read here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir

from infer_opt.ir.edit import all_graphs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["dims", "elements", "infer_shapes", "numpy_dtype", "rank"]

# From opset 14 on, onnx follows a Reshape to a computed shape; no other shape is inferred differently.
_OPSET_BEFORE_COMPUTED_RESHAPE = 13
_LONGEST_VECTOR = 1_000_000  # elements; nothing that decides a shape is as long
_MADE_UP = "unk__"  # how onnx begins the symbol of a dimension that it could not infer
_SMALL_BYTES = 1024  # larger constants never decide a shape, and would be copied through protobuf for nothing


def dims(value: ir.Value | None) -> tuple[int | str | None, ...] | None:
    """Dimensions of a value: an int is fixed, a str is a symbol, None is unknown. None for an unknown rank."""
    if value is None or value.shape is None:
        return None
    return tuple(d if isinstance(d, int) else d.value for d in value.shape)


def rank(value: ir.Value | None) -> int | None:
    """Number of dimensions, or None where it is unknown."""
    return None if value is None or value.shape is None else len(value.shape)


def elements(value: ir.Value | None) -> int | None:
    """Number of elements where every dimension is fixed, otherwise None."""
    shape = dims(value)
    if shape is None or not all(isinstance(d, int) for d in shape):
        return None
    return math.prod(d for d in shape if isinstance(d, int))


def numpy_dtype(value: ir.Value) -> np.dtype[Any]:
    """The numpy dtype of a value's elements.

    Raises:
        ValueError: the dtype is unknown, or is one numpy cannot hold.
    """
    if value.dtype is None:
        message = f"the dtype of `{value.name}` is unknown"
        raise ValueError(message)
    if value.dtype == ir.DataType.STRING:
        return np.dtype(np.object_)
    return np.dtype(value.dtype.numpy())


def infer_shapes(model: ir.Model, *, outputs: bool = False) -> None:
    """Infer dtypes and shapes of inner values, subgraphs included, in place.

    Dimensions that depend on the input stay symbols; what cannot be inferred keeps what it had. Inputs and outputs of
    the graph keep what the file declares. Large weights are left out of the inference, so memory does not grow.

    Args:
        outputs: infer the shapes of the graph's outputs too, after its inputs were given other shapes.
    """
    proto = _without_weights(model)
    for entry in proto.opset_import:
        if entry.domain == "" and entry.version == _OPSET_BEFORE_COMPUTED_RESHAPE:
            entry.version += 1
    found = _inferred(proto, data_prop=False)
    if not any(_is_long_vector(item) for item in found.values()):
        found = _inferred(proto, data_prop=True)
    kept = {*model.graph.inputs, *(() if outputs else model.graph.outputs)}
    for graph in all_graphs(model):
        values = [value for value in graph.inputs if graph is not model.graph]
        values.extend(value for node in graph for value in node.outputs)
        for value in values:
            if value not in kept and value.name in found:
                _apply(value, found[value.name])


def _without_weights(model: ir.Model) -> onnx.ModelProto:
    copy = model.clone()
    _forget_made_up_symbols(copy)
    for name, value in list(copy.graph.initializers.items()):
        tensor = value.const_value
        if tensor is not None and tensor.nbytes > _SMALL_BYTES:
            value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
            del copy.graph.initializers[name]
            value.const_value = None
            if not value.is_graph_input():
                copy.graph.inputs.append(value)
    return ir.serde.serialize_model(copy)


def _forget_made_up_symbols(model: ir.Model) -> None:
    """What an earlier inference did not know, this one may; a symbol that stood for it would be kept."""
    for graph in all_graphs(model):
        for value in (value for node in graph for value in node.outputs if value.shape is not None):
            shape = dims(value) or ()
            if any(isinstance(size, str) and size.startswith(_MADE_UP) for size in shape):
                known = [None if isinstance(size, str) and size.startswith(_MADE_UP) else size for size in shape]
                value.shape = ir.Shape(known)


def _inferred(proto: onnx.ModelProto, *, data_prop: bool) -> dict[str, onnx.TypeProto]:
    inferred = onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=data_prop)
    return dict(_inferred_types(inferred.graph))


def _is_long_vector(found: onnx.TypeProto) -> bool:
    """Propagating data, onnx 1.23 makes a dimension of some 65 bytes for each element of a vector."""
    shape = found.tensor_type.shape.dim
    return len(shape) == 1 and shape[0].dim_value > _LONGEST_VECTOR


def _inferred_types(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TypeProto]]:
    for info in (*graph.value_info, *graph.output):
        yield info.name, info.type
    for node in graph.node:
        for attr in node.attribute:
            for inner in [attr.g] if attr.HasField("g") else attr.graphs:
                yield from ((info.name, info.type) for info in inner.input)
                yield from _inferred_types(inner)


def _apply(value: ir.Value, found: onnx.TypeProto) -> None:
    inferred = ir.serde.deserialize_type_proto_for_type(found)
    if inferred is not None:
        value.type = inferred
    shape = ir.serde.deserialize_type_proto_for_shape(found)
    if shape is not None:
        value.shape = shape

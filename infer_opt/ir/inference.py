"""Inferring dtypes and shapes, by onnx."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from infer_opt.ir.edit import all_graphs
from infer_opt.ir.shapes import dims

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["infer_shapes", "shapes_known"]

# From opset 14 on, onnx follows a Reshape to a computed shape; no other shape is inferred differently.
_OPSET_BEFORE_COMPUTED_RESHAPE = 13
_LONGEST_VECTOR = 1_000_000  # elements; nothing that decides a shape is as long
_MADE_UP = "unk__"  # how onnx begins the symbol of a dimension that it could not infer
_SMALL_BYTES = 1024  # larger constants never decide a shape, and would be copied through protobuf for nothing


def infer_shapes(model: ir.Model, *, outputs: bool = False) -> bool:
    """Infer dtypes and shapes of inner values, subgraphs included, in place.

    Dimensions that depend on the input stay symbols; what cannot be inferred keeps what it had. Inputs and outputs of
    the graph keep what the file declares. Large weights are left out of the inference, so memory does not grow.

    Args:
        outputs: infer the shapes of the graph's outputs too, after its inputs were given other shapes.

    Returns:
        whether a dtype or a shape is another now.
    """
    proto = _without_weights(model)
    for entry in proto.opset_import:
        if entry.domain == "" and entry.version == _OPSET_BEFORE_COMPUTED_RESHAPE:
            entry.version += 1
    found = _inferred(proto, data_prop=False)
    if not any(_is_long_vector(item) for item in found.values()):
        found = _inferred(proto, data_prop=True)
    kept = {*model.graph.inputs, *(() if outputs else model.graph.outputs)}
    changed = False
    for value in _inner_values(model):
        if value not in kept and value.name in found:
            changed = _apply(value, found[value.name]) or changed
    return changed


def shapes_known(model: ir.Model) -> bool:
    """Whether every value has a dtype and a shape of sizes and symbols of the file: there is no more to infer.

    Linear in the nodes, and far less work than inference.
    """
    return all(_is_known(value) for value in _inner_values(model) if value.name)


def _inner_values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in all_graphs(model):
        if graph is not model.graph:
            yield from graph.inputs
        for node in graph:
            yield from node.outputs


def _is_known(value: ir.Value) -> bool:
    if value.type is None or value.shape is None:
        return False
    return all(isinstance(d, int) or (d.value is not None and not _is_made_up(d.value)) for d in value.shape)


def _is_made_up(size: int | str | None) -> bool:
    return isinstance(size, str) and size.startswith(_MADE_UP)


def _without_weights(model: ir.Model) -> onnx.ModelProto:
    """What inference needs of a model, which is written node by node: copying the graph first would take as long."""
    proto = onnx.ModelProto(ir_version=model.ir_version or 0)
    for domain, version in model.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    graph = proto.graph
    for value in model.graph.inputs:
        ir.serde.serialize_value_into(graph.input.add(), value)
    for value in model.graph.initializers.values():
        _write_initializer(graph, value)
    _forget_made_up_symbols(inner for inner in all_graphs(model) if inner is not model.graph)
    for node in model.graph:
        ir.serde.serialize_node_into(graph.node.add(), node)
        for value in node.outputs:
            if value.name and not value.is_graph_output():
                _write_known(graph, value)
    for value in model.graph.outputs:
        _write(graph.output.add(), value)
    return proto


def _write_initializer(graph: onnx.GraphProto, value: ir.Value) -> None:
    tensor = value.const_value
    if tensor is None:
        return
    if tensor.nbytes <= _SMALL_BYTES:
        tensor.name = value.name
        ir.serde.serialize_tensor_into(graph.initializer.add(), tensor)
    elif not value.is_graph_input():
        shape = tensor.shape.numpy()
        graph.input.append(onnx.helper.make_tensor_value_info(str(value.name), tensor.dtype.value, shape))


def _write_known(graph: onnx.GraphProto, value: ir.Value) -> None:
    if value.type is not None:
        _write(graph.value_info.add(), value)


def _write(info: onnx.ValueInfoProto, value: ir.Value) -> None:
    """Name, dtype and shape, without symbols that an earlier inference made up: this one may know more."""
    if not isinstance(value.type, ir.TensorType) or value.shape is None:
        ir.serde.serialize_value_into(info, value)
        return
    info.name = str(value.name)
    info.type.tensor_type.elem_type = value.type.dtype.value
    shape = info.type.tensor_type.shape
    shape.SetInParent()  # no dimension is a shape too
    for size in dims(value) or ():
        dimension = shape.dim.add()
        if isinstance(size, int):
            dimension.dim_value = size
        elif size is not None and not _is_made_up(size):
            dimension.dim_param = size


def _forget_made_up_symbols(graphs: Iterable[ir.Graph]) -> None:
    """In place, for subgraphs, which are written whole: what stays unknown gets a new symbol."""
    for graph in graphs:
        for value in (value for node in graph for value in node.outputs):
            shape = dims(value) or ()
            if any(_is_made_up(size) for size in shape):
                value.shape = ir.Shape([None if _is_made_up(size) else size for size in shape])


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


def _apply(value: ir.Value, found: onnx.TypeProto) -> bool:
    """Give a value what was found; whether that is new. Most of it is not, and is only compared."""
    if _same(value, found):
        return False
    inferred = ir.serde.deserialize_type_proto_for_type(found)
    if inferred is not None:
        value.type = inferred
    shape = ir.serde.deserialize_type_proto_for_shape(found)
    if shape is not None:
        value.shape = shape
    return True


def _same(value: ir.Value, found: onnx.TypeProto) -> bool:
    tensor = found.tensor_type
    if not isinstance(value.type, ir.TensorType) or value.type.dtype != tensor.elem_type:
        return False
    if not tensor.HasField("shape"):
        return True  # nothing was found, and what was there stays
    shape = dims(value)
    return shape is not None and shape == tuple(_size(dimension) for dimension in tensor.shape.dim)


def _size(dimension: onnx.TensorShapeProto.Dimension) -> int | str | None:
    kind = dimension.WhichOneof("value")
    if kind is None:
        return None
    return int(dimension.dim_value) if kind == "dim_value" else str(dimension.dim_param)

"""Constant folding: nodes on constants are computed now, as long as that does not make the artifact larger."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change, Miss
from infer_opt.passes.rewrites.clean_up.duplicates import is_random

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["fold_constants"]

# Never folded: other rewrites deal with them, or folding them would undo a quantized weight.
_NEVER = frozenset({"Constant", "DequantizeLinear", "QuantizeLinear", "Identity"})
# The output's size depends on the content of the inputs, and never exceeds rank times their size.
_SELECTING = frozenset({"Compress", "NonZero", "Unique"})


def fold_constants(model: ir.Model, limit_bytes: int) -> Iterator[Change | Miss]:
    """Compute every node whose inputs are constants, or whose result follows from fixed dimensions.

    A result larger than `limit_bytes` is kept only where it is no larger than the constants that die with the node:
    folding never makes the file grow by more than that, and an Expand, Tile or ConstantOfShape of a huge constant is
    never even computed.
    """
    names = ir.Names(model)
    for graph in ir.all_graphs(model):
        for node in graph:
            if node.domain or node.op_type in _NEVER or is_random(node) or any(ir.inner_graphs(node)):
                continue
            results = _from_shapes(node)
            if results is None and node.inputs and _all_constant(node):
                size = _output_bytes(node)
                if size is None or (size > limit_bytes and size > _freed_bytes(node)):
                    yield Miss("fold constants", str(node.name), _too_large(node, size, limit_bytes))
                    continue
                results = ir.evaluate(node, model.opset_imports)
            if results is not None:
                yield _fold(graph, node, results, names)


def _all_constant(node: ir.Node) -> bool:
    return all(value is None or ir.is_constant(value) for value in node.inputs)


def _too_large(node: ir.Node, size: int | None, limit: int) -> str:
    if size is None:
        return f"{node.op_type}: the size of its result is not known beforehand"
    return f"{node.op_type}: its result has {size:,} bytes, more than fold_limit={limit:,}"


def _fold(graph: ir.Graph, node: ir.Node, results: list[np.ndarray[Any, Any]], names: ir.Names) -> Change:
    change = Change("fold constants", ir.origin(node), node.op_type)
    live = [value for value in node.outputs if value.name]
    for old, result in zip(live, results, strict=True):
        new = ir.constant_value(None, result)
        if old.is_graph_output():
            # An output must be made by a node: a Constant there, an initializer for everybody else.
            _constant_output(graph, node, old, new.const_value)
            new.name = names.fresh(f"{old.name}_value")
        else:
            new.name, old.name = old.name, None
        for user, index in tuple(old.uses()):
            user.replace_input_with(index, new)
        if new.uses():
            graph.register_initializer(new)
    ir.remove(node)
    return change


def _constant_output(graph: ir.Graph, node: ir.Node, old: ir.Value, tensor: Any) -> None:
    constant = ir.make_node("Constant", [], {"value": tensor}, name=node.name)
    ir.set_origin(constant, [node])
    graph.insert_before(node, constant)
    for index, value in enumerate(graph.outputs):
        if value is old:
            graph.outputs[index] = constant.outputs[0]
    name, old.name = old.name, None
    made = constant.outputs[0]
    made.name, made.type, made.shape = name, old.type, old.shape


def _freed_bytes(node: ir.Node) -> int:
    """Bytes of constants that nobody else reads and that die with the node."""
    return sum(
        value.const_value.nbytes
        for value in {value for value in node.inputs if value is not None}
        if value.const_value is not None
        and not value.is_graph_output()
        and all(user is node for user, _ in value.uses())
    )


def _output_bytes(node: ir.Node) -> int | None:
    total = 0
    for value in node.outputs:
        if not value.name:
            continue
        count = ir.elements(value)
        if count is None:
            count = _computed_elements(node)
        if count is None:
            return None
        total += count * _item_bytes(value)
    return total


def _item_bytes(value: ir.Value) -> int:
    return (
        8 if value.dtype is None else max(1, math.ceil(value.dtype.bitwidth / 8) if value.dtype.value != _STRING else 8)
    )


_STRING = 8  # ONNX element type of strings, which have no fixed width


def _computed_elements(node: ir.Node) -> int | None:
    if node.op_type == "ConstantOfShape":
        shape = ir.constant(node.inputs[0])
        return None if shape is None else math.prod(int(d) for d in shape)
    if node.op_type in _SELECTING:
        source = ir.constant(node.inputs[0])
        return None if source is None else source.size * max(1, source.ndim)
    return None


def _from_shapes(node: ir.Node) -> list[np.ndarray[Any, Any]] | None:
    """Results that follow from dimensions alone: Shape and Size of a fixed shape, and Gather or Slice of a Shape."""
    if node.op_type == "Shape":
        known = shape_of(node.outputs[0])
        return None if known is None or None in known else [np.asarray(known, np.int64)]
    if node.op_type == "Size":
        count = ir.elements(node.inputs[0])
        return None if count is None else [np.asarray(count, np.int64)]
    if node.op_type == "Gather" and ir.attribute(node, "axis", 0) == 0:
        known, indices = shape_of(node.inputs[0]), ir.constant(node.inputs[1])
        if known is None or indices is None or any(not -len(known) <= i < len(known) for i in indices.reshape(-1)):
            return None
        picked = [known[int(i)] for i in indices.reshape(-1)]
        return None if None in picked else [np.asarray(picked, np.int64).reshape(indices.shape)]
    if node.op_type == "Slice":
        return _slice_of_shape(node)
    return None


def _slice_of_shape(node: ir.Node) -> list[np.ndarray[Any, Any]] | None:
    known = shape_of(node.inputs[0])
    bounds = [ir.constant(value) for value in node.inputs[1:]]
    if known is None or len(bounds) < 2 or any(bound is None or bound.size != 1 for bound in bounds):
        return None
    numbers = [int(bound.reshape(())) for bound in bounds if bound is not None]
    step = numbers[3] if len(numbers) > 3 else 1
    picked = known[numbers[0] : numbers[1] : step] if step > 0 else None
    return None if picked is None or None in picked else [np.asarray(picked, np.int64)]


def shape_of(value: ir.Value | None) -> list[int | None] | None:
    """What a Shape node gives, dimension by dimension (None where it depends on the input); None if it is no Shape."""
    maker = value.producer() if value is not None else None
    if maker is None or maker.op_type != "Shape" or maker.domain:
        return None
    dims = ir.dims(maker.inputs[0])
    if dims is None:
        return None
    start, end = ir.attribute(maker, "start", 0), ir.attribute(maker, "end", None)
    return [d if isinstance(d, int) else None for d in dims[start:end]]

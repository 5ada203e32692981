"""Where a factor for each channel can move from the layer that writes a value into the layers that read it.

    y = f(W1 x + b1),  z = W2 y     is     y' = f((W1 x + b1) / s),  z = (W2 s) y'     where f(a / s) = f(a) / s

With factors that are powers of two, all numbers stay the same to the bit, but for exponents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Site", "Slot", "find_sites", "with_factors"]

_PASSES = frozenset({"Relu", "LeakyRelu"})  # f(a / s) = f(a) / s for s > 0, element by element
_POOLS = frozenset({"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"})  # over all but the channels
_WEIGHT, _BIAS = 1, 2  # inputs of Conv, Gemm and MatMul; scale and bias of LayerNormalization

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Slot:
    """A constant that takes factors.

    Args:
        node: name of the node that reads it; index: which of its inputs.
        axis: of the channels; negative axes count from the end. A single number is spread over the channels first.
    """

    node: str
    index: int
    axis: int


@dataclass(frozen=True)
class Site:
    """A value whose channels may be scaled.

    Args:
        values: names of the value and of what becomes of it on the way to its readers.
        axis: of the channels in them, from the end.
        channels: how many.
        writers: constants that are divided by the factors.
        readers: weights that are multiplied with them.
    """

    values: tuple[str, ...]
    axis: int
    channels: int
    writers: tuple[Slot, ...]
    readers: tuple[Slot, ...]

    @property
    def nodes(self) -> set[str]:
        """Names of the nodes whose constants change."""
        return {slot.node for slot in (*self.writers, *self.readers)}


def find_sites(model: ir.Model) -> list[Site]:
    """All of the main graph, in its order."""
    found: dict[ir.Value, Site | None] = {}
    for node in model.graph:
        reader = _reader(node, 0)
        if reader is None or node.inputs[0] is None:
            continue
        _, axis, channels = reader
        value = _source(node.inputs[0], axis)
        if value not in found:
            found[value] = _site(model, value, axis, channels)
    return [site for site in found.values() if site is not None]


def with_factors(model: ir.Model, factors: Mapping[Site, Array]) -> ir.Model:
    """A copy whose values at these sites are divided by factors, and that computes the same.

    Args:
        factors: positive, one for each channel of a site.
    """
    copy = ir.clone(model)
    names, nodes = ir.Names(copy), ir.nodes(copy)
    for site, factor in factors.items():
        for slots, by in ((site.writers, 1.0 / factor), (site.readers, factor)):
            for slot in slots:
                _multiply(copy, nodes[slot.node], slot, by.astype(np.float32), names)
    return copy


def _multiply(model: ir.Model, node: ir.Node, slot: Slot, factor: Array, names: ir.Names) -> None:
    old = node.inputs[slot.index]
    assert old is not None  # noqa: S101 - a slot is an input that is there
    array = ir.array(old)
    axis = slot.axis if slot.axis < 0 else slot.axis - array.ndim
    shaped = factor.reshape(-1, *[1] * (-1 - axis))
    new = ir.add_initializer(model.graph, names.fresh(f"{old.name}_scaled"), np.ascontiguousarray(array * shaped))
    node.replace_input_with(slot.index, new)
    if not old.uses() and not old.is_graph_input() and not old.is_graph_output():
        model.graph.initializers.pop(str(old.name), None)


def _source(value: ir.Value, axis: int) -> ir.Value:
    """Back over operators that hand factors on."""
    node = value.producer()
    while node is not None and _hands_on(node, axis) and node.inputs[0] is not None:
        value = node.inputs[0]
        node = value.producer()
    return value


def _hands_on(node: ir.Node, axis: int) -> bool:
    if node.domain:
        return False
    if node.op_type in _PASSES:
        return True
    rank = ir.rank(node.inputs[0])
    return node.op_type in _POOLS and rank is not None and axis == 1 - rank


def _site(model: ir.Model, value: ir.Value, axis: int, channels: int) -> Site | None:
    writers = _writers(value, axis, channels)
    if writers is None:
        return None
    values: list[str] = []
    readers: list[Slot] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        values.append(str(each.name))
        if each.is_graph_output() or each.dtype != ir.DataType.FLOAT:
            return None
        for user, index in each.uses():
            reader = _reader(user, index)
            if user.graph is not model.graph:
                return None
            if reader is not None and reader[1:] == (axis, channels):
                readers.append(reader[0])
            elif _hands_on(user, axis) and not any(more.uses() for more in user.outputs[1:]):
                waiting.append(user.outputs[0])
            else:
                return None
    return Site(tuple(values), axis, channels, tuple(writers), tuple(readers))


def _reader(node: ir.Node, index: int) -> tuple[Slot, int, int] | None:
    """The weight that meets the channels of an input; their axis in the input, from the end, and their number."""
    if node.domain or index != 0 or node.op_type not in {"Conv", "Gemm", "MatMul"} or not _own(node, _WEIGHT):
        return None
    shape = ir.array(node.inputs[_WEIGHT]).shape  # type: ignore[arg-type] # asked for by `_own`
    if node.op_type == "Conv":
        groups = ir.attribute(node, "group", 1)
        if groups == 1:
            return Slot(str(node.name), _WEIGHT, 1), 1 - len(shape), shape[1]
        depthwise = groups == shape[0] and shape[1] == 1
        return (Slot(str(node.name), _WEIGHT, 0), 1 - len(shape), shape[0]) if depthwise else None
    if len(shape) != 2 or ir.attribute(node, "transA", 0):
        return None
    axis = 1 if ir.attribute(node, "transB", 0) else 0
    return Slot(str(node.name), _WEIGHT, axis), -1, shape[axis]


def _writers(value: ir.Value, axis: int, channels: int) -> list[Slot] | None:
    """The constants by which the channels of a value can be divided, or None."""
    node = value.producer()
    if node is None or node.domain or value is not node.outputs[0]:
        return None
    if node.op_type in {"Add", "Mul"}:
        return _arithmetic(node, axis, channels)
    found = list(_linear(node, axis))
    if not found:
        return None
    fits = all(
        shape is not None and len(shape) > 0 and shape[slot.axis] == channels
        for slot in found
        for shape in (ir.dims(node.inputs[slot.index]),)
    )
    return found if fits else None


def _linear(node: ir.Node, axis: int) -> Iterator[Slot]:
    """Weight and bias, where all are constant, the weight is no other's, and the result has its channels at `axis`."""
    parameters = [index for index, value in enumerate(node.inputs) if index >= _WEIGHT and value is not None]
    if _WEIGHT not in parameters or not all(_is_constant(node.inputs[index]) for index in parameters):
        return
    rank = ir.rank(node.inputs[_WEIGHT])
    name = str(node.name)
    if node.op_type == "LayerNormalization" and ir.attribute(node, "axis", -1) == -1 and axis == -1:
        yield from (Slot(name, index, -1) for index in parameters)
    elif not _own(node, _WEIGHT):
        return
    elif node.op_type == "Conv" and rank is not None and axis == 1 - rank:
        yield from (Slot(name, index, 0) for index in parameters)
    elif node.op_type in {"Gemm", "MatMul"} and rank == 2 and axis == -1:
        yield Slot(name, _WEIGHT, 0 if ir.attribute(node, "transB", 0) else 1)
        yield from (Slot(name, index, -1) for index in parameters if index == _BIAS)


def _arithmetic(node: ir.Node, axis: int, channels: int) -> list[Slot] | None:
    """A factor takes the scale alone; a summand takes it together with what writes the other one."""
    constants = [index for index, value in enumerate(node.inputs) if _is_constant(value)]
    if len(constants) != 1 or not _spreads(node, constants[0], axis, channels):
        return None
    own = [Slot(str(node.name), constants[0], axis)]
    if node.op_type == "Mul":
        return own
    other = node.inputs[1 - constants[0]]
    if other is None or other.is_graph_output() or len(tuple(other.uses())) != 1:
        return None
    before = _writers(other, axis, channels)
    return None if before is None else [*before, *own]


def _spreads(node: ir.Node, index: int, axis: int, channels: int) -> bool:
    """Whether a constant is one number, or one for each channel, and does not widen the other side."""
    shape, other = ir.dims(node.inputs[index]), ir.dims(node.inputs[1 - index])
    if shape is None or other is None or len(shape) > len(other):
        return False
    sizes = dict(enumerate(shape, -len(shape)))
    one = all(size == 1 for size in sizes.values())
    rest = all(size == 1 for place, size in sizes.items() if place != axis)
    return other[axis:][:1] == (channels,) and (one or (rest and sizes.get(axis) == channels))


def _own(node: ir.Node, index: int) -> bool:
    """A float constant that nobody else reads."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return value is not None and _is_constant(value) and len(tuple(value.uses())) == 1


def _is_constant(value: ir.Value | None) -> bool:
    return value is not None and ir.is_constant(value) and value.dtype == ir.DataType.FLOAT

"""How an operator works on values whose axes stand in another order: the table behind moving Transposes.

A value v is held as v' in an order p where v = Transpose<p>(v'): axis i of v is axis p[i] of v'. An operator that
names axes names them by p then, and one that lists a number for each axis lists them in the order of v'.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from infer_opt import ir
from infer_opt.passes.rewrites.layout.orders import inverse

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer_opt.passes.rewrites.layout.orders import Order

__all__ = ["CARRIERS", "Array", "Carrier", "Turned"]

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Turned:
    """A node on values held in another order.

    Args:
        order: in which its outputs are held then.
        attributes: those that change.
        constants: inputs that change, by index.
    """

    order: Order
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: dict[int, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Carrier:
    """An operator that can work in any order of axes.

    Args:
        turn: the node in an order of its inputs, or None where it cannot work in that one.
        all_inputs: whether every input has the axes, instead of the first.
        element_wise: whether it works on each element alone.
    """

    turn: Callable[[ir.Node, Order], Turned | None]
    all_inputs: bool = False
    element_wise: bool = False


def _as_it_is(node: ir.Node, order: Order) -> Turned:
    del node
    return Turned(order)


def _along_axis(default: int | None) -> Callable[[ir.Node, Order], Turned | None]:
    """The attribute `axis`."""

    def turn(node: ir.Node, order: Order) -> Turned | None:
        axis = ir.attribute(node, "axis", default)
        return None if axis is None else Turned(order, {"axis": order[axis % len(order)]})

    return turn


def _quantizer(node: ir.Node, order: Order) -> Turned | None:
    """One scale for all, or one along `axis`."""
    if ir.attribute(node, "block_size", 0):
        return None
    whole = ir.elements(node.inputs[1]) == 1 and ir.rank(node.inputs[1]) == 0
    return Turned(order) if whole else _along_axis(1)(node, order)


def _gather(node: ir.Node, order: Order) -> Turned | None:
    """Indices in one row pick along an axis, and a single one takes the axis away."""
    rank = ir.rank(node.inputs[1])
    axis = ir.attribute(node, "axis", 0) % len(order)
    if rank == 1:
        return Turned(order, {"axis": order[axis]})
    return Turned(_without(order, [axis]), {"axis": order[axis]}) if rank == 0 else None


def _extreme(node: ir.Node, order: Order) -> Turned:
    """ArgMax and ArgMin."""
    axis = ir.attribute(node, "axis", 0) % len(order)
    kept = ir.attribute(node, "keepdims", 1)
    return Turned(order if kept else _without(order, [axis]), {"axis": order[axis]})


def _reduce(node: ir.Node, order: Order) -> Turned | None:
    """Axes in the second input, as since opset 18; without one it reduces all."""
    if "axes" in node.attributes or ir.attribute(node, "noop_with_empty_axes", 0):
        return None
    kept = ir.attribute(node, "keepdims", 1)
    if len(node.inputs) < 2 or node.inputs[1] is None:
        return Turned(order if kept else ())
    axes = _axes(node.inputs[1], len(order))
    if not axes:
        return None
    names = np.array([order[axis] for axis in axes], np.int64)
    return Turned(order if kept else _without(order, axes), constants={1: names})


def _squeeze(node: ir.Node, order: Order) -> Turned | None:
    axes = _axes(node.inputs[1], len(order)) if len(node.inputs) > 1 else None
    if not axes:
        return None
    return Turned(_without(order, axes), constants={1: np.array([order[axis] for axis in axes], np.int64)})


def _unsqueeze(node: ir.Node, order: Order) -> Turned | None:
    """The new axes stay where they are, around those of the input in its order."""
    given = ir.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if given is None:
        return None
    rank = len(order) + given.size
    new = {int(axis) % rank for axis in given.reshape(-1)}
    old = [axis for axis in range(rank) if axis not in new]
    turned = iter(old[axis] for axis in order)
    return Turned(tuple(axis if axis in new else next(turned) for axis in range(rank)))


def _cumsum(node: ir.Node, order: Order) -> Turned | None:
    given, axis = ir.constant(node.inputs[1]), ir.scalar(node.inputs[1])
    if given is None or axis is None:
        return None
    return Turned(order, constants={1: np.full(given.shape, order[axis % len(order)], given.dtype)})


def _pad(node: ir.Node, order: Order) -> Turned | None:
    pads = ir.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if pads is None:
        return None
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        return _with_axes(node, order, 3)
    both = _listed(pads.reshape(2, -1).T, order)
    return None if both is None else Turned(order, constants={1: np.ascontiguousarray(both.T).reshape(-1)})


def _slice(node: ir.Node, order: Order) -> Turned | None:
    if len(node.inputs) < 3:
        return None  # of opset 9 or older: the bounds are attributes
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        return _with_axes(node, order, 3)
    starts = ir.dims(node.inputs[1])
    if starts is None or starts != (len(order),):
        return None
    return _with_bounds_in_order(node, order)


def _with_bounds_in_order(node: ir.Node, order: Order) -> Turned | None:
    given = {index: node.inputs[index] for index in (1, 2, 4) if index < len(node.inputs)}  # starts, ends, steps
    bounds = {index: ir.constant(value) for index, value in given.items() if value is not None}
    turned = {index: _listed(bound, order) for index, bound in bounds.items() if bound is not None}
    done = {index: bound for index, bound in turned.items() if bound is not None}
    return Turned(order, constants=done) if len(done) == len(bounds) else None


def _with_axes(node: ir.Node, order: Order, index: int) -> Turned | None:
    given, axes = ir.constant(node.inputs[index]), _axes(node.inputs[index], len(order))
    if given is None or axes is None:
        return None
    return Turned(order, constants={index: np.array([order[axis] for axis in axes], given.dtype)})


def _resize(node: ir.Node, order: Order) -> Turned | None:
    """Constant scales, or sizes of an image whose size is fixed, without `axes` and region of interest.

    What interpolates has to leave the first two axes alone: onnxruntime has kernels for images of whole channels only.
    """
    cropping = ir.attribute(node, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    if cropping or len(node.inputs) < 3 or "axes" in node.attributes:
        return None
    index = 2 if ir.elements(node.inputs[2]) else 3
    given = ir.constant(node.inputs[index]) if index < len(node.inputs) else None
    before = (1,) * len(order) if index == 2 else ir.dims(node.inputs[0])
    if given is None or before is None or len(given) != len(order):
        return None
    scaled = {axis for axis in range(len(order)) if given[axis] != before[axis]}
    if ir.attribute(node, "mode", "nearest") != "nearest" and {order[axis] for axis in scaled} & {0, 1}:
        return None
    return Turned(order, constants={index: given[list(inverse(order))]})


def _per_axis(node: ir.Node, order: Order) -> Turned | None:
    """Tile and Expand: the second input has a number for each axis; Expand may leave out the first ones."""
    given = ir.constant(node.inputs[1])
    if given is None or given.size > len(order):
        return None
    padded = np.concatenate([np.ones(len(order) - given.size, np.int64), given])
    listed = _listed(padded, order)
    return None if listed is None else Turned(order, constants={1: listed})


def _pool(node: ir.Node, order: Order) -> Turned | None:
    """Batch and channels have to stay where they are; the window turns with the image."""
    if order[:2] != (0, 1) or any(value.name for value in node.outputs[1:]):
        return None
    if ir.attribute(node, "auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        return None
    spatial = [axis - 2 for axis in inverse(order)[2:]]
    listed = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 2}
    attributes: dict[str, Any] = {}
    for name, times in listed.items():
        given = ir.attribute(node, name)
        if given is not None:
            rows = np.reshape(given, (times, -1))[:, spatial]
            attributes[name] = [int(number) for number in rows.reshape(-1)]
    return Turned(order, attributes)


def _axes(value: ir.Value | None, rank: int) -> list[int] | None:
    given = ir.constant(value)
    return None if given is None else [int(axis) % rank for axis in given.reshape(-1)]


def _listed(numbers: Array, order: Order) -> Array | None:
    """One entry for each axis, in the order of the held value."""
    return numbers[list(inverse(order))] if len(numbers) == len(order) else None


def _without(order: Order, axes: list[int]) -> Order:
    """The order of what is left when these axes of the value are gone."""
    left = [order[axis] for axis in range(len(order)) if axis not in axes]
    return tuple(sorted(left).index(axis) for axis in left)


# Beside each, its inputs beyond the first are scalars or, as for Clip, absent.
_UNARY = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil", "Celu", "Clip", "Cos"),
    *("Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN"),
    *("LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign"),
    *("Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu"),
)
_BROADCASTING = (
    *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual"),
    *("Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor"),
)
_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
    *("ReduceSum", "ReduceSumSquare"),
)

CARRIERS: dict[str, Carrier] = {
    **{operator: Carrier(_as_it_is, element_wise=True) for operator in _UNARY},
    **{operator: Carrier(_as_it_is, all_inputs=True, element_wise=True) for operator in _BROADCASTING},
    **{operator: Carrier(_reduce) for operator in _REDUCTIONS},
    **{operator: Carrier(_along_axis(-1)) for operator in ("Hardmax", "LogSoftmax", "Softmax")},
    **{operator: Carrier(_quantizer) for operator in ("DequantizeLinear", "QuantizeLinear")},
    **{operator: Carrier(_extreme) for operator in ("ArgMax", "ArgMin")},
    **{operator: Carrier(_per_axis) for operator in ("Expand", "Tile")},
    **{operator: Carrier(_pool) for operator in ("AveragePool", "LpPool", "MaxPool")},
    "Concat": Carrier(_along_axis(None), all_inputs=True),
    "CumSum": Carrier(_cumsum),
    "Gather": Carrier(_gather),
    "Pad": Carrier(_pad),
    "Resize": Carrier(_resize),
    "Slice": Carrier(_slice),
    "Split": Carrier(_along_axis(0)),
    "Squeeze": Carrier(_squeeze),
    "TopK": Carrier(_along_axis(-1)),
    "Unsqueeze": Carrier(_unsqueeze),
}
"""Operators that can work in any order of axes. Below opset 13, Softmax and its like mean something else by `axis`."""

"""Affine operators into the linear operator behind them.

    linear(x) = W x + b
    linear(scale * x + shift) = (W * scale) x + (W shift + b)

with one scale and one shift for each input channel. A Conv pads with zeros after the shift and not before it, so at
its border the shift is not the same everywhere: a padded Conv takes the scale alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.linear.affine import AFFINE, Array, normalising
from infer_opt.passes.rewrites.linear.linear import Linear, narrow, rebuild, refuse_rounding

__all__ = ["AFFINE_BEFORE_RULES"]

Facts = tuple[Linear, Array, Array | None]


class ConstantBeforeLinear(Rule):
    """`linear(x op c)` (or `linear(c op x)` where the operator commutes) to `linear'(x)`."""

    def __init__(self, linear: str, operator: str, affine: Callable[[Array], tuple[Array, Array]]) -> None:
        self.root, self.operator, self.affine = linear, operator, affine
        self.commutes = operator in {"Add", "Mul"}
        self.name = f"constant before {linear}"

    def pattern(self, op: Any, x: Any, c: Any) -> Any:
        inner = getattr(op, self.operator)(x, c)
        return getattr(op, self.root)(inner, _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> Facts:
        constant = ir.constant(match["c"])
        if constant is None:
            raise Decline(f"`{match['c'].name}` is not a constant")
        if self.operator in {"Add", "Sub"}:
            refuse_rounding(constant)
        linear = _alone(match.root)
        with np.errstate(all="ignore"):  # what is not finite is declined
            return linear, *_absorbed(linear, *self.affine(_per_input_channel(constant, match["x"], linear)))

    def rewrite(self, op: Builder, match: Match, facts: Facts) -> ir.Value:
        return rebuild(op, facts[0], match["x"], facts[1], facts[2])


class BatchNormBeforeLinear(Rule):
    """`linear(BatchNormalization(x))` to `linear'(x)`; in training mode it is left alone."""

    def __init__(self, linear: str) -> None:
        self.root = linear
        self.name = f"BatchNormalization before {linear}"

    def pattern(self, op: Any, x: Any) -> Any:
        inner = op.BatchNormalization(x, _allow_other_inputs=True, _outputs=["normal"])
        return getattr(op, self.root)(inner, _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> Facts:
        scale, shift = normalising(match.node("normal"))
        linear = _alone(match.root)
        # Transposed, axis 1 of the input counts the rows of the result, which may be as many as are summed.
        if ir.attribute(linear.node, "transA", 0) or _inputs(linear) != len(scale):
            raise Decline(f"BatchNormalization normalises other channels than those that `{match.root.name}` sums")
        with np.errstate(all="ignore"):  # what is not finite is declined
            return linear, *_absorbed(linear, scale, shift)

    def rewrite(self, op: Builder, match: Match, facts: Facts) -> ir.Value:
        return rebuild(op, facts[0], match["x"], facts[1], facts[2])


def _alone(node: ir.Node) -> Linear:
    """The view of a node, whose weight nobody else reads: one that is shared would be stored twice."""
    weight = node.inputs[1]
    if weight is not None and len(weight.uses()) > 1:
        raise Decline(f"the weight of `{node.name}` is read by others too, and would be stored twice")
    return Linear.of(node)


def _input_axis(linear: Linear) -> int:
    """Of the weight: the axis that is summed over; of convolutions, the channels of one group."""
    if linear.node.op_type == "Conv" or ir.attribute(linear.node, "transB", 0):
        return 1
    return 0


def _inputs(linear: Linear) -> int:
    """Channels of the input."""
    group = ir.attribute(linear.node, "group", 1) if linear.node.op_type == "Conv" else 1
    return int(linear.weight.shape[_input_axis(linear)] * group)


def _per_input_channel(constant: Array, x: ir.Value, linear: Linear) -> Array:
    """A constant that meets the input of `linear` in an element-wise operator, as one float64 number a channel."""
    rank, dims, channels = ir.rank(x), ir.dims(x), _inputs(linear)
    if not rank or dims is None or constant.ndim > rank:
        raise Decline("the constant may raise the rank of the input")
    if ir.attribute(linear.node, "transA", 0) and constant.size > 1:
        raise Decline("the input is transposed, and its last axis is not what is summed over")
    axis = linear.channel_axis % rank
    shape = (1,) * (rank - constant.ndim) + constant.shape
    # A constant that widens the input would be lost with it.
    if constant.size != 1 and not (dims[axis] == shape[axis] == constant.size == channels):
        raise Decline(f"the constant has shape {list(constant.shape)}, which is not one number an input channel")
    return np.broadcast_to(constant.reshape(-1).astype(np.float64), (channels,))


def _absorbed(linear: Linear, scale: Array, shift: Array) -> tuple[Array, Array | None]:
    """Weight and bias of `linear(scale * x + shift)`, in the weight's dtype.

    Raises:
        Decline: there is a shift, and the operator pads or has no bias; or a number would overflow or vanish.
    """
    dtype = linear.weight.dtype
    weight = _across(linear, scale)
    if not shift.any():
        return narrow(weight, dtype), None if linear.bias is None else narrow(linear.bias, dtype)
    _refuse_shift(linear.node)
    alpha = ir.attribute(linear.node, "alpha", 1.0) if linear.node.op_type == "Gemm" else 1.0
    shifted = _across(linear, shift)
    output = 1 - _input_axis(linear)
    moved = alpha * shifted.sum(axis=tuple(axis for axis in range(shifted.ndim) if axis != output))
    bias = moved if linear.bias is None else moved + linear.bias
    return narrow(weight, dtype), narrow(bias, dtype)


def _across(linear: Linear, factors: Array) -> Array:
    """The weight with what reads each input channel multiplied by its factor, in float64."""
    weight = linear.weight.astype(np.float64)
    if linear.node.op_type == "Conv":
        group = ir.attribute(linear.node, "group", 1)
        # Weights are [out, in / group, ...]: the outputs of group g read the inputs of group g only.
        grouped = weight.reshape(group, -1, *weight.shape[1:])
        shaped = factors.reshape(group, 1, -1, *[1] * (weight.ndim - 2))
        return (grouped * shaped).reshape(weight.shape)
    shape = [1] * weight.ndim
    shape[_input_axis(linear)] = -1
    return weight * factors.reshape(shape)


def _refuse_shift(node: ir.Node) -> None:
    if node.op_type == "MatMul":
        raise Decline("MatMul has no bias to take what is added to its input")
    if node.op_type == "ConvTranspose":
        raise Decline("ConvTranspose does not sum the same elements of its weight at every place")
    if node.op_type == "Conv":
        by_rule = ir.attribute(node, "auto_pad", "NOTSET") not in {"NOTSET", "VALID"}
        explicit = ir.attribute(node, "auto_pad", "NOTSET") == "NOTSET" and any(ir.attribute(node, "pads", ()))
        if by_rule or explicit:
            raise Decline("the Conv pads with zeros, to which nothing is added")


_LINEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")

AFFINE_BEFORE_RULES: tuple[Rule, ...] = (
    *(BatchNormBeforeLinear(linear) for linear in ("Conv", "ConvTranspose", "Gemm")),
    *(ConstantBeforeLinear(linear, op, affine) for linear in _LINEAR for op, affine in AFFINE.items()),
)

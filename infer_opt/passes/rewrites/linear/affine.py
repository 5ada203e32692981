"""Affine operators into the linear operator before them.

    y = linear(x) = W x + b
    scale * y + shift = (scale * W) x + (scale * b + shift)

with one scale and one shift for each output channel. BatchNormalization (inference) is
scale = gamma / sqrt(var + epsilon), shift = beta - mean * scale; Mul, Div, Add and Sub by a constant are the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.linear.linear import (
    LINEAR_OPERATORS,
    Linear,
    per_channel,
    rebuild,
    refuse_rounding,
    rescaled,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AFFINE", "AFFINE_RULES", "Array", "normalising"]

Array = np.ndarray[Any, Any]


class BatchNormIntoLinear(Rule):
    """`BatchNormalization(linear(x))` to `linear'(x)`; in training mode it is left alone."""

    root = "BatchNormalization"

    def __init__(self, linear: str) -> None:
        self.linear = linear
        self.name = f"BatchNormalization into {linear}"

    def pattern(self, op: Any, x: Any) -> Any:
        inner = getattr(op, self.linear)(x, _allow_other_inputs=True, _outputs=["inner"])
        return op.BatchNormalization(inner, _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> tuple[Linear, Array, Array | None]:
        scale, shift = normalising(match.root)
        linear = Linear.of(match.node("inner"))
        if linear.output_rank is None or linear.channel_axis % linear.output_rank != 1:
            raise Decline("BatchNormalization normalises axis 1, which is not the channel axis here")
        with np.errstate(all="ignore"):  # what is not finite is declined
            return linear, *rescaled(linear, scale, shift)

    def rewrite(self, op: Builder, match: Match, facts: tuple[Linear, Array, Array | None]) -> ir.Value:
        return rebuild(op, facts[0], match["x"], facts[1], facts[2])


def normalising(norm: ir.Node) -> tuple[Array, Array]:
    """Scale and shift, in float64 and perhaps not finite, of a BatchNormalization.

    Raises:
        Decline: it is in training mode, or a parameter is not constant.
    """
    # Before opset 14, a second output alone means training.
    if ir.attribute(norm, "training_mode", 0) or any(value.name for value in norm.outputs[1:]):
        raise Decline("BatchNormalization is in training mode")
    parameters = [ir.constant(value) for value in norm.inputs[1:5]]
    if any(item is None for item in parameters):
        raise Decline("a parameter of BatchNormalization is not a constant")
    gamma, beta, mean, variance = (item.astype(np.float64) for item in parameters if item is not None)
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + ir.attribute(norm, "epsilon", 1e-5))
        return scale, beta - mean * scale


class ConstantIntoLinear(Rule):
    """`linear(x) op c` (or `c op linear(x)` where the operator commutes) to `linear'(x)`."""

    def __init__(self, linear: str, operator: str, affine: Callable[[Array], tuple[Array, Array]]) -> None:
        self.linear, self.root, self.affine = linear, operator, affine
        self.commutes = operator in {"Add", "Mul"}
        self.name = f"constant {operator} into {linear}"

    def pattern(self, op: Any, x: Any, c: Any) -> Any:
        inner = getattr(op, self.linear)(x, _allow_other_inputs=True, _outputs=["inner"])
        return getattr(op, self.root)(inner, c)

    def check(self, match: Match) -> tuple[Linear, Array, Array | None]:
        constant = ir.constant(match["c"])
        if constant is None:
            raise Decline(f"`{match['c'].name}` is not a constant")
        if self.root in {"Add", "Sub"}:
            refuse_rounding(constant)
        linear = Linear.of(match.node("inner"))
        with np.errstate(all="ignore"):  # what is not finite is declined
            weight, bias = rescaled(linear, *self.affine(per_channel(constant, linear)))
        if self.linear == "MatMul" and bias is not None:
            raise Decline("MatMul has no bias")
        return linear, weight, bias

    def rewrite(self, op: Builder, match: Match, facts: tuple[Linear, Array, Array | None]) -> ir.Value:
        return rebuild(op, facts[0], match["x"], facts[1], facts[2])


class NegIntoLinear(Rule):
    """`-linear(x)` to `linear'(x)`: a scale of -1."""

    root = "Neg"

    def __init__(self, linear: str) -> None:
        self.linear = linear
        self.name = f"Neg into {linear}"

    @property
    def pattern(self) -> Any:
        return lambda op, x: op.Neg(getattr(op, self.linear)(x, _allow_other_inputs=True, _outputs=["inner"]))

    def check(self, match: Match) -> tuple[Linear, Array, Array | None]:
        linear = Linear.of(match.node("inner"))
        return linear, *rescaled(linear, -np.ones(linear.channels), np.zeros(linear.channels))

    def rewrite(self, op: Builder, match: Match, facts: tuple[Linear, Array, Array | None]) -> ir.Value:
        return rebuild(op, facts[0], match["x"], facts[1], facts[2])


# What `x op c` is, as a scale and a shift of x.
AFFINE: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "Mul": lambda c: (c, np.zeros_like(c)),
    "Div": lambda c: (1 / c, np.zeros_like(c)),
    "Add": lambda c: (np.ones_like(c), c),
    "Sub": lambda c: (np.ones_like(c), -c),
}

AFFINE_RULES: tuple[Rule, ...] = (
    *(NegIntoLinear(linear) for linear in LINEAR_OPERATORS),
    *(BatchNormIntoLinear(linear) for linear in ("Conv", "ConvTranspose", "Gemm")),
    *(ConstantIntoLinear(linear, op, affine) for linear in LINEAR_OPERATORS for op, affine in AFFINE.items()),
)

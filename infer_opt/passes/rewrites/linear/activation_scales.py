"""Scales through activations: what multiplies an activation goes into the linear operator before it.

    relu(s x) = s relu(x) and leaky(s x) = s leaky(x), for s > 0
    scale * relu(linear(x)) = relu(scale * linear(x))

with one scale for each output channel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.linear.affine import Array
from infer_opt.passes.rewrites.linear.linear import LINEAR_OPERATORS, Linear, per_channel, rebuild, rescaled

__all__ = ["ACTIVATION_SCALE_RULES"]

Facts = tuple[Linear, Array, Array | None]


class ScaleThroughActivation(Rule):
    """`activation(linear(x)) * c` or `/ c` to `activation(linear'(x))`, for positive c."""

    near = 3

    def __init__(self, linear: str, activation: str, operator: str) -> None:
        self.linear, self.activation, self.root = linear, activation, operator
        self.commutes = operator == "Mul"
        self.name = f"factor through {activation}"

    def pattern(self, op: Any, x: Any, c: Any) -> Any:
        inner = getattr(op, self.linear)(x, _allow_other_inputs=True, _outputs=["inner"])
        active = getattr(op, self.activation)(inner, _allow_other_attributes=True, _outputs=["active"])
        return getattr(op, self.root)(active, c)

    def check(self, match: Match) -> Facts:
        constant = ir.constant(match["c"])
        if constant is None:
            raise Decline(f"`{match['c'].name}` is not a constant")
        linear = Linear.of(match.node("inner"))
        factor = per_channel(constant, linear)
        if not bool((factor > 0).all()):
            raise Decline(f"{self.activation} does not let through a factor that is not positive")
        with np.errstate(all="ignore"):  # what is not finite is declined
            scale = factor if self.root == "Mul" else 1 / factor
            return linear, *rescaled(linear, scale, np.zeros_like(scale))

    def rewrite(self, op: Builder, match: Match, facts: Facts) -> ir.Value:
        inner = rebuild(op, facts[0], match["x"], facts[1], facts[2])
        inner.type, inner.shape = match["inner"].type, match["inner"].shape
        return op.node(self.activation, [inner], match.node("active").attributes)


ACTIVATION_SCALE_RULES: tuple[Rule, ...] = tuple(
    ScaleThroughActivation(linear, activation, operator)
    for linear in LINEAR_OPERATORS
    for activation in ("Relu", "LeakyRelu")
    for operator in ("Mul", "Div")
)

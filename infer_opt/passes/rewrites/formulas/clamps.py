"""Clamps in a row: Relu and Clip both bound their input, and two bounds on each side are one.

clip(clip(x, a, b), c, d) = clip(x, clip(a, c, d), clip(b, c, d)), with clip(x, a, b) = min(max(x, a), b) and, for Relu,
a = 0 and b = inf. What is no number passes through all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CLAMP_RULES"]

Bound = Any  # a number of the dtype of x


class ClampOfClamp(Rule):
    """`clip(clip(x, a, b), c, d)` to one Clip, for Relu and Clip with constant bounds."""

    opset = 12  # Clip of every dtype, with bounds as inputs

    def __init__(self, inner: str, outer: str) -> None:
        self.name = f"{inner} into {outer}"
        self.root = outer
        self._inner, self._outer = inner, outer

    @property
    def pattern(self) -> Callable[..., Any]:
        """`outer(inner(x))`, each with bounds or without."""

        def clamps(op: Any, x: Any) -> Any:
            first = getattr(op, self._inner)(x, _allow_other_inputs=True, _outputs=["inner"])
            return getattr(op, self._outer)(first, _allow_other_inputs=True, _outputs=["y"])

        return clamps

    def check(self, match: Match) -> tuple[Bound, Bound]:
        dtype = match["x"].dtype or match["y"].dtype
        if dtype is None or dtype == ir.DataType.BFLOAT16:
            raise Decline("the dtype is not known, or has no numbers in numpy")
        numbers = np.dtype(dtype.numpy())
        low, high = _bounds(match.node("inner"), numbers)
        least, most = _bounds(match.root, numbers)
        if low > high or least > most:
            raise Decline("a lower bound is above the upper one, which backends take for different things")
        return _clip(low, least, most), _clip(high, least, most)

    def rewrite(self, op: Builder, match: Match, facts: tuple[Bound, Bound]) -> ir.Value:
        low, high = (
            None if bound == end else op.initializer(np.asarray(bound), f"{match.root.name}_{name}")
            for bound, end, name in zip(facts, _ends(facts[0].dtype), ("min", "max"), strict=True)
        )
        inputs = [match["x"], low, high]
        while inputs[-1] is None:
            inputs.pop()
        return op.node("Clip", inputs)


def _bounds(node: ir.Node, dtype: np.dtype[Any]) -> tuple[Bound, Bound]:
    """What a Relu or a Clip bounds by; a Clip without a bound ends at the largest number, which is not infinity."""
    low, high = _ends(dtype)
    if node.op_type == "Relu":
        return dtype.type(0), dtype.type(np.inf) if dtype.kind == "f" else high
    given = [node.inputs[index] if index < len(node.inputs) else None for index in (1, 2)]
    found = [default if value is None else _number(value) for value, default in zip(given, (low, high), strict=True)]
    return found[0], found[1]


def _number(value: ir.Value) -> Bound:
    bound = ir.constant(value)
    if bound is None or bound.size != 1 or bool(np.isnan(bound).any()):
        raise Decline("a bound is not a constant number")
    return bound.reshape(())[()]


def _ends(dtype: np.dtype[Any]) -> tuple[Bound, Bound]:
    kind = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return dtype.type(kind.min), dtype.type(kind.max)


def _clip(number: Bound, low: Bound, high: Bound) -> Bound:
    return min(max(number, low), high)


CLAMP_RULES: tuple[Rule, ...] = (
    ClampOfClamp("Relu", "Clip"),
    ClampOfClamp("Clip", "Clip"),
    ClampOfClamp("Clip", "Relu"),
)

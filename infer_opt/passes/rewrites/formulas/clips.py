"""Clips written out: the smaller of the larger of two.

Clip(x, low, high) = min(max(x, low), high) = max(min(x, high), low), for low <= high;  Relu(x) = max(x, 0)
"""

from __future__ import annotations

from typing import Any

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule

__all__ = ["CLIP_RULES"]


class ClipWritten(Rule):
    """The formulas above to a Clip, for limits of one element.

    Args:
        outer: the last operator, `Min`, `Max` or `Relu`; inner: the one before it.
    """

    name = "Clip written out"
    makes = "Clip"
    opset = 11

    def __init__(self, outer: str, inner: str, *, first: bool, second: bool) -> None:
        self.root, self.inner = outer, inner
        self.first, self.second = first, second

    @property
    def pattern(self) -> Any:
        """The constants stand first or second."""

        def limited(op: Any, operator: str, x: Any, limit: Any, *, first: bool) -> Any:
            return getattr(op, operator)(limit, x) if first else getattr(op, operator)(x, limit)

        if self.root == "Relu":
            return lambda op, x, b: op.Relu(limited(op, self.inner, x, b, first=self.second))
        if self.inner == "Relu":
            return lambda op, x, a: limited(op, self.root, op.Relu(x), a, first=self.first)
        return lambda op, x, a, b: limited(
            op, self.root, limited(op, self.inner, x, b, first=self.second), a, first=self.first
        )

    def check(self, match: Match) -> tuple[ir.Value | None, ir.Value | None]:
        x = match["x"]
        if x.dtype not in {ir.DataType.FLOAT, ir.DataType.FLOAT16}:
            raise Decline("its input is neither float nor float16")
        limits = {}
        for operator, name in ((self.root, "a"), (self.inner, "b")):
            if operator != "Relu":
                limits[operator] = match[name]
        low, high = limits.get("Max"), limits["Min"]
        for limit in (value for value in (low, high) if value is not None):
            rank = ir.rank(limit)
            if ir.scalar(limit) is None or rank is None or rank > (ir.rank(x) or 0):
                raise Decline(f"`{limit.name}` is not a constant of one element that keeps the rank of the result")
        if not (0.0 if low is None else float(ir.scalar(low) or 0.0)) <= float(ir.scalar(high) or 0.0):
            raise Decline("the lower limit is above the upper one")
        return low, high

    def rewrite(self, op: Builder, match: Match, facts: tuple[ir.Value | None, ir.Value | None]) -> ir.Value:
        dtype, limits = ir.numpy_dtype(match["x"]), []
        for limit in facts:
            number = 0.0 if limit is None else ir.scalar(limit)
            limits.append(op.initializer(dtype.type(number), "limit" if limit is None else limit.name))
        return op.node("Clip", [match["x"], *limits])


CLIP_RULES: tuple[Rule, ...] = (
    *(
        ClipWritten(outer, inner, first=first, second=second)
        for outer, inner in (("Min", "Max"), ("Max", "Min"))
        for first in (False, True)
        for second in (False, True)
    ),
    *(ClipWritten("Min", "Relu", first=first, second=False) for first in (False, True)),
    *(ClipWritten("Relu", "Min", first=False, second=second) for second in (False, True)),
)

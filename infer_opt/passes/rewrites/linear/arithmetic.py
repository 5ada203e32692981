"""Arithmetic: what cancels, and what a cheaper operator does.

-(-x) = x            x / c = x * (1 / c), floats only, where 1 / c is exact or rounds once
(x W1) W2 = x (W1 W2), for constant matrices whose product is no larger than both
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.linear.linear import LARGEST_FACTOR, narrow

__all__ = ["ARITHMETIC_RULES", "CANCELLING_RULES", "RECIPROCAL_RULES", "STEPS"]

Array = np.ndarray[Any, Any]

# In float32, 49 / 49 is 1, and 49 * (1 / 49) is less.
STEPS = frozenset(
    {"Cast", "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod", "Round"}
)


class DivToMul(Rule):
    """`x / c` to `x * (1 / c)`: a multiplication is several times cheaper, and fuses with more.

    Off by at most one rounding, so it stays a division where the result is cut to integers right after; and where the
    reciprocal overflows, vanishes or is subnormal.
    """

    name = "Div by constant to Mul"
    root = "Div"

    def pattern(self, op: Any, x: Any, c: Any) -> Any:
        return op.Div(x, c)

    def check(self, match: Match) -> Array:
        divisor = ir.constant(match["c"])
        if divisor is None or divisor.dtype not in (np.float32, np.float64, np.float16):
            raise Decline("the divisor is not a constant of floats")
        if ir.is_constant(match["x"]):
            raise Decline("both are constants")
        with np.errstate(all="ignore"):
            reciprocal: Array = (1.0 / divisor.astype(np.float64)).astype(divisor.dtype)
        if not np.isfinite(reciprocal).all() or bool((np.abs(reciprocal) < np.finfo(divisor.dtype).tiny).any()):
            raise Decline("a reciprocal is out of range")
        exact = bool((np.abs(np.frexp(divisor)[0]) == 0.5).all())  # powers of two
        if not exact and any(user.op_type in STEPS for user, _ in match.root.outputs[0].uses()):
            raise Decline("its result is cut to integers or compared, where one rounding is a whole step")
        return reciprocal

    def rewrite(self, op: Builder, match: Match, facts: Array) -> ir.Value:
        return op.node("Mul", [match["x"], op.initializer(facts, f"{match['c'].name}_reciprocal")])


class DoubleNegation(Rule):
    """`Neg(Neg(x))` to `x`, through an Identity that the no-ops then drop."""

    name = "double negation"
    root = "Neg"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Neg(op.Neg(x))

    def check(self, match: Match) -> None:
        """Exact for every dtype: the sign bit, or two's complement, twice turned."""

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        del facts
        return op.node("Identity", [match["x"]])


class MatMulOfMatMul(Rule):
    """`MatMul(MatMul(x, W1), W2)` to `MatMul(x, W1 W2)`, where that takes no more room and no more work."""

    name = "MatMul of MatMul"
    root = "MatMul"

    def pattern(self, op: Any, x: Any, first: Any, second: Any) -> Any:
        return op.MatMul(op.MatMul(x, first), second)

    def check(self, match: Match) -> Array:
        if max(ir.elements(match[name]) or 0 for name in ("first", "second")) > LARGEST_FACTOR:
            raise Decline("a factor is too large to be read for this")
        first, second = ir.constant(match["first"]), ir.constant(match["second"])
        if first is None or second is None or first.ndim != 2 or second.ndim != 2 or first.dtype.kind != "f":
            raise Decline("the factors are not constant matrices of floats")
        if first.shape[0] * second.shape[1] > first.size + second.size:
            raise Decline("the product is larger than both factors")
        with np.errstate(all="ignore"):
            product: Array = first.astype(np.float64) @ second.astype(np.float64)
        return narrow(product, first.dtype)

    def rewrite(self, op: Builder, match: Match, facts: Array) -> ir.Value:
        return op.node("MatMul", [match["x"], op.initializer(facts, match["second"].name)])


CANCELLING_RULES: tuple[Rule, ...] = (DoubleNegation(),)
"""Exact, and so a part of `simplify`."""
ARITHMETIC_RULES: tuple[Rule, ...] = (MatMulOfMatMul(),)
RECIPROCAL_RULES: tuple[Rule, ...] = (DivToMul(),)
"""Of the last phase: formulas are recognised by the divisions they are written with."""

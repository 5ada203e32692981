"""Activations written out: the formula becomes the operator.

    HardSigmoid(x, 1/6, 1/2) = min(max(x + 3, 0), 6) / 6
    HardSwish(x)             = x * min(max(x + 3, 0), 6) / 6 = x * HardSigmoid(x, 1/6, 1/2)

Each operator came with an opset; a model of an older one keeps its formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule

__all__ = ["ACTIVATION_RULES"]

_TOLERANCE = 1e-5  # of a constant, relative: exporters round 1 / sqrt(2) and 1 / 6 to a few digits


class Formula(Rule):
    """A spelling of an activation: a pattern over `x` and named constants, and the values these must have.

    Args:
        operator: the operator that does the same; opset: the one that brought it.
        spelling: builds the pattern from `op` and values by name.
        constants: what each named value has to be.
        attributes: of the operator.
        near: see `Rule`.
    """

    commutes = True

    def __init__(
        self,
        operator: str,
        opset: int,
        root: str,
        spelling: Callable[..., Any],
        constants: dict[str, float],
        *,
        attributes: dict[str, Any] | None = None,
        near: int,
    ) -> None:
        self.makes, self.opset, self.root, self.near = operator, opset, root, near
        self.spelling, self.constants, self.attributes = spelling, constants, attributes or {}
        self.name = f"{operator} written out"

    @property
    def pattern(self) -> Callable[..., Any]:
        return self.spelling

    def check(self, match: Match) -> None:
        _check_dtype(match["x"])
        for name, wanted in self.constants.items():
            if not _equals(match[name], wanted):
                raise Decline(f"`{match[name].name}` is not {wanted:.6g}")
            own = ir.rank(match[name])
            if own is None or own > (ir.rank(match["x"]) or 0):
                raise Decline(f"`{match[name].name}` may raise the rank of the result")

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        del facts
        return op.node(self.makes, [match["x"]], self.attributes)


def _check_dtype(x: ir.Value) -> None:
    """Doubles are left alone: onnxruntime has kernels of their formulas only."""
    if x.dtype not in {ir.DataType.FLOAT, ir.DataType.FLOAT16}:
        raise Decline("its input is neither float nor float16")


def _equals(value: ir.Value, wanted: float) -> bool:
    """Whether a constant of one element is a number, or what its own dtype makes of it; zero has to be zero itself."""
    found = ir.scalar(value)
    if found is None:
        return False
    return bool(found == ir.numpy_dtype(value).type(wanted)) or math.isclose(found, wanted, rel_tol=_TOLERANCE)


class HardSwishOfHardSigmoid(Rule):
    """`x * HardSigmoid<1/6, 1/2>(x)` to `HardSwish(x)`."""

    name = "HardSwish written out"
    root = "Mul"
    makes = "HardSwish"
    opset = 14
    commutes = True

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Mul(x, op.HardSigmoid(x, _allow_other_attributes=True, _outputs=["gate"]))

    def check(self, match: Match) -> None:
        _check_dtype(match["x"])
        gate = match.node("gate")
        given = ir.attribute(gate, "alpha", 0.2), ir.attribute(gate, "beta", 0.5)
        wanted = _HARD_SIGMOID["alpha"], _HARD_SIGMOID["beta"]
        if not all(math.isclose(a, b, rel_tol=_TOLERANCE) for a, b in zip(given, wanted, strict=True)):
            raise Decline(f"`{gate.name}` is not min(max(x + 3, 0), 6) / 6")

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        del facts
        return op.node("HardSwish", [match["x"]])


def _clip(op: Any, x: Any, three: Any, zero: Any, six: Any) -> Any:
    return op.Clip(op.Add(x, three), zero, six)


_SIX = {"three": 3.0, "zero": 0.0, "six": 6.0}
_HARD_SIGMOID = {"alpha": 1.0 / 6.0, "beta": 0.5}

ACTIVATION_RULES: tuple[Rule, ...] = (
    Formula(
        "HardSwish",
        14,
        "Div",
        lambda op, x, three, zero, six, by: op.Div(op.Mul(x, _clip(op, x, three, zero, six)), by),
        {**_SIX, "by": 6.0},
        near=3,
    ),
    Formula(
        "HardSwish",
        14,
        "Mul",
        lambda op, x, three, zero, six, by: op.Mul(op.Mul(x, _clip(op, x, three, zero, six)), by),
        {**_SIX, "by": 1.0 / 6.0},
        near=3,
    ),
    HardSwishOfHardSigmoid(),  # also of one that the rules below have just made
    Formula(
        "HardSigmoid",
        6,
        "Div",
        lambda op, x, three, zero, six, by: op.Div(_clip(op, x, three, zero, six), by),
        {**_SIX, "by": 6.0},
        attributes=_HARD_SIGMOID,
        near=2,
    ),
    Formula(
        "HardSigmoid",
        6,
        "Mul",
        lambda op, x, three, zero, six, by: op.Mul(_clip(op, x, three, zero, six), by),
        {**_SIX, "by": 1.0 / 6.0},
        attributes=_HARD_SIGMOID,
        near=2,
    ),
)

"""Activations written out: the formula becomes the operator.

    HardSwish(x) = x * min(max(x + 3, 0), 6) / 6          = x * HardSigmoid(x, alpha=1/6, beta=0.5)
    Gelu(x)      = 0.5 x (1 + erf(x / sqrt(2)))
    HardSigmoid(x, 1/6, 0.5) = min(max(x + 3, 0), 6) / 6

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
    """

    commutes = True

    def __init__(
        self,
        operator: str,
        opset: int,
        root: str,
        spelling: Callable[..., Any],
        constants: dict[str, float],
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self.operator, self.opset, self.root = operator, opset, root
        self.spelling, self.constants, self.attributes = spelling, constants, attributes or {}
        self.name = f"{operator} written out"

    @property
    def pattern(self) -> Callable[..., Any]:
        return self.spelling

    def check(self, match: Match) -> None:
        for name, wanted in self.constants.items():
            found = ir.scalar(match[name])
            if found is None or not math.isclose(found, wanted, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
                raise Decline(f"`{match[name].name}` is not {wanted:.6g}")
            rank, own = ir.rank(match["x"]), ir.rank(match[name])
            if rank is None or own is None or own > rank:
                raise Decline(f"`{match[name].name}` may raise the rank of the result")
        if match["x"].dtype not in {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE}:
            raise Decline("its input is not of floats")

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        del facts
        return op.node(self.operator, [match["x"]], self.attributes)


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
    ),
    Formula(
        "HardSwish",
        14,
        "Mul",
        lambda op, x, three, zero, six, by: op.Mul(op.Mul(x, _clip(op, x, three, zero, six)), by),
        {**_SIX, "by": 1.0 / 6.0},
    ),
    Formula(
        "HardSwish",
        14,
        "Mul",
        lambda op, x, three, zero, six, by: op.Mul(x, op.Div(_clip(op, x, three, zero, six), by)),
        {**_SIX, "by": 6.0},
    ),
    Formula(
        "HardSwish",
        14,
        "Mul",
        lambda op, x, three, zero, six, by: op.Mul(x, op.Mul(_clip(op, x, three, zero, six), by)),
        {**_SIX, "by": 1.0 / 6.0},
    ),
    Formula(
        "HardSigmoid",
        6,
        "Div",
        lambda op, x, three, zero, six, by: op.Div(_clip(op, x, three, zero, six), by),
        {**_SIX, "by": 6.0},
        _HARD_SIGMOID,
    ),
    Formula(
        "Gelu",
        20,
        "Mul",
        lambda op, x, root, one, half: op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, root)), one)), half),
        {"root": math.sqrt(2.0), "one": 1.0, "half": 0.5},
    ),
    Formula(
        "Gelu",
        20,
        "Mul",
        lambda op, x, root, one, half: op.Mul(op.Mul(x, half), op.Add(op.Erf(op.Div(x, root)), one)),
        {"root": math.sqrt(2.0), "one": 1.0, "half": 0.5},
    ),
    Formula(
        "Gelu",
        20,
        "Mul",
        lambda op, x, root, one, half: op.Mul(x, op.Mul(op.Add(op.Erf(op.Div(x, root)), one), half)),
        {"root": math.sqrt(2.0), "one": 1.0, "half": 0.5},
    ),
)

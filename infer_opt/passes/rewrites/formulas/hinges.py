"""Activations of two straight parts, one for each sign of x: LeakyRelu and PRelu written out.

LeakyRelu<a>(x) = max(x, 0) + a min(x, 0) = relu(x) - a relu(-x) = (1 + a) / 2 x + (1 - a) / 2 |x|
LeakyRelu<a>(x) = max(x, a x), for 0 < a < 1
PRelu(x, a) is the same with one a for each channel
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.formulas.polynomials import (
    Monomial,
    Polynomial,
    Reading,
    Written,
    close,
    require_attributes,
    require_float,
)
from infer_opt.passes.rewrites.linear.linear import narrow

__all__ = ["HINGE_RULES"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Hinge:
    """A function of x that has one slope where x is positive and another where it is negative."""

    x: ir.Value
    positive: float
    negative: float


@dataclass(frozen=True)
class _Facts:
    x: ir.Value
    slope: float | Array
    name: str


class Hinged(Written):
    """The formulas above, that end in `root`, to `operator`."""

    def __init__(self, operator: str, root: str) -> None:
        self.makes, self.root = operator, root
        self.opset = 9 if operator == "PRelu" else 6
        self.name = f"{operator} written out"

    def read(self, reading: Reading) -> _Facts | None:
        facts = _larger(reading) if self.root == "Max" else _summed(reading)
        if facts is None or isinstance(facts.slope, float) != (self.makes == "LeakyRelu"):
            return None
        require_float(facts.x)
        reading.finish(ir.rank(facts.x))
        if not isinstance(facts.slope, float):
            _require_fit(facts.slope, facts.x)
            return _Facts(facts.x, narrow(facts.slope, ir.numpy_dtype(facts.x)), facts.name)
        require_attributes(facts.slope)
        return facts

    def rewrite(self, op: Builder, match: Match, facts: _Facts) -> ir.Value:
        del match
        if isinstance(facts.slope, float):
            return op.node("LeakyRelu", [facts.x], {"alpha": facts.slope})
        return op.node("PRelu", [facts.x, op.initializer(facts.slope, facts.name)])


def _require_fit(slope: Array, x: ir.Value) -> None:
    dims = ir.dims(x)
    if dims is None or slope.ndim > len(dims):
        raise Decline("the slope may raise the rank of the result")
    if any(size not in {1, own} for size, own in zip(slope.shape[::-1], dims[::-1], strict=False)):
        raise Decline("the slope does not have the shape of its input")


def _larger(reading: Reading) -> _Facts | None:
    """`max(x, a x)`."""
    reading.take(reading.root.outputs[0], "Max")
    found = [_line(reading.polynomial(value)) for value in reading.root.inputs if value is not None]
    lines = [line for line in found if line is not None]
    if len(found) != 2 or len(lines) != 2 or lines[0][0] is not lines[1][0]:
        return None
    low, high = sorted(factor for _, factor in lines)
    return _Facts(lines[0][0], low, "") if high == 1.0 and 0.0 < low < 1.0 else None


def _line(formula: Polynomial) -> tuple[ir.Value, float] | None:
    """The x and a of a x."""
    if len(formula) != 1:
        return None
    ((monomial, factor),) = formula.items()
    if len(monomial) != 1:
        return None
    ((x, exponent),) = monomial
    return (x, factor) if exponent == 1 else None


def _summed(reading: Reading) -> _Facts | None:
    """A sum of hinges of one x, of which one may have a constant slope for each channel."""
    terms = [_term(reading, *item) for item in reading.polynomial(reading.root.outputs[0]).items()]
    known = [term for term in terms if term is not None]
    if len(known) != len(terms) or len(terms) < 2 or len({id(term.hinge.x) for term in known}) != 1:
        return None
    x = known[0].hinge.x
    varying = [term for term in known if term.slope is not None]
    positive, negative = (
        sum(getattr(term.hinge, side) for term in known if term.slope is None) for side in ("positive", "negative")
    )
    if not close(positive, 1.0, x.dtype) or len(varying) > 1:
        return None
    if not varying:
        return _Facts(x, float(negative), "") if negative and not close(negative, 1.0, x.dtype) else None
    (term,) = varying
    if negative or term.hinge.positive or term.slope is None:
        return None
    return _Facts(x, ir.array(term.slope).astype(np.float64) * term.hinge.negative, str(term.slope.name))


@dataclass(frozen=True)
class _Term:
    """A hinge, times a constant for each channel where there is a `slope`."""

    hinge: _Hinge
    slope: ir.Value | None


def _term(reading: Reading, monomial: Monomial, factor: float) -> _Term | None:
    constants = [atom for atom, _ in monomial if ir.is_constant(atom)]
    moving = [atom for atom, _ in monomial if not ir.is_constant(atom)]
    if len(moving) != 1 or len(constants) > 1 or any(exponent != 1 for _, exponent in monomial):
        return None
    hinge = _hinge(reading, moving[0])
    if hinge is None:
        return None
    scaled = _Hinge(hinge.x, factor * hinge.positive, factor * hinge.negative)
    return _Term(scaled, constants[0] if constants else None)


def _hinge(reading: Reading, atom: ir.Value) -> _Hinge | None:
    node = reading.take(atom, "Relu", "Abs", "Min", "Max")
    if node is None:
        return _Hinge(atom, 1.0, 1.0)
    value = node.inputs[0]
    if node.op_type in {"Min", "Max"}:
        zeros = [item for item in node.inputs if ir.scalar(item) == 0.0]
        others = [item for item in node.inputs if ir.scalar(item) != 0.0]
        if len(zeros) != 1 or len(others) != 1 or zeros[0] is None:
            return None
        reading.numbers[zeros[0]] = None
        value = others[0]
    line = None if value is None else _line(reading.polynomial(value))
    if line is None:
        return None
    x, slope = line
    if node.op_type == "Abs":
        return _Hinge(x, abs(slope), -abs(slope))
    upper = node.op_type != "Min"  # what is above zero stays
    return _Hinge(x, slope, 0.0) if (slope > 0) == upper else _Hinge(x, 0.0, slope)


HINGE_RULES: tuple[Rule, ...] = (
    *(Hinged(operator, root) for operator in ("LeakyRelu", "PRelu") for root in ("Add", "Sub")),
    Hinged("LeakyRelu", "Max"),
)

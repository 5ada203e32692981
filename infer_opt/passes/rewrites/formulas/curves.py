"""Activations that are sums of products, read as polynomials: Gelu, and HardSigmoid with any slope.

Gelu(x)               = x * (1 + erf(x / sqrt(2))) / 2
Gelu<tanh>(x)         = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
HardSigmoid<a, b>(x)  = min(max(a x + b, 0), 1)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.formulas.polynomials import (
    ONE,
    Polynomial,
    Reading,
    Written,
    close,
    power,
    require_attributes,
    require_float,
)

__all__ = ["CURVE_RULES"]

Facts = tuple[ir.Value, dict[str, Any]]


class Gelu(Written):
    """Either formula of Gelu, that ends in `root`."""

    name = "Gelu written out"
    makes = "Gelu"
    opset = 20

    def __init__(self, root: str) -> None:
        self.root = root

    def read(self, reading: Reading) -> Facts | None:
        formula = reading.polynomial(reading.root.outputs[0])
        found = _bell(formula)
        if found is None:
            return None
        x, bell = found
        inner = reading.take(bell, "Erf", "Tanh")
        if inner is None or inner.inputs[0] is None:
            return None
        require_float(x)
        argument = reading.polynomial(inner.inputs[0])
        wanted, attributes = _ARGUMENTS[inner.op_type](x)
        if set(argument) != set(wanted):
            raise Decline(f"`{inner.name}` is of something else than what Gelu multiplies")
        if all(factor == 1.0 for factor in formula.values()):
            return None  # the half comes later
        for monomial, number in wanted.items():
            _require(argument[monomial], number, x)
        for factor in formula.values():
            _require(factor, 0.5, x)
        reading.finish(ir.rank(x))
        return x, attributes

    def rewrite(self, op: Builder, match: Match, facts: Facts) -> ir.Value:
        del match
        return op.node("Gelu", [facts[0]], facts[1])


def _require(factor: float, number: float, x: ir.Value) -> None:
    if not close(factor, number, x.dtype):
        raise Decline(f"a factor is {factor:.6g}, and not {number:.6g}")


def _bell(formula: Polynomial) -> tuple[ir.Value, ir.Value] | None:
    """The x and t of a x + b x t."""
    for monomial in formula:
        for other in formula:
            if len(formula) == 2 and len(monomial) == 1 and len(other) == 2 and monomial < other:
                ((x, first),), ((bell, second),) = monomial, other - monomial
                return (x, bell) if first == second == 1 else None
    return None


def _of_erf(x: ir.Value) -> tuple[Polynomial, dict[str, Any]]:
    return {power(x): math.sqrt(0.5)}, {}


def _of_tanh(x: ir.Value) -> tuple[Polynomial, dict[str, Any]]:
    slope = math.sqrt(2.0 / math.pi)
    return {power(x): slope, power((x, 3)): slope * 0.044715}, {"approximate": "tanh"}


_ARGUMENTS: dict[str, Callable[[ir.Value], tuple[Polynomial, dict[str, Any]]]] = {"Erf": _of_erf, "Tanh": _of_tanh}


class SlopedHardSigmoid(Written):
    """`Clip(a * x + b, 0, 1)` to `HardSigmoid<a, b>(x)`."""

    name = "HardSigmoid of a slope"
    root = "Clip"
    makes = "HardSigmoid"
    opset = 11
    near = 2

    @property
    def pattern(self) -> Callable[..., Any]:
        """A Clip with both limits."""
        return lambda op, a, low, high: op.Clip(a, low, high)

    def read(self, reading: Reading) -> Facts | None:
        clip = reading.root
        value, low, high = (*clip.inputs, None, None)[:3]
        if value is None or ir.scalar(low) != 0.0 or ir.scalar(high) != 1.0:
            return None
        argument = reading.polynomial(value)
        reading.nodes[clip] = None
        offset = argument.pop(ONE, 0.0)
        if len(reading.nodes) < 2 or len(argument) != 1:
            return None
        ((monomial, slope),) = argument.items()
        ((x, exponent), *others) = monomial
        if others or exponent != 1 or ir.is_constant(x):
            return None
        require_float(x)
        require_attributes(slope, offset)
        reading.finish(ir.rank(x))
        return x, {"alpha": slope, "beta": offset}

    def rewrite(self, op: Builder, match: Match, facts: Facts) -> ir.Value:
        del match
        return op.node("HardSigmoid", [facts[0]], facts[1])


CURVE_RULES: tuple[Rule, ...] = (*(Gelu(root) for root in ("Mul", "Div", "Add")), SlopedHardSigmoid())

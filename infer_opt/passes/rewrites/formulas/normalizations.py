"""Normalisations written out: mean and variance over some axes become the operator that takes both.

    d = x - mean(x);  y = d / sqrt(mean(d^2) + epsilon) * gamma + beta

is LayerNormalization over the last axes and InstanceNormalization over all behind the channels, and with x for d
RMSNormalization over the last axes. The formula is read as a polynomial of x, mean and 1 / sqrt, so that

    x * (gamma / sqrt) + (beta - mean * (gamma / sqrt))

is the same.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.formulas.norm_parameters import Array, Parameter
from infer_opt.passes.rewrites.formulas.polynomials import (
    ARITHMETIC,
    ONE,
    Monomial,
    Polynomial,
    Reading,
    Written,
    require_float,
)

__all__ = ["NORMALIZATION_RULES"]

_MOST_LOOKED_AT = 16  # nodes between the last one of a formula and its square root


@dataclass(frozen=True)
class _Spread:
    """The divisor of a normalisation: sqrt(mean(d^2) + epsilon), or one over it.

    Args:
        root: the value; power: with which it stands for a division.
        x: what is normalised; mean: of x, or None where x itself is squared.
        means: the nodes that take the means.
    """

    root: ir.Value
    power: int
    epsilon: float
    x: ir.Value
    mean: ir.Value | None
    means: tuple[ir.Node, ...]


@dataclass(frozen=True)
class _Facts:
    x: ir.Value
    parameters: list[tuple[Array, str]]
    attributes: dict[str, Any]


class Normalization(Written):
    """The formula above to one of the operators.

    They find mean and variance in float32, so doubles keep the formula.

    Args:
        operator: the one made; root: the last operator of the formula.
    """

    near = 3

    def __init__(self, operator: str, opset: int, root: str) -> None:
        self.makes, self.opset, self.root = operator, opset, root
        self.name = f"{operator} written out"

    def read(self, reading: Reading) -> _Facts | None:
        root = _square_root(reading.root)
        spread = None if root is None else _spread(reading, root, centred=self.makes != "RMSNormalization")
        if spread is None or (self.makes == "InstanceNormalization" and not _over_images(spread)):
            return None
        atoms = [atom for atom in (spread.x, spread.mean, spread.root) if atom is not None]
        parameters = _parameters(reading.polynomial(reading.root.outputs[0], atoms, through=True), spread)
        if parameters is None:
            return None
        rank = ir.rank(spread.x)
        require_float(spread.x)
        if not rank:
            raise Decline("the rank of its input is not known")
        reading.finish(rank)
        if not 0.0 <= spread.epsilon < 1.0:
            raise Decline("epsilon is not a small constant")
        return self._facts(spread, *parameters, rank)

    def _facts(self, spread: _Spread, gamma: Parameter, beta: Parameter, rank: int) -> _Facts:
        axes, x = _axes(spread, rank), spread.x
        if self.makes == "InstanceNormalization":
            parameters = [(gamma.per_channel(x), gamma.name), (beta.per_channel(x), beta.name)]
            return _Facts(x, parameters, {"epsilon": spread.epsilon})
        if not axes or axes != list(range(rank - len(axes), rank)):
            raise Decline("the axes are not the last ones")
        parameters = [(gamma.of_last_axes(x, len(axes)), gamma.name)]
        if beta.factor:
            parameters.append((beta.of_last_axes(x, len(axes)), beta.name))
        return _Facts(x, parameters, {"axis": -len(axes), "epsilon": spread.epsilon})

    def rewrite(self, op: Builder, match: Match, facts: _Facts) -> ir.Value:
        del match
        parameters = [op.initializer(array, name) for array, name in facts.parameters]
        return op.node(self.makes, [facts.x, *parameters], facts.attributes)


def _square_root(root: ir.Node) -> ir.Value | None:
    """The nearest square root among what arithmetic makes a value of."""
    waiting, looked_at = deque([root]), 0
    while waiting and looked_at < _MOST_LOOKED_AT:
        node = waiting.popleft()
        looked_at += 1
        for value in node.inputs:
            maker = None if value is None else value.producer()
            if maker is None or maker.domain or maker.graph is not root.graph:
                continue
            if maker.op_type == "Sqrt" or (maker.op_type == "Pow" and ir.scalar(maker.inputs[1]) in {0.5, -0.5}):
                return value
            if maker.op_type in ARITHMETIC:
                waiting.append(maker)
    return None


def _spread(reading: Reading, root: ir.Value, *, centred: bool) -> _Spread | None:
    """What a square root is taken of, if it is a variance or a mean square."""
    node = reading.take(root, "Sqrt", "Pow")
    if node is None or node.inputs[0] is None:
        return None
    sign = -1 if node.op_type == "Sqrt" or ir.scalar(node.inputs[1]) == 0.5 else 1
    reading.numbers.update(dict.fromkeys(value for value in node.inputs[1:] if value is not None))
    below = reading.polynomial(node.inputs[0])
    epsilon = below.pop(ONE, 0.0)
    variance = _mean_of(reading, below)
    if variance is None:
        return None
    square = reading.take(variance.inputs[0], "Mul", "Pow")
    d = None if square is None else square.inputs[0]
    if square is None or d is None or (square.op_type == "Mul" and square.inputs[1] is not d):
        return None
    if square.op_type == "Pow":
        _require_two(reading, square)
    if not centred:
        return _Spread(root, sign, epsilon, d, None, (variance,))
    difference = reading.take(d, "Sub")
    x, average = (None, None) if difference is None else difference.inputs
    mean = reading.take(average, "ReduceMean")
    if x is None or mean is None or mean.inputs[0] is not x:
        return None
    return _Spread(root, sign, epsilon, x, average, (mean, variance))


def _mean_of(reading: Reading, below: Polynomial) -> ir.Node | None:
    """The ReduceMean that alone is left beside epsilon."""
    atoms = [atom for monomial, factor in below.items() for atom, p in monomial if p == factor == 1]
    found = [reading.take(atom, "ReduceMean") for atom in atoms]
    others = [atom for monomial in below for atom, _ in monomial if ir.is_constant(atom) or atom.producer() is None]
    if found.count(None) < len(found) and others:
        raise Decline("epsilon is not a small constant")
    return found[0] if len(found) == len(below) == 1 else None


def _require_two(reading: Reading, square: ir.Node) -> None:
    exponent = square.inputs[1]
    if exponent is None or ir.scalar(exponent) != 2.0:
        raise Decline("the deviation is not squared")
    reading.numbers[exponent] = None


def _parameters(formula: Polynomial, spread: _Spread) -> tuple[Parameter, Parameter] | None:
    """What stands for gamma and beta in a formula, or None where it is no normalisation of x."""
    scales: dict[Monomial, float] = {}
    centres: dict[Monomial, float] = {}
    shifts: dict[Monomial, float] = {}
    divided = (spread.root, spread.power)
    for monomial, factor in formula.items():
        if {(spread.x, 1), divided} <= monomial:
            scales[monomial - {(spread.x, 1), divided}] = factor
        elif spread.mean is not None and {(spread.mean, 1), divided} <= monomial:
            centres[monomial - {(spread.mean, 1), divided}] = -factor
        else:
            shifts[monomial] = factor
    if len(scales) != 1 or len(shifts) > 1 or (spread.mean is not None and centres != scales):
        return None
    ((rest, factor),) = scales.items()
    gamma = Parameter.of(rest, factor, "gamma")
    beta = next((Parameter.of(rest, factor, "beta") for rest, factor in shifts.items()), Parameter(None, 0.0, "beta"))
    return None if gamma is None or beta is None else (gamma, beta)


def _over_images(spread: _Spread) -> bool:
    """Whether the axes are all those behind the channels; the last alone only where LayerNormalization has no shape."""
    dims = ir.dims(spread.x) or ()
    if len(dims) < 3 or (len(dims) == 3 and isinstance(dims[-1], int)):
        return False
    try:
        return _axes(spread, len(dims)) == list(range(2, len(dims)))
    except Decline:
        return False


def _axes(spread: _Spread, rank: int) -> list[int]:
    """Sorted non-negative axes of the means, which keep their dimensions."""
    found = [_axes_of(mean, rank) for mean in spread.means]
    if found[0] != found[-1]:
        raise Decline("mean and variance are taken over different axes")
    return found[0]


def _axes_of(mean: ir.Node, rank: int) -> list[int]:
    given = ir.attribute(mean, "axes")
    if given is None and len(mean.inputs) > 1:
        found = ir.constant(mean.inputs[1])
        given = None if found is None else found.tolist()
    if given is None or not ir.attribute(mean, "keepdims", 1):
        raise Decline("the axes of a mean are not known, or it drops them")
    return sorted(int(axis) % rank for axis in given)


NORMALIZATION_RULES: tuple[Rule, ...] = tuple(
    Normalization(operator, opset, root)
    for operator, opset in (("InstanceNormalization", 6), ("LayerNormalization", 17), ("RMSNormalization", 23))
    for root in ("Div", "Mul", "Add", "Sub")
)

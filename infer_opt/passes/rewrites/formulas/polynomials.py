"""Formulas read as polynomials: every order and grouping in which an exporter may write them is the same then.

    0.5 * x * (1 + t) = 0.5 * (x + x * t) = x * (t * 0.5 + 0.5) = {x: 0.5, x t: 0.5}

Sums, products and quotients are multiplied out over atoms: whatever is computed by other operators. Constants of one
element are coefficients, others are atoms too, and so are numbers so large that to add them rounds.
"""

from __future__ import annotations

import abc
import math
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from onnxscript.rewriter.pattern import MatchResult, RewriteRule

from infer_opt import ir
from infer_opt.passes.engine.rules import Decline, Match, Rule
from infer_opt.passes.rewrites.linear.linear import narrow, rounds

__all__ = [
    "ARITHMETIC",
    "ONE",
    "Monomial",
    "Polynomial",
    "Reading",
    "Written",
    "close",
    "power",
    "require_attributes",
    "require_float",
]

Monomial = frozenset[tuple[ir.Value, int]]
"""Atoms, each with its power, which may be negative."""
Polynomial = dict[Monomial, float]

ONE: Monomial = frozenset()

_MOST_NODES = 24  # of one formula
_MOST_READS = 512  # of its values: one that is read twice at each of many nodes in a row is read in as many ways
_MOST_TERMS = 12
_HIGHEST_POWER = 4
ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "Neg", "Pow", "Reciprocal"})
_TOLERANCE = 1e-5  # of a coefficient, relative: exporters round constants to a few digits
_HALF_TOLERANCE = 1e-3  # in float16, that is one rounding


def power(*atoms: tuple[ir.Value, int] | ir.Value) -> Monomial:
    """The product of atoms, each with its power or once."""
    return frozenset((atom, 1) if isinstance(atom, ir.Value) else atom for atom in atoms)


def close(found: float, wanted: float, dtype: ir.DataType | None) -> bool:
    """Whether a coefficient is a number, as near as its dtype and exporters come; zero has to be zero itself."""
    return math.isclose(found, wanted, rel_tol=_HALF_TOLERANCE if dtype == ir.DataType.FLOAT16 else _TOLERANCE)


class Reading:
    """What has been read of one formula, from its last node up.

    Attributes:
        nodes: what would vanish with the formula.
        numbers: the constants that are coefficients now.
    """

    def __init__(self, root: ir.Node) -> None:
        self.root = root
        self.nodes: dict[ir.Node, None] = {}
        self.numbers: dict[ir.Value, None] = {}
        self._reads = 0

    def take(self, value: ir.Value | None, *operators: str) -> ir.Node | None:
        """The node that makes a value, as a part of the formula, if it is one of these operators and may vanish."""
        node = None if value is None else value.producer()
        if node is None or node.domain or node.op_type not in operators or node.graph is not self.root.graph:
            return None
        if node is not self.root and node.outputs[0].is_graph_output():
            return None
        self.nodes[node] = None
        return node

    def polynomial(self, value: ir.Value, atoms: Collection[ir.Value] = (), *, through: bool = False) -> Polynomial:
        """The polynomial that a value is.

        Args:
            atoms: values that are not looked into.
            through: look into values that are read more than once too; otherwise these are atoms.
        """
        number = ir.scalar(value)
        if number is not None and not rounds(ir.array(value)):
            self.numbers[value] = None
            return {ONE: float(number)}
        single = through or value is self.root.outputs[0] or len(value.uses()) == 1
        self._reads += 1
        if value in atoms or not single or len(self.nodes) >= _MOST_NODES or self._reads > _MOST_READS:
            return {power(value): 1.0}
        before = dict(self.nodes)
        node = self.take(value, *ARITHMETIC)
        made = None if node is None else self._applied(node, atoms, through=through)
        if made is None or len(made) > _MOST_TERMS:
            self.nodes = before
            return {power(value): 1.0}
        return made

    def _applied(self, node: ir.Node, atoms: Collection[ir.Value], *, through: bool) -> Polynomial | None:
        def read(index: int) -> Polynomial:
            return self.polynomial(_input(node, index), atoms, through=through)

        match node.op_type:
            case "Neg":
                return _product(read(0), {ONE: -1.0})
            case "Reciprocal":
                return _inverse(read(0))
            case "Pow":
                return self._raised(_input(node, 1), read)
            case "Mul":
                return _product(read(0), read(1))
            case "Div":
                divisor = _inverse(read(1))
                return None if divisor is None else _product(read(0), divisor)
            case operator:
                sign = 1.0 if operator == "Add" else -1.0
                return _sum(read(0), _product(read(1), {ONE: sign}))

    def _raised(self, exponent: ir.Value, read: Callable[[int], Polynomial]) -> Polynomial | None:
        times = ir.scalar(exponent)
        if times not in range(1, _HIGHEST_POWER + 1):
            return None
        self.numbers[exponent] = None
        base = result = read(0)
        for _ in range(round(float(times or 0)) - 1):
            result = _product(result, base)
        return result

    def finish(self, rank: int | None) -> None:
        """Nothing else reads what vanishes, and no constant raises the rank of the result.

        Raises:
            Decline: it does.
        """
        for node in self.nodes:
            made = node.outputs[0]
            if node is not self.root and any(user not in self.nodes for user, _ in made.uses()):
                raise Decline(f"`{made.name}` is read by others too")
        for value in self.numbers:
            own = ir.rank(value)
            if own is None or own > (rank or 0):
                raise Decline(f"`{value.name}` may raise the rank of the result")


def _input(node: ir.Node, index: int) -> ir.Value:
    value = node.inputs[index]
    assert value is not None  # noqa: S101 - operators of arithmetic have no input that may be left out
    return value


def _sum(left: Polynomial, right: Polynomial) -> Polynomial:
    result = dict(left)
    for monomial, factor in right.items():
        result[monomial] = result.get(monomial, 0.0) + factor
    return {monomial: factor for monomial, factor in result.items() if factor}


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    result: Polynomial = defaultdict(float)
    for first, one in left.items():
        for second, other in right.items():
            powers: dict[ir.Value, int] = defaultdict(int)
            for atom, exponent in (*first, *second):
                powers[atom] += exponent
            result[frozenset((atom, exponent) for atom, exponent in powers.items() if exponent)] += one * other
    return dict(result)


def _inverse(divisor: Polynomial) -> Polynomial | None:
    if len(divisor) != 1:
        return None
    ((monomial, factor),) = divisor.items()
    return {frozenset((atom, -exponent) for atom, exponent in monomial): 1.0 / factor} if factor else None


class Written(Rule):
    """An operator written out, recognised by the polynomial that its formula is."""

    near = 3

    @property
    def pattern(self) -> Callable[..., Any]:
        """Any node of the root's operator: `read` looks at what is before it."""
        if self.root in _UNARY:
            return lambda op, a: getattr(op, self.root)(a)
        return lambda op, a, b: getattr(op, self.root)(a, b)

    def match(self, matcher: RewriteRule, model: ir.Model, graph: ir.Graph, node: ir.Node) -> MatchResult | None:
        """The nodes of the formula that `read` finds."""
        del matcher, model, graph
        reading, found, reason = Reading(node), MatchResult(), ""
        try:
            if self.read(reading) is None:
                return None
        except Decline as declined:
            reason = str(declined)
        for part in reading.nodes:
            found.add_node(part)
        return found.fail(reason) if reason else found

    def check(self, match: Match) -> Any:
        """The facts that `read` finds."""
        return self.read(Reading(match.root))

    @abc.abstractmethod
    def read(self, reading: Reading) -> Any | None:
        """Facts of the formula that ends in `reading.root`, or None where it is another.

        Raises:
            Decline: it is nearly this one.
        """


_UNARY = frozenset({"Log", "Relu"})


def require_attributes(*numbers: float) -> None:
    """Attributes are float32, which a product of constants may leave though no value of the formula does.

    Raises:
        Decline: a number would overflow or vanish.
    """
    for number in numbers:
        narrow(np.asarray(number), np.dtype(np.float32))


def require_float(x: ir.Value) -> None:
    """Doubles are left alone: onnxruntime has kernels of their formulas only."""
    if x.dtype not in {ir.DataType.FLOAT, ir.DataType.FLOAT16}:
        raise Decline("its input is neither float nor float16")

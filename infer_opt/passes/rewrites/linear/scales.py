"""One number that everything is multiplied with goes back into the weights that it came from.

    c Reshape(x W + b) = Reshape(x (c W) + c b)        c (q k) = (c q) k

Operators that only move numbers, and the sum with a constant, let the number through; so does a product, on one of its
sides. This takes the scale before a softmax into the projection of the queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.linear.linear import LINEAR_OPERATORS, narrow

if TYPE_CHECKING:
    from onnxscript.rewriter.pattern import MatchResult, RewriteRule

__all__ = ["SCALE_RULES"]

_MOVES = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten")  # of their first input
_MOST_STEPS = 16  # from the number back to the weights
_SMALL = 1 << 12  # elements: a constant that others read too may be had twice


@dataclass(frozen=True)
class _Scaled:
    """An input of a node, and the constant that takes its place."""

    node: ir.Node
    index: int
    constant: np.ndarray[Any, Any]


class NumberIntoWeights(Rule):
    """`inner(...) * c` or `/ c` to `inner(...)`, with c in the weights some steps before; only they may read those."""

    name = "number into weights before"

    def __init__(self, operator: str, inner: str) -> None:
        self.root, self.inner = operator, inner
        self.commutes = operator == "Mul"

    @property
    def pattern(self) -> Any:
        if self.inner == "Add":  # it commutes too, and for that the engine has to see both inputs
            return lambda op, x, y, c: getattr(op, self.root)(op.Add(x, y, _outputs=["inner"]), c)
        return lambda op, x, c: getattr(op, self.root)(
            getattr(op, self.inner)(x, _allow_other_inputs=True, _outputs=["inner"]), c
        )

    def match(self, matcher: RewriteRule, model: ir.Model, graph: ir.Graph, node: ir.Node) -> MatchResult | None:
        """Nothing for a product of two computed values, which is not nearly this one."""
        near = any(ir.is_constant(value) for value in node.inputs)
        return super().match(matcher, model, graph, node) if near else None

    def check(self, match: Match) -> list[_Scaled]:
        number, own, rank = ir.scalar(match["c"]), ir.rank(match["c"]), ir.rank(match["inner"])
        if not isinstance(number, float):
            raise Decline(f"`{match['c'].name}` is not one constant number")
        if own is None or rank is None or own > rank:
            raise Decline("the constant may raise the rank of the result")
        if number == 0.0 or not math.isfinite(number):
            raise Decline("the number is zero or not finite")
        return _back(match["inner"], match.root, 1 / number if self.root == "Div" else number, _MOST_STEPS)

    def rewrite(self, op: Builder, match: Match, facts: list[_Scaled]) -> ir.Value:
        for scaled in facts:
            old = scaled.node.inputs[scaled.index]
            scaled.node.replace_input_with(
                scaled.index, op.initializer(scaled.constant, old.name if old is not None else None)
            )
        inner = match.node("inner")
        return op.node(inner.op_type, inner.inputs, inner.attributes)


def _back(value: ir.Value | None, reader: ir.Node, number: float, steps: int) -> list[_Scaled]:
    """The constants to scale, so that `value` is multiplied with the number.

    Raises:
        Decline: there are none, or another node would see it.
    """
    maker = value.producer() if value is not None else None
    if value is None or maker is None or maker.domain or not steps or maker.graph is not reader.graph:
        raise Decline("no weights come before it, or not near enough")
    if len(value.uses()) != 1 or value.is_graph_output():
        raise Decline(f"`{value.name}` has other readers")
    if maker.op_type in _MOVES:
        return _back(maker.inputs[0], maker, number, steps - 1)
    constants = [index for index, operand in enumerate(maker.inputs) if ir.is_constant(operand)]
    if maker.op_type == "Add" and len(constants) == 1:
        return [_scaled(maker, constants[0], number), *_back(maker.inputs[1 - constants[0]], maker, number, steps - 1)]
    if maker.op_type in LINEAR_OPERATORS and (weight := next((i for i in (1, 0) if i in constants), None)) is not None:
        if len(maker.inputs) > 2 and maker.inputs[2] is not None:
            return [_scaled(maker, weight, number), _scaled(maker, 2, number)]
        return [_scaled(maker, weight, number)]
    if maker.op_type == "MatMul":
        try:
            return _back(maker.inputs[0], maker, number, steps // 2)
        except Decline:
            return _back(maker.inputs[1], maker, number, steps // 2)
    raise Decline(f"`{maker.name}` is no linear operator with constant weights")


def _scaled(node: ir.Node, index: int, number: float) -> _Scaled:
    value = node.inputs[index]
    constant = ir.constant(value)
    if value is None or constant is None or constant.dtype.kind != "f":
        raise Decline(f"a weight or bias of `{node.name}` is not a constant of floats")
    if len(value.uses()) > 1 and constant.size > _SMALL:
        raise Decline(f"other nodes read `{value.name}` too")
    with np.errstate(all="ignore"):  # what is not finite is declined
        return _Scaled(node, index, narrow(constant.astype(np.float64) * number, constant.dtype))


SCALE_RULES: tuple[Rule, ...] = tuple(
    NumberIntoWeights(operator, inner) for operator in ("Mul", "Div") for inner in (*_MOVES, "Add", "MatMul")
)

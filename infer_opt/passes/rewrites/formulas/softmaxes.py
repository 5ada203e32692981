"""Softmax and LogSoftmax written out.

    Softmax(x)    = exp(x) / sum(exp(x)) = Softmax(x - max(x))
    LogSoftmax(x) = log(Softmax(x)) = x - log(sum(exp(x))) = LogSoftmax(x - max(x))

The operators subtract the maximum themselves: they are finite where exp overflows and where log is of zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.formulas.polynomials import require_float

__all__ = ["SOFTMAX_RULES"]


class SoftmaxWritten(Rule):
    """A formula over `x` with a node `total` that sums exp(x), to `operator`.

    Only along the last axis: onnxruntime turns the tensor around for any other, and the formula is faster there.
    """

    opset = 13
    commutes = True
    near = 3

    def __init__(self, operator: str, root: str, spelling: Callable[..., Any]) -> None:
        self.makes, self.root, self.spelling = operator, root, spelling
        self.name = f"{operator} written out"

    @property
    def pattern(self) -> Callable[..., Any]:
        """The spelling."""
        return self.spelling

    def check(self, match: Match) -> None:
        x = match["x"]
        require_float(x)
        rank = ir.rank(x)
        if not rank:
            raise Decline("the rank of its input is not known")
        if _axis(match.node("total"), rank) != rank - 1:
            raise Decline("what is summed is not the last axis")

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        del facts
        return op.node(self.makes, [match["x"]], {"axis": -1})


class LogOfSoftmax(Rule):
    """`Log(Softmax(x))` to `LogSoftmax(x)`, along any axis."""

    name = "LogSoftmax written out"
    root = "Log"
    makes = "LogSoftmax"
    opset = 13

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Log(op.Softmax(x, _allow_other_attributes=True, _outputs=["normal"]))

    def check(self, match: Match) -> None:
        require_float(match["x"])

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        del facts
        return op.node("LogSoftmax", [match["x"]], match.node("normal").attributes)


class ShiftBeforeSoftmax(Rule):
    """`Softmax(x - max(x))` to `Softmax(x)`, and LogSoftmax likewise, for the maximum along the same axis."""

    opset = 13
    near = 3

    def __init__(self, operator: str) -> None:
        self.root = operator
        self.name = f"shift before {operator}"

    def pattern(self, op: Any, x: Any) -> Any:
        greatest = op.ReduceMax(x, _allow_other_inputs=True, _allow_other_attributes=True, _outputs=["greatest"])
        return getattr(op, self.root)(op.Sub(x, greatest), _allow_other_attributes=True, _outputs=["y"])

    def check(self, match: Match) -> None:
        rank = ir.rank(match["x"])
        if not rank:
            raise Decline("the rank of its input is not known")
        if _axis(match.node("greatest"), rank) != ir.attribute(match.root, "axis", -1) % rank:
            raise Decline("the maximum is not that of the axis")

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        del facts
        return op.node(self.root, [match["x"]], match.root.attributes)


def _axis(reduced: ir.Node, rank: int) -> int | None:
    """The one axis that a node reduces and keeps as 1, or None."""
    given = ir.attribute(reduced, "axes")
    if given is None and len(reduced.inputs) > 1:
        found = ir.constant(reduced.inputs[1])
        given = None if found is None else found.tolist()
    if given is None or len(given) != 1 or not ir.attribute(reduced, "keepdims", 1):
        return None
    return int(given[0]) % rank


def _total(op: Any, exponential: Any) -> Any:
    return op.ReduceSum(exponential, _allow_other_inputs=True, _allow_other_attributes=True, _outputs=["total"])


def _quotient(op: Any, x: Any) -> Any:
    exponential = op.Exp(x, _outputs=["exponential"])
    return op.Div(exponential, _total(op, exponential))


def _product(op: Any, x: Any) -> Any:
    exponential = op.Exp(x, _outputs=["exponential"])
    return op.Mul(exponential, op.Reciprocal(_total(op, exponential)))


def _difference(op: Any, x: Any) -> Any:
    return op.Sub(x, op.Log(_total(op, op.Exp(x))))


SOFTMAX_RULES: tuple[Rule, ...] = (
    SoftmaxWritten("Softmax", "Div", _quotient),
    SoftmaxWritten("Softmax", "Mul", _product),
    ShiftBeforeSoftmax("Softmax"),
    LogOfSoftmax(),
    SoftmaxWritten("LogSoftmax", "Sub", _difference),
    ShiftBeforeSoftmax("LogSoftmax"),
)

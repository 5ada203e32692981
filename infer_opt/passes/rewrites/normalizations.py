"""Normalisations written out: mean and variance over the last axes become LayerNormalization.

d = x - mean(x);  y = d / sqrt(mean(d^2) + epsilon) * gamma + beta
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule

__all__ = ["NORMALIZATION_RULES"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Facts:
    axis: int
    epsilon: float
    gamma: Array


class LayerNorm(Rule):
    """The formula above, without beta, to LayerNormalization (opset 17), for gamma of the shape of the last axes.

    LayerNormalization finds mean and variance in float32, so doubles keep the formula.

    Args:
        square: how d^2 is spelled, `Pow` or `Mul`.
    """

    name = "LayerNormalization written out"
    root = "Mul"
    makes = "LayerNormalization"
    opset = 17
    commutes = True
    near = 4

    def __init__(self, square: str) -> None:
        self.square = square

    def _normal(self, op: Any, x: Any, two: Any, epsilon: Any) -> Any:
        mean = op.ReduceMean(x, _allow_other_inputs=True, _outputs=["mean"])
        centred = op.Sub(x, mean, _outputs=["centred"])
        squared = op.Mul(centred, centred) if self.square == "Mul" else op.Pow(centred, two)
        variance = op.ReduceMean(squared, _allow_other_inputs=True, _outputs=["variance"])
        return op.Div(centred, op.Sqrt(op.Add(variance, epsilon)))

    @property
    def pattern(self) -> Any:
        # onnxscript binds by parameter names, so each spelling needs a signature of its own.
        if self.square == "Mul":
            return lambda op, x, epsilon, gamma: op.Mul(self._normal(op, x, None, epsilon), gamma)
        return lambda op, x, two, epsilon, gamma: op.Mul(self._normal(op, x, two, epsilon), gamma)

    def check(self, match: Match) -> _Facts:
        x, rank = match["x"], ir.rank(match["x"])
        if x.dtype not in {ir.DataType.FLOAT, ir.DataType.FLOAT16}:
            raise Decline("its input is neither float nor float16")
        if rank is None:
            raise Decline("the rank of its input is not known")
        if self.square == "Pow" and _number(match["two"], rank) != 2.0:
            raise Decline("the deviation is not squared")
        epsilon = _number(match["epsilon"], rank)
        if epsilon is None or not 0.0 <= epsilon < 1.0:
            raise Decline("epsilon is not a small constant")
        mean, variance = (_axes(match.node(name), rank) for name in ("mean", "variance"))
        if mean != variance:
            raise Decline("mean and variance are taken over different axes")
        if not mean or mean != list(range(rank - len(mean), rank)):
            raise Decline("the axes are not the last ones")
        gamma = _parameter(match["gamma"], rank, _fixed_tail(x, len(mean)))
        return _Facts(-len(mean), float(epsilon), gamma)

    def rewrite(self, op: Builder, match: Match, facts: _Facts) -> ir.Value:
        gamma = op.initializer(facts.gamma, match["gamma"].name)
        attributes = {"axis": facts.axis, "epsilon": facts.epsilon}
        return op.node("LayerNormalization", [match["x"], gamma], attributes)


class AddIntoLayerNorm(Rule):
    """`LayerNormalization(x, gamma) + beta` to `LayerNormalization(x, gamma, beta)`."""

    name = "Add into LayerNormalization"
    root = "Add"
    opset = 17
    commutes = True

    def pattern(self, op: Any, x: Any, gamma: Any, beta: Any) -> Any:
        return op.Add(op.LayerNormalization(x, gamma, _allow_other_inputs=True, _outputs=["normal"]), beta)

    def check(self, match: Match) -> Array:
        norm, rank = match.node("normal"), ir.rank(match["x"])
        if len(norm.inputs) > 2 and norm.inputs[2] is not None:
            raise Decline("the LayerNormalization adds something already")
        if not rank:
            raise Decline("the rank of its input is not known")
        axis = ir.attribute(norm, "axis", -1)
        return _parameter(match["beta"], rank, _fixed_tail(match["x"], rank - axis % rank))

    def rewrite(self, op: Builder, match: Match, facts: Array) -> ir.Value:
        beta = op.initializer(facts, match["beta"].name)
        return op.node("LayerNormalization", [match["x"], match["gamma"], beta], match.node("normal").attributes)


def _number(value: ir.Value, rank: int) -> float | None:
    """The one element of a constant that raises no rank, or None."""
    own = ir.rank(value)
    return ir.scalar(value) if own is not None and own <= rank else None


def _axes(mean: ir.Node, rank: int) -> list[int]:
    """Sorted non-negative axes of a ReduceMean that keeps its dimensions."""
    given = ir.attribute(mean, "axes")
    if given is None and len(mean.inputs) > 1:
        found = ir.constant(mean.inputs[1])
        given = None if found is None else found.tolist()
    if given is None or not ir.attribute(mean, "keepdims", 1):
        raise Decline("the axes of a mean are not known, or it drops them")
    return sorted(int(axis) % rank for axis in given) if rank else []


def _fixed_tail(x: ir.Value, count: int) -> tuple[int, ...]:
    dims = ir.dims(x)
    tail = [size for size in dims[-count:] if isinstance(size, int)] if dims is not None else []
    if len(tail) != count:
        raise Decline("the normalised dimensions are not fixed")
    return tuple(tail)


def _parameter(value: ir.Value, rank: int, shape: tuple[int, ...]) -> Array:
    """A constant that is multiplied with or added to the result, in the shape of the normalised axes."""
    found = ir.constant(value)
    if found is None:
        raise Decline(f"`{value.name}` is not a constant")
    leading = found.shape[: max(0, found.ndim - len(shape))]
    if any(size != 1 for size in leading):
        raise Decline(f"`{value.name}` varies along an axis that is not normalised")
    if found.ndim > rank:
        raise Decline(f"`{value.name}` raises the rank of the result")
    try:
        return np.ascontiguousarray(np.broadcast_to(found.reshape(found.shape[len(leading) :]), shape))
    except ValueError:
        raise Decline(f"`{value.name}` does not have the shape of the normalised axes") from None


NORMALIZATION_RULES: tuple[Rule, ...] = (LayerNorm("Pow"), LayerNorm("Mul"), AddIntoLayerNorm())

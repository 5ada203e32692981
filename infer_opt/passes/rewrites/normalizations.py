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


@dataclass(frozen=True)
class _Facts:
    axis: int
    epsilon: float
    gamma: np.ndarray[Any, Any]
    beta: np.ndarray[Any, Any] | None


class LayerNorm(Rule):
    """The formula above to LayerNormalization (opset 17), for gamma and beta of the shape of the last axes.

    Args:
        square: how d^2 is spelled, `Pow` or `Mul`.
        scale: whether `* gamma` and `+ beta` are there.
    """

    opset = 17
    commutes = True

    def __init__(self, square: str, *, shifted: bool) -> None:
        self.square, self.shifted = square, shifted
        self.root = "Add" if shifted else "Mul"
        self.name = "LayerNormalization written out"

    def _normal(self, op: Any, x: Any, two: Any, epsilon: Any) -> Any:
        mean = op.ReduceMean(x, _allow_other_inputs=True, _outputs=["mean"])
        centred = op.Sub(x, mean)
        squared = op.Mul(centred, centred) if self.square == "Mul" else op.Pow(centred, two)
        variance = op.ReduceMean(squared, _allow_other_inputs=True, _outputs=["variance"])
        return op.Div(centred, op.Sqrt(op.Add(variance, epsilon)))

    @property
    def pattern(self) -> Any:
        # onnxscript binds by parameter names, so each spelling needs a signature of its own.
        if self.square == "Mul":
            if self.shifted:
                return lambda op, x, epsilon, gamma, beta: op.Add(
                    op.Mul(self._normal(op, x, None, epsilon), gamma), beta
                )
            return lambda op, x, epsilon, gamma: op.Mul(self._normal(op, x, None, epsilon), gamma)
        if self.shifted:
            return lambda op, x, two, epsilon, gamma, beta: op.Add(
                op.Mul(self._normal(op, x, two, epsilon), gamma), beta
            )
        return lambda op, x, two, epsilon, gamma: op.Mul(self._normal(op, x, two, epsilon), gamma)

    def check(self, match: Match) -> _Facts:
        if self.square == "Pow" and ir.scalar(match["two"]) != 2.0:
            raise Decline("the deviation is not squared")
        epsilon = ir.scalar(match["epsilon"])
        if epsilon is None or not 0.0 <= epsilon < 1.0:
            raise Decline("epsilon is not a small constant")
        axes = [_axes(match.node(name), match["x"]) for name in ("mean", "variance")]
        if axes[0] != axes[1]:
            raise Decline("mean and variance are taken over different axes")
        rank = ir.rank(match["x"])
        if rank is None or axes[0] != list(range(rank - len(axes[0]), rank)):
            raise Decline("the axes are not the last ones")
        shape = _fixed_tail(match["x"], len(axes[0]))
        gamma = _parameter(match["gamma"], shape)
        beta = _parameter(match["beta"], shape) if self.shifted else None
        return _Facts(-len(axes[0]), float(epsilon), gamma, beta)

    def rewrite(self, op: Builder, match: Match, facts: _Facts) -> ir.Value:
        inputs: list[ir.Value | None] = [match["x"], op.initializer(facts.gamma, match["gamma"].name)]
        if facts.beta is not None:
            inputs.append(op.initializer(facts.beta, match["beta"].name))
        return op.node("LayerNormalization", inputs, {"axis": facts.axis, "epsilon": facts.epsilon})


def _axes(mean: ir.Node, x: ir.Value) -> list[int]:
    """Sorted non-negative axes of a ReduceMean that keeps its dimensions."""
    rank = ir.rank(x)
    given = ir.attribute(mean, "axes")
    if given is None and len(mean.inputs) > 1:
        found = ir.constant(mean.inputs[1])
        given = None if found is None else found.tolist()
    if rank is None or given is None or not ir.attribute(mean, "keepdims", 1):
        raise Decline("the axes of a mean are not known, or it drops them")
    return sorted(int(axis) % rank for axis in given)


def _fixed_tail(x: ir.Value, count: int) -> tuple[int, ...]:
    dims = ir.dims(x)
    tail = [size for size in dims[-count:] if isinstance(size, int)] if dims is not None and count else []
    if len(tail) != count or not count:
        raise Decline("the normalised dimensions are not fixed")
    return tuple(tail)


def _parameter(value: ir.Value, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    found = ir.constant(value)
    if found is None:
        raise Decline(f"`{value.name}` is not a constant")
    leading = found.shape[: max(0, found.ndim - len(shape))]
    if any(size != 1 for size in leading):
        raise Decline(f"`{value.name}` varies along an axis that is not normalised")
    try:
        return np.ascontiguousarray(np.broadcast_to(found.reshape(found.shape[len(leading) :]), shape))
    except ValueError:
        raise Decline(f"`{value.name}` does not have the shape of the normalised axes") from None


NORMALIZATION_RULES: tuple[Rule, ...] = tuple(
    LayerNorm(square, shifted=shifted) for shifted in (True, False) for square in ("Pow", "Mul")
)

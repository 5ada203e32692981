"""Slices: two in a row that cut along different axes are one."""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule

__all__ = ["SLICE_RULES"]

Array = np.ndarray[Any, Any]


class SliceOfSlice(Rule):
    """`Slice(Slice(x, a), b)` to `Slice(x, a + b)` where no axis is cut twice."""

    name = "Slice of Slice"
    root = "Slice"

    def pattern(self, op: Any, x: Any) -> Any:
        inner = op.Slice(x, _allow_other_inputs=True, _outputs=["inner"])
        return op.Slice(inner, _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> list[Array]:
        rank = ir.rank(match["x"])
        first, second = _bounds(match.node("inner"), rank), _bounds(match.root, rank)
        if set(first[2].tolist()) & set(second[2].tolist()):
            raise Decline("both cut the same axis")
        return [np.concatenate(pair) for pair in zip(first, second, strict=True)]

    def rewrite(self, op: Builder, match: Match, facts: list[Array]) -> ir.Value:
        what = ("starts", "ends", "axes", "steps")
        bounds = [op.initializer(array, f"{match.root.name}_{name}") for array, name in zip(facts, what, strict=True)]
        return op.node("Slice", [match["x"], *bounds])


def _bounds(node: ir.Node, rank: int | None) -> list[Array]:
    """Starts, ends, non-negative axes and steps, as int64."""
    found = [ir.constant(value) for value in node.inputs[1:]]
    given = [value is not None for value in node.inputs[1:]]
    if any(array is None for array, there in zip(found, given, strict=True) if there):
        raise Decline(f"the bounds of `{node.name}` are not constant")
    starts, ends, axes, steps = [*found, None, None, None, None][:4]
    if starts is None or ends is None or not rank:
        raise Decline(f"the bounds of `{node.name}` are not known")
    axes = np.arange(len(starts)) if axes is None else axes % rank
    steps = np.ones(len(starts)) if steps is None else steps
    return [np.asarray(array, np.int64) for array in (starts, ends, axes, steps)]


SLICE_RULES: tuple[Rule, ...] = (SliceOfSlice(),)

"""Unsqueezes: two in a row are one, and one that a Squeeze takes back is none, whatever the dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule

__all__ = ["UNSQUEEZE_RULES"]


class UnsqueezeOfUnsqueeze(Rule):
    """`Unsqueeze<b>(Unsqueeze<a>(x))` to `Unsqueeze<c>(x)`: c holds b, and where the axes of a come to lie."""

    name = "Unsqueeze of Unsqueeze"
    root = "Unsqueeze"
    opset = 13  # axes as an input

    def pattern(self, op: Any, x: Any, a: Any, b: Any) -> Any:
        return op.Unsqueeze(op.Unsqueeze(x, a), b)

    def check(self, match: Match) -> list[int]:
        rank = ir.rank(match["x"])
        if rank is None:
            raise Decline("the rank of its input is not known")
        first = _axes(match["a"])
        second = _axes(match["b"])
        between, after = rank + len(first), rank + len(first) + len(second)
        outer = {axis % after for axis in second}
        places = [axis for axis in range(after) if axis not in outer]
        return sorted(outer | {places[axis % between] for axis in first})

    def rewrite(self, op: Builder, match: Match, facts: list[int]) -> ir.Value:
        axes = op.initializer(np.asarray(facts, np.int64), f"{match.root.name}_axes")
        return op.node("Unsqueeze", [match["x"], axes])


class SqueezeOfUnsqueeze(Rule):
    """`Squeeze<a>(Unsqueeze<a>(x))` to `x`, through an Identity that the no-ops then drop."""

    name = "Squeeze of Unsqueeze"
    root = "Squeeze"
    opset = 13

    def pattern(self, op: Any, x: Any, a: Any) -> Any:
        return op.Squeeze(op.Unsqueeze(x, a), _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> None:
        rank, wanted = ir.rank(match["x"]), match.root.inputs[1:]
        if not wanted or wanted[0] is None:
            raise Decline("the Squeeze takes every axis of size 1")
        first, second = _axes(match["a"]), _axes(wanted[0])
        after = None if rank is None else rank + len(first)
        places = [sorted(axis % after if after else axis for axis in axes) for axes in (first, second)]
        if places[0] != places[1]:
            raise Decline("the Squeeze takes other axes than the Unsqueeze made")

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        del facts
        return op.node("Identity", [match["x"]])


def _axes(value: ir.Value) -> list[int]:
    axes = ir.constant(value)
    if axes is None:
        raise Decline("the axes are not constant")
    return [int(axis) for axis in axes.reshape(-1)]


UNSQUEEZE_RULES: tuple[Rule, ...] = (UnsqueezeOfUnsqueeze(), SqueezeOfUnsqueeze())

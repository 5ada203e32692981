"""Slices: two in a row are one, and some side by side are the whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule

__all__ = ["SLICE_RULES"]

Array = np.ndarray[Any, Any]

_FAR = np.iinfo(np.int32).max  # no dimension is as long


class SliceOfSlice(Rule):
    """`Slice(Slice(x, a), b)` to one Slice.

    Axes that only one of them cuts stay as they are. Along an axis that both cut, by steps of 1 and from bounds that
    count from the front, x[a:b][c:d] = x[a + c : min(b, a + d)].
    """

    name = "Slice of Slice"
    root = "Slice"

    def pattern(self, op: Any, x: Any) -> Any:
        inner = op.Slice(x, _allow_other_inputs=True, _outputs=["inner"])
        return op.Slice(inner, _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> list[Array]:
        rank = ir.rank(match["x"])
        first, second = _bounds(match.node("inner"), rank), _bounds(match.root, rank)
        return _both(first, second)

    def rewrite(self, op: Builder, match: Match, facts: list[Array]) -> ir.Value:
        what = ("starts", "ends", "axes", "steps")
        bounds = [op.initializer(array, f"{match.root.name}_{name}") for array, name in zip(facts, what, strict=True)]
        return op.node("Slice", [match["x"], *bounds])


def _both(first: list[Array], second: list[Array]) -> list[Array]:
    """The bounds of a Slice of a Slice, as starts, ends, axes and steps."""
    cuts = {int(cut[2]): cut for cut in zip(*first, strict=True)}
    for start, end, axis, step in zip(*second, strict=True):
        if int(axis) not in cuts:
            cuts[int(axis)] = (start, end, axis, step)
            continue
        before, after, _, inner_step = cuts[int(axis)]
        if step != 1 or inner_step != 1 or min(start, end, before, after) < 0:
            raise Decline("both cut the same axis, by steps or counted from its end")
        begin = min(int(before) + int(start), _FAR)
        cuts[int(axis)] = (begin, min(int(after), int(before) + int(end)), axis, step)
    return [np.asarray(column, np.int64) for column in zip(*cuts.values(), strict=True)]


def sliced_value(node: ir.Node, axis: int | None) -> ir.Value | None:
    """The value that a Concat along `axis` puts together again from Slices of it, from first element to last."""
    reached, whole = 0, None
    for value in node.inputs:
        maker = value.producer() if value is not None else None
        if maker is None or maker.op_type != "Slice" or maker.domain or axis is None:
            return None
        source, cut = maker.inputs[0], _lone_cut(maker)
        if cut is None or cut[2] != axis or cut[0] != reached or cut[1] < reached or source is not (whole or source):
            return None
        reached, whole = cut[1], source
    sizes = ir.dims(whole)
    size = sizes[axis] if sizes is not None and axis is not None else None
    return whole if reached >= (size if isinstance(size, int) else _FAR) else None


def _lone_cut(node: ir.Node) -> tuple[int, int, int] | None:
    """Start, end and axis of a Slice along one axis by steps of 1, both bounds counted from the front."""
    shape = ir.dims(node.inputs[0])
    if shape is None or len(node.inputs) < 3:
        return None
    try:
        bounds = _bounds(node, len(shape))
    except Decline:
        return None
    if len(bounds[0]) != 1 or bounds[3][0] != 1:
        return None
    start, end, axis = (int(bound[0]) for bound in bounds[:3])
    size = shape[axis]
    if isinstance(size, int):
        start, end = (max(0, bound + size) if bound < 0 else bound for bound in (start, end))
    return (start, end, axis) if min(start, end) >= 0 else None


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

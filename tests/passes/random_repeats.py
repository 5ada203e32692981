"""Patterns for random graphs that do something twice, or do it and undo it, or only nearly so."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from tests.passes.random_drawing import Drawing


def clamps(d: Drawing, x: str) -> str:
    """Relu and Clip in a row, each bound there or not, perhaps in the wrong order; the first may be read by others."""
    for _ in range(d.one_of(2, 3)):
        if d.opset < 12 or d.flip():
            x = d.node("Relu", [x], d.shapes[x])
            continue
        low = d.number(d.one_of(0, -1, 0.5, 3)) if d.flip() else ""
        high = [d.number(d.one_of(6, 1, 0, -0.5))] if d.flip() else []
        x = d.node("Clip", [x, low, *high], d.shapes[x])
    return x


def repeated(d: Drawing, x: str) -> str:
    """One operator that changes nothing the second time, or two of them in turns."""
    operators = d.one_of(("Relu",), ("Abs",), ("Floor", "Ceil"), ("Round",), ("Sign",), ("Ceil",))
    for index in range(d.one_of(2, 3)):
        x = d.node(operators[index % len(operators)], [x], d.shapes[x])
    return x


def parts(d: Drawing, x: str) -> str | None:
    """A value cut into slices along one axis, and those put together again: in order or not, all of them or not."""
    shape = d.shapes[x]
    axis = d.draw(st.integers(0, len(shape) - 1))
    size = shape[axis]
    if size < 2:
        return None
    cuts = [0, d.draw(st.integers(1, size - 1)), size]
    if d.rarely():
        cuts[2] -= 1
    pieces = []
    for start, end in pairwise(cuts):
        if start >= end:
            return None
        last = 2**40 if end == size and d.flip() else end - size if d.flip() and end < size else end
        bounds = [d.integers(number) for number in (start - size if d.rarely() and start else start, last, axis)]
        pieces.append(d.inner("Slice", [x, *bounds]))
    if d.rarely():
        pieces.reverse()
    joined = d.inner("Concat", pieces, axis=axis - len(shape) if d.flip() else axis)
    return d.kept(joined, (*shape[:axis], cuts[2], *shape[axis + 1 :]))


def unsqueezed(d: Drawing, x: str) -> str | None:
    """Two Unsqueezes in a row, and perhaps a Squeeze of what the last one made, or of something else."""
    shape = d.shapes[x]
    if len(shape) > 3:
        return None
    first = d.draw(st.integers(0, len(shape)))
    between = (*shape[:first], 1, *shape[first:])
    second = d.draw(st.integers(0, len(between)))
    after = (*between[:second], 1, *between[second:])
    inner = d.along("Unsqueeze", x, [first - len(between) if d.flip() else first])
    outer = d.along("Unsqueeze", inner, [second - len(after) if d.flip() else second])
    if d.flip():
        return d.kept(outer, after)
    ones = [axis for axis, size in enumerate(after) if size == 1]
    gone = d.one_of(*ones) if d.rarely() else second
    return d.kept(d.along("Squeeze", outer, [gone]), (*after[:gone], *after[gone + 1 :]))

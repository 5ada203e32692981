"""Patterns for random graphs whose sizes are computed from Shapes: of the value at hand, or of another."""

from __future__ import annotations

import numpy as np

from tests.passes.random_drawing import Drawing, Shape


def _entry(d: Drawing, x: str, axis: int) -> str:
    """A dimension of a value as a vector: a number, or read by one of the ways that exporters have."""
    if d.flip():
        return d.integers(d.shapes[x][axis])
    sizes = d.inner("Shape", [x])
    if d.flip():
        sizes = d.inner("Cast", [d.inner("Cast", [sizes], to=6)], to=7)
    if d.flip():
        return d.inner("Slice", [sizes, d.integers(axis), d.integers(axis + 1)])
    one = d.inner("Gather", [sizes, d.constant(np.array(axis, np.int64))])
    return d.along("Unsqueeze", one, [0])


def _alike(d: Drawing, x: str) -> str:
    """x, or rarely another value of its shape."""
    return d.one_of(*(name for name, shape in d.shapes.items() if shape == d.shapes[x])) if d.rarely() else x


def _shape(d: Drawing, x: str, like: Shape) -> str:
    """A shape as a vector: of a value that has it, whole or entry by entry."""
    source = _alike(d, x)
    if d.shapes[source] == like and d.flip():
        return d.inner("Shape", [source])
    entries = [
        _entry(d, source, axis) if axis < len(d.shapes[source]) and d.shapes[source][axis] == size else d.integers(size)
        for axis, size in enumerate(like)
    ]
    return d.inner("Concat", entries, axis=0)


def expanded(d: Drawing, x: str) -> str:
    """An Expand of x, or of something smaller that an operator takes beside x; the other side may be smaller too."""
    shape = d.shapes[x]
    if d.rarely():
        return d.kept(d.inner("Expand", [x, _shape(d, x, shape)]), shape)
    kept = d.one_of(len(shape), 1, 0)
    small = tuple(1 if d.flip() else size for size in shape[len(shape) - kept :])
    stretched = d.inner("Expand", [d.numbers(small, (1, 0.5, -2)), _shape(d, x, shape)])
    beside = d.numbers(small, (2, -1)) if d.rarely() else x
    return d.kept(d.swapped(d.one_of("Add", "Mul"), beside, stretched), shape)


def cut_to_size(d: Drawing, x: str) -> str:
    """A Slice along one axis that ends at a dimension: mostly of that axis."""
    shape = d.shapes[x]
    axis = d.one_of(*range(len(shape)))
    other = d.one_of(*range(len(shape))) if d.rarely() else axis
    start = 1 if d.rarely() and min(shape[axis], shape[other]) > 1 else 0
    made = (*shape[:axis], min(shape[axis], shape[other]) - start, *shape[axis + 1 :])
    end = _entry(d, _alike(d, x), other)
    return d.kept(d.inner("Slice", [x, d.integers(start), end, d.integers(axis)]), made)


def moved(d: Drawing, x: str) -> str:
    """A Reshape to sizes of x: to its own shape, with two axes joined, or with one of them found by -1."""
    shape = d.shapes[x]
    if len(shape) < 3 or d.flip():
        return d.kept(d.inner("Reshape", [x, _shape(d, x, shape)]), shape)
    joined = (*shape[:-2], shape[-2] * shape[-1])
    entries = [_entry(d, x, axis) for axis in range(len(joined) - 1)]
    if d.flip():
        entries.append(d.integers(-1))
    else:
        entries.append(d.inner("Mul", [_entry(d, x, len(shape) - 2), _entry(d, x, len(shape) - 1)]))
    return d.kept(d.inner("Reshape", [x, d.inner("Concat", entries, axis=0)]), joined)


def flat_softmax(d: Drawing, x: str) -> str:
    """Softmax of rows, with the shape given back; the rows may be others, or cut along the other axis."""
    shape = d.shapes[x]
    if d.rarely():
        flat = d.inner("Flatten", [x], axis=d.one_of(1, len(shape) - 1))
    else:
        flat = d.inner("Reshape", [x, d.integers(-1, shape[-1])])
    scores = d.inner("Softmax", [flat], axis=0 if d.rarely() else 1)
    return d.kept(d.inner("Reshape", [scores, _shape(d, x, shape)]), shape)

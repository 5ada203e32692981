"""Operators between two Transposes for random graphs: what can work in any order of axes, and readers that cannot."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.passes.random_drawing import Drawing, Shape


def between_transposes(d: Drawing, x: str) -> str | None:
    """A Transpose, up to four operators, and mostly the Transpose that undoes the first, or another."""
    shape = d.shapes[x]
    if len(shape) < 3:
        return None
    order = d.draw(st.permutations(range(len(shape))))
    last = d.kept(d.inner("Transpose", [x], perm=order), tuple(shape[axis] for axis in order))
    for _ in range(d.one_of(1, 2, 3, 4)):
        step = d.one_of(_unary, _table, _joined, _reduced, _cut, _padded, _parts, _grown, _picked, _resized, _squeezed)
        made = step(d, last)
        last = last if made is None else made
        if d.rarely():
            d.node("Flatten", [last], _flat(d.shapes[last]), axis=1)
    rank = len(d.shapes[last])
    back = [order.index(axis) for axis in range(rank)] if rank == len(order) else d.draw(st.permutations(range(rank)))
    if d.rarely():
        back = d.draw(st.permutations(range(rank)))
    return d.node("Transpose", [last], tuple(d.shapes[last][axis] for axis in back), perm=back) if rank > 1 else None


def flattened_product(d: Drawing, x: str) -> str | None:
    """A Transpose, mostly of all but the batch, what flattens it or not quite, and a product by a constant matrix."""
    shape = d.shapes[x]
    if len(shape) < 3:
        return None
    order = [0, *d.draw(st.permutations(range(1, len(shape))))]
    if d.rarely():
        order = d.draw(st.permutations(range(len(shape))))
    turned = d.inner("Transpose", [x], perm=order)
    batch, count = _flat(tuple(shape[axis] for axis in order))
    target = d.one_of((0, -1), (-1, count), (batch, count), (0, count))
    flat = d.inner("Flatten", [turned]) if d.flip() else d.inner("Reshape", [turned, d.integers(*target)])
    columns = d.one_of(1, 2)
    if d.flip():
        return d.kept(d.inner("MatMul", [flat, d.numbers((count, columns))]), (batch, columns))
    transposed = d.one_of(0, 1)
    weight = d.numbers((columns, count) if transposed else (count, columns))
    return d.node("Gemm", [flat, weight, d.numbers((columns,))], (batch, columns), transB=transposed)


def _flat(shape: Shape) -> Shape:
    size = 1
    for dim in shape[1:]:
        size *= dim
    return (shape[0], size)


def _axis(d: Drawing, x: str) -> tuple[int, int]:
    """An axis, and how it is written: from the front or from the end."""
    rank = len(d.shapes[x])
    axis = d.draw(st.integers(0, rank - 1))
    return axis, axis - rank if d.flip() else axis


def _unary(d: Drawing, x: str) -> str:
    return d.node(d.one_of("Relu", "Neg", "Abs"), [x], d.shapes[x])


def _table(d: Drawing, x: str) -> str:
    """A constant that broadcasts along any axes, and may lack the first ones."""
    shape = d.shapes[x]
    kept = d.draw(st.integers(0, len(shape)))
    other = tuple(size if d.flip() else 1 for size in shape[len(shape) - kept :])
    return d.kept(d.swapped(d.one_of("Add", "Mul"), x, d.numbers(other, (2, -1, 0.5, 4))), shape)


def _joined(d: Drawing, x: str) -> str:
    """With another value of the shape: an Add, a Max, a Concat or a Where."""
    shape = d.shapes[x]
    other = d.one_of(x, *(name for name, found in d.shapes.items() if found == shape))
    if d.rarely():
        larger = d.inner("Greater", [x, d.number(0.5)])
        return d.node("Where", [larger, x, other], shape)
    if d.flip():
        return d.kept(d.swapped(d.one_of("Add", "Max"), x, other), shape)
    axis, written = _axis(d, x)
    return d.node("Concat", [x, other], (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]), axis=written)


def _reduced(d: Drawing, x: str) -> str | None:
    """Over one axis, kept or dropped."""
    shape = d.shapes[x]
    axis, written = _axis(d, x)
    kept = d.one_of(1, 0)
    made = (*shape[:axis], *([1] if kept else []), *shape[axis + 1 :])
    if len(made) < 2:
        return None
    return d.kept(d.along(d.one_of("ReduceMax", "ReduceSum"), x, [written], keepdims=kept), made)


def _cut(d: Drawing, x: str) -> str | None:
    """A Slice of one axis with its name, or of all without."""
    shape = d.shapes[x]
    axis, written = _axis(d, x)
    if shape[axis] < 2:
        return None
    made = (*shape[:axis], shape[axis] - 1, *shape[axis + 1 :])
    if d.flip():
        return d.node("Slice", [x, d.integers(1), d.integers(9), d.integers(written)], made)
    starts = [1 if index == axis else 0 for index in range(len(shape))]
    return d.node("Slice", [x, d.integers(*starts), d.integers(*[99] * len(shape))], made)


def _padded(d: Drawing, x: str) -> str:
    shape = d.shapes[x]
    before, after = ([d.one_of(0, 0, 1) for _ in shape] for _ in range(2))
    made = tuple(size + low + high for size, low, high in zip(shape, before, after, strict=True))
    return d.node("Pad", [x, d.integers(*before, *after), d.number(d.one_of(0.0, 1.5))], made)


def _parts(d: Drawing, x: str) -> str | None:
    """A Split into two, of which one goes on."""
    shape = d.shapes[x]
    axis, written = _axis(d, x)
    if shape[axis] % 2 or d.opset != 13:  # the only one here whose Split takes sizes and may go without
        return None
    name = d.inner("Split", [x, d.integers(shape[axis] // 2, shape[axis] // 2)], axis=written)
    half = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
    d.nodes[-1].output.append(f"{name}_rest")
    d.kept(f"{name}_rest", half)
    return d.kept(name, half)


def _grown(d: Drawing, x: str) -> str:
    """Tile, or Expand of an axis of size 1."""
    shape = d.shapes[x]
    axis, _ = _axis(d, x)
    if shape[axis] == 1 and d.flip():
        wanted = (*shape[:axis], 3, *shape[axis + 1 :])
        given = wanted[axis:] if d.flip() else wanted
        return d.node("Expand", [x, d.integers(*given)], wanted)
    repeats = [2 if index == axis else 1 for index in range(len(shape))]
    return d.node("Tile", [x, d.integers(*repeats)], (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))


def _picked(d: Drawing, x: str) -> str:
    """Gather of rows."""
    shape = d.shapes[x]
    axis, written = _axis(d, x)
    made = (*shape[:axis], 2, *shape[axis + 1 :])
    return d.node("Gather", [x, d.integers(shape[axis] - 1, 0)], made, axis=written)


def _resized(d: Drawing, x: str) -> str:
    """Twice as large along one axis, by the nearest neighbour."""
    shape = d.shapes[x]
    axis, _ = _axis(d, x)
    scales = d.constant(np.array([2 if index == axis else 1 for index in range(len(shape))], np.float32))
    made = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return d.node("Resize", [x, d.constant(np.zeros(0, np.float32)), scales], made, **modes)


def _squeezed(d: Drawing, x: str) -> str | None:
    """An axis of size 1 goes, or comes."""
    shape = d.shapes[x]
    axis, written = _axis(d, x)
    if shape[axis] == 1 and len(shape) > 2:
        return d.kept(d.along("Squeeze", x, [written]), (*shape[:axis], *shape[axis + 1 :]))
    return d.kept(d.along("Unsqueeze", x, [axis]), (*shape[:axis], 1, *shape[axis:])) if len(shape) < 5 else None

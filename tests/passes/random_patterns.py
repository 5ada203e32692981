"""Patterns of several operators for random graphs: what the rewrites look for, and what only looks like it."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tests.passes.random_drawing import Drawing, Shape

WRONG = 0.75  # of a constant; what rests on it is far off


def _constant(d: Drawing, x: str, value: float) -> str:
    """One number, of any rank that x has; in one of six cases the wrong one, or of a rank that x does not have."""
    rank = len(d.shapes[x])
    shape = (1,) * (rank + 1 if d.rarely() and rank < 5 else d.draw(st.integers(0, rank)))
    return d.number(value * WRONG if d.rarely() else value, shape)


def _result(d: Drawing, name: str, x: str, constants: list[str]) -> str:
    """The result of a formula: a constant may have raised its rank."""
    extra = max(0, *(d.ranks[constant] - len(d.shapes[x]) for constant in constants))
    return d.kept(name, (1,) * extra + d.shapes[x])


def hard_swish(d: Drawing, x: str) -> str:
    """HardSwish, x * Clip(x + 3, 0, 6) / 6, in every spelling, or its gate alone."""
    three, six = _constant(d, x, 3), _constant(d, x, 6)
    gate = d.inner("Clip", [d.swapped("Add", x, three), d.number(0.0), d.number(4.5 if d.rarely() else 6)])
    other = d.one_of(*(name for name, shape in d.shapes.items() if shape == d.shapes[x])) if d.rarely() else x
    scaled = ("Div", six) if d.flip() else ("Mul", _constant(d, x, 1 / 6))
    if d.rarely():
        return _result(d, d.inner(scaled[0], [gate, scaled[1]]), x, [three, scaled[1]])
    if d.flip():
        result = d.inner(scaled[0], [d.swapped("Mul", other, gate), scaled[1]])
    else:
        result = d.swapped("Mul", other, d.inner(scaled[0], [gate, scaled[1]]))
    return _result(d, result, x, [three, scaled[1]])


def gelu(d: Drawing, x: str) -> str:
    """Gelu, 0.5 x (1 + erf(x / sqrt(2))), in every spelling."""
    root = _constant(d, x, math.sqrt(2))
    if d.flip():
        scaled = d.inner("Div", [x, root])
    else:
        root = _constant(d, x, math.sqrt(0.5))
        scaled = d.swapped("Mul", x, root)
    one, half = _constant(d, x, 1), _constant(d, x, 0.5)
    bell = d.swapped("Add", d.inner("Erf", [scaled]), one)
    left, right = d.one_of((x, bell), (bell, x))
    if d.flip():
        result = d.swapped("Mul", d.swapped("Mul", left, right), half)
    else:
        result = d.swapped("Mul", d.swapped("Mul", left, half), right)
    return _result(d, result, x, [root, one, half])


def layer_normalization(d: Drawing, x: str) -> str:
    """Mean and variance over the last axes, or over others, with gamma and perhaps beta of every shape.

    epsilon is large, so that rounding is not magnified.
    """
    shape = d.shapes[x]
    count = d.draw(st.integers(1, len(shape) - 1))
    axes = list(range(len(shape) - count, len(shape)))
    other = d.draw(st.permutations(range(1, len(shape))))[:count] if d.rarely() else axes
    centred = d.inner("Sub", [x, d.along("ReduceMean", x, [axis - len(shape) if d.flip() else axis for axis in other])])
    two = (1,) * (len(shape) + 1 if d.rarely() and len(shape) < 5 else d.draw(st.integers(0, len(shape))))
    by_power = d.flip()
    exponent = [d.number(4 if d.rarely() else 2, two)] if by_power else []
    square = d.inner("Pow" if by_power else "Mul", [centred, *(exponent or [centred])])
    variance = d.along("ReduceMean", square, axes)
    epsilon = d.number(0.5, (1,) * d.draw(st.integers(0, 1)))
    normal = d.inner("Div", [centred, d.inner("Sqrt", [d.swapped("Add", variance, epsilon)])])
    others = [two] if by_power else []
    for op in d.one_of(("Mul", "Add"), ("Mul",), ("Add",)):
        others.append(_tail(d, shape, count))
        normal = d.swapped(op, normal, d.numbers(others[-1], (1, 0.5, -2)))
    return d.kept(normal, tuple(int(size) for size in np.broadcast_shapes(shape, *others)))


def _tail(d: Drawing, shape: Shape, count: int) -> Shape:
    """The shape of a parameter: of the last axes, or with axes of size 1, or as long as the whole, or longer."""
    tail = tuple(1 if d.rarely() else size for size in shape[len(shape) - count :])
    ones = d.one_of(0, 0, len(shape) - count) + (1 if d.rarely() and len(shape) < 5 else 0)
    return (1,) * ones + tail


def transposes(d: Drawing, x: str) -> str:
    """Two Transposes of any axes, of which the second may undo the first, and the first may be read by others."""
    shape = d.shapes[x]
    first = d.draw(st.permutations(range(len(shape))))
    second = (
        [first.index(axis) for axis in range(len(shape))] if d.flip() else d.draw(st.permutations(range(len(shape))))
    )
    between = tuple(shape[axis] for axis in first)
    inner = d.inner("Transpose", [x], perm=first)
    if d.rarely():
        d.kept(inner, between)
    return d.node("Transpose", [inner], tuple(between[axis] for axis in second), perm=second)


def joined_transposes(d: Drawing, x: str) -> str | None:
    """A Concat of values in one new order, or of one that is not."""
    shape = d.shapes[x]
    alike = [name for name, other in d.shapes.items() if other == shape]
    order = d.draw(st.permutations(range(len(shape))))
    turned = tuple(shape[axis] for axis in order)
    parts = []
    for _ in range(d.one_of(2, 3)):
        as_it_is = d.rarely() and turned == shape
        value = d.one_of(x, *alike)
        parts.append(value if as_it_is else d.inner("Transpose", [value], perm=order))
    if d.rarely():
        d.kept(parts[0], turned)
    axis = d.draw(st.integers(0, len(shape) - 1))
    made = (*turned[:axis], turned[axis] * len(parts), *turned[axis + 1 :])
    return d.node("Concat", parts, made, axis=axis - len(shape) if d.flip() else axis)


def concats(d: Drawing, x: str) -> str | None:
    """A Concat that holds another, along the same axis or another."""
    shape = d.shapes[x]
    axis, other = (d.draw(st.integers(0, len(shape) - 1)) for _ in range(2))
    other = axis if d.flip() else other
    inner = d.inner("Concat", [x, x], axis=axis)
    between = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
    if d.rarely():
        d.kept(inner, between)
    twice = d.rarely() or between[:other] + between[other + 1 :] != shape[:other] + shape[other + 1 :]
    parts, size = ([inner, inner], 2 * between[other]) if twice else ([x, inner, x], between[other] + 2 * shape[other])
    made = (*between[:other], size, *between[other + 1 :])
    return d.node("Concat", parts, made, axis=other - len(shape) if d.flip() else other)


def two_slices(d: Drawing, x: str) -> str | None:
    """Slices along two axes, or twice along one; forwards and backwards, from either end."""
    for _ in range(2):
        shape = d.shapes[x]
        axis = d.draw(st.integers(0, len(shape) - 1))
        start, end, step = d.one_of((0, 2**40, 1), (1, 2**31 - 1, 1), (-2, 9, 1), (0, -1, 1), (-1, -9, -1), (0, 9, 2))
        length = len(range(shape[axis])[start:end:step])
        if length < 1:
            return None
        bounds = [d.integers(number) for number in (start, end, axis - len(shape) if d.flip() else axis, step)]
        x = d.kept(d.inner("Slice", [x, *bounds]), (*shape[:axis], length, *shape[axis + 1 :]))
    return x


def reshapes(d: Drawing, x: str) -> str | None:
    """A chain of operators that only reshape, back to the first shape or not; the batch is copied, found or read."""
    for _ in range(d.one_of(2, 3)):
        shape = d.shapes[x]
        step = d.one_of(_flatten, _unsqueeze, _squeeze, _split, _read_batch)
        made = step(d, x, shape)
        x = x if made is None else made
    return x


def _flatten(d: Drawing, x: str, shape: Shape) -> str:
    axis = d.one_of(1, len(shape) - 1)
    made = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    return d.kept(d.inner("Flatten", [x], axis=axis), made)


def _unsqueeze(d: Drawing, x: str, shape: Shape) -> str | None:
    if len(shape) > 4:
        return None
    axis = d.draw(st.integers(0, len(shape)))
    return d.kept(d.along("Unsqueeze", x, [axis]), (*shape[:axis], 1, *shape[axis:]))


def _squeeze(d: Drawing, x: str, shape: Shape) -> str | None:
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    if not ones or len(shape) < 3:
        return None
    axis = d.one_of(*ones)
    return d.kept(d.along("Squeeze", x, [axis]), (*shape[:axis], *shape[axis + 1 :]))


def _split(d: Drawing, x: str, shape: Shape) -> str | None:
    if len(shape) > 4 or shape[-1] % 2:
        return None
    given = [0] * (len(shape) - 1) + [d.one_of(2, shape[-1] // 2), -1]
    made = (*shape[:-1], given[-2], shape[-1] // given[-2])
    return d.kept(d.inner("Reshape", [x, d.integers(*given)]), made)


def _read_batch(d: Drawing, x: str, shape: Shape) -> str:
    """A target that is computed from the Shape of x, or of another value with the same first dimension."""
    others = [name for name, other in d.shapes.items() if other[0] == shape[0]]
    sizes = d.inner("Shape", [d.one_of(x, x, *others)])
    if d.flip():
        first = d.inner("Slice", [sizes, d.integers(0), d.integers(1)])
    else:
        first = d.along("Unsqueeze", d.inner("Gather", [sizes, d.constant(np.array(0, np.int64))]), [0])
    target = d.inner("Concat", [first, d.integers(-1)], axis=0)
    return d.kept(d.inner("Reshape", [x, target]), (shape[0], math.prod(shape[1:])))


def padded_pool(d: Drawing, x: str) -> str | None:
    """A MaxPool behind a Pad of minus infinity or of zeros, that may be as wide as the window.

    Infinities end in a Relu: of a window that holds nothing else, onnxruntime gives the lowest float or minus infinity.
    """
    shape = d.shapes[x]
    if len(shape) not in {3, 4}:
        return None
    spatial = len(shape) - 2
    before, after = ([d.one_of(1, 0, 2) for _ in range(spatial)] for _ in range(2))
    own = [d.one_of(0, 0, 1) for _ in range(2 * spatial)]
    kernel, stride = d.one_of(3, 2), d.one_of(1, 2)
    fill = d.number(0.0 if d.rarely() else -math.inf)
    inner = d.inner("Pad", [x, d.integers(0, 0, *before, 0, 0, *after), fill])
    between = [size + low + high for size, low, high in zip(shape[2:], before, after, strict=True)]
    if d.rarely():
        d.node("Relu", [inner], (*shape[:2], *between))
    wide = [size + low + high for size, low, high in zip(between, own, own[spatial:], strict=False)]
    if min(wide) < kernel:
        return None
    space = [(size - kernel) // stride + 1 for size in wide]
    attributes = {"kernel_shape": [kernel] * spatial, "strides": [stride] * spatial, "pads": own}
    pool = d.inner("MaxPool", [inner], **attributes)
    beyond = max(a + b for a, b in zip(before + after, own, strict=True)) >= kernel
    return d.node("Relu", [pool], (*shape[:2], *space)) if beyond else d.kept(pool, (*shape[:2], *space))


def negated(d: Drawing, x: str) -> str:
    """One Neg, or two."""
    for _ in range(d.one_of(2, 1)):
        x = d.node("Neg", [x], d.shapes[x])
    return x

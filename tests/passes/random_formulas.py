"""Operators written out, for random graphs: in spellings that the rewrites know, and some that only look like it."""

from __future__ import annotations

import math

from tests.passes.random_drawing import Drawing
from tests.passes.random_patterns import _constant, _result


def gelu_by_tanh(d: Drawing, x: str) -> str:
    """Gelu by tanh, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), in several spellings."""
    third, root = _constant(d, x, 0.044715), _constant(d, x, math.sqrt(2 / math.pi))
    one, half = _constant(d, x, 1), _constant(d, x, 0.5)
    square = d.inner("Mul", [x, x])
    if d.flip():
        cube = d.swapped("Mul", square, x) if d.flip() else d.inner("Pow", [x, d.number(3)])
        argument = d.swapped("Mul", d.swapped("Add", x, d.swapped("Mul", cube, third)), root)
    else:
        argument = d.swapped("Mul", d.swapped("Add", d.swapped("Mul", square, third), one), d.swapped("Mul", x, root))
    bell = d.swapped("Add", d.inner("Tanh", [argument]), one)
    left, right = d.one_of((x, bell), (bell, x))
    result = d.swapped("Mul", d.swapped("Mul", left, half), right)
    return _result(d, result, x, [third, root, one, half])


def clip(d: Drawing, x: str) -> str:
    """A Clip by Min, Max and Relu, or the HardSigmoid of a line."""
    if d.flip():
        slope, offset = _constant(d, x, 0.25), _constant(d, x, 0.5)
        line = d.swapped("Add", d.swapped("Mul", x, slope), offset)
        return _result(d, d.inner("Clip", [line, d.number(0), d.number(1)]), x, [slope, offset])
    low, high = _constant(d, x, d.one_of(-1, 0, 2)), _constant(d, x, 1)
    steps = d.one_of((("Max", low), ("Min", high)), (("Min", high), ("Max", low)), (("Relu", ""), ("Min", high)))
    value = x
    for operator, limit in steps:
        value = d.swapped(operator, value, limit) if limit else d.inner(operator, [value])
    return _result(d, value, x, [low, high] if steps[0][1] else [high])


def hinge(d: Drawing, x: str) -> str:
    """LeakyRelu and PRelu by Relu, Min, Max and Abs, with slopes for each channel or one."""
    shape = d.shapes[x]
    slope = d.numbers((shape[1], *[1] * (len(shape) - 2)), (0.5, -0.25, 2)) if d.flip() else d.number(0.25)
    other = d.one_of(*(name for name, made in d.shapes.items() if made == shape)) if d.rarely() else x
    if d.flip():
        return d.kept(d.swapped("Max", x, d.swapped("Mul", other, d.number(0.25))), shape)
    above = d.one_of(lambda: d.inner("Relu", [x]), lambda: d.swapped("Max", x, d.number(0)))()
    if d.flip():
        below = d.swapped("Mul", d.swapped("Min", other, d.number(0)), slope)
        return d.kept(d.swapped("Add", above, below), shape)
    below = d.swapped("Mul", d.inner("Relu", [d.inner("Neg", [other])]), slope)
    return d.kept(d.inner(d.one_of("Sub", "Add"), [above, below]), shape)


def softmax(d: Drawing, x: str) -> str:
    """Softmax or LogSoftmax, with or without the maximum, along any axis."""
    shape = d.shapes[x]
    axis = d.one_of(len(shape) - 1, 1)
    other = 1 if d.rarely() else axis
    shifted = d.inner("Sub", [x, d.inner("ReduceMax", [x], axes=[other])]) if d.opset < 18 and d.flip() else x
    if d.rarely():
        return d.kept(d.inner("Softmax", [shifted], axis=axis), shape) if d.opset > 12 else x
    power = d.inner("Exp", [shifted])
    total = d.along("ReduceSum", power, [axis])
    if d.flip():
        return d.kept(d.inner("Sub", [shifted, d.inner("Log", [total])]), shape)
    result = d.inner("Div", [power, total])
    return d.kept(d.inner("Log", [result]) if d.flip() else result, shape)


def normalization(d: Drawing, x: str) -> str | None:
    """LayerNormalization, InstanceNormalization or RMSNormalization, in every spelling of the division."""
    shape, rank = d.shapes[x], len(d.shapes[x])
    axes = d.one_of([rank - 1], list(range(2, rank)) or [1], list(range(1, rank)))
    centred = d.flip()
    mean = d.along("ReduceMean", x, axes)
    deviation = d.inner("Sub", [x, mean]) if centred else x
    square = d.inner("Mul", [deviation] * 2) if d.flip() else d.inner("Pow", [deviation, d.number(2)])
    variance = d.along("ReduceMean", square, [axis - rank for axis in axes])
    spread = d.swapped("Add", variance, d.number(0.5))
    channels = (shape[1], *[1] * (rank - 2)) if d.flip() else (*[1] * (rank - 1), shape[-1])
    channels = channels if d.flip() else ()
    gamma, beta = d.numbers(channels, (1, 0.5, -2)), d.numbers(channels, (1, 0.5, -2))
    inverse = d.one_of(
        lambda: d.inner("Reciprocal", [d.inner("Sqrt", [spread])]),
        lambda: d.inner("Pow", [spread, d.number(-0.5)]),
        lambda: d.inner("Div", [d.number(1), d.inner("Pow", [spread, d.number(0.5)])]),
    )()
    if d.rarely() and deviation != x:
        d.kept(deviation, shape)
    if centred and d.flip():  # a factor and a summand
        factor = d.swapped("Mul", inverse, gamma)
        moved = d.inner("Sub", [beta, d.swapped("Mul", x if d.rarely() else mean, factor)])
        return d.kept(d.swapped("Add", d.swapped("Mul", x, factor), moved), shape)
    normal = d.kept(d.swapped("Mul", deviation, inverse), shape) if d.rarely() else d.swapped("Mul", deviation, inverse)
    for operator, constant in (("Mul", gamma), ("Add", beta))[: d.one_of(2, 1, 0)]:
        normal = d.swapped(operator, normal, constant)
    return d.kept(normal, shape)


def group_normalization(d: Drawing, x: str) -> str | None:
    """InstanceNormalization of groups, or of what only looks like them."""
    shape = d.shapes[x]
    if len(shape) < 3 or shape[1] % 2:
        return None
    groups = d.one_of(2, 1)
    batch, count = (1, groups * shape[0]) if d.rarely() else (0, groups)
    inner = d.inner("Reshape", [x, d.integers(batch, count, -1)])
    one, zero = d.numbers((count,), (1, 2)), d.numbers((count,), (0, 1))
    normal = d.inner("InstanceNormalization", [inner, one, zero], epsilon=0.5)
    result = d.inner("Reshape", [normal, d.integers(*shape)])
    for operator in d.one_of(("Mul", "Add"), ()):
        result = d.swapped(operator, result, d.numbers((shape[1], *[1] * (len(shape) - 2)), (1, 0.5, -2)))
    return d.kept(result, shape)


def blocks(d: Drawing, x: str) -> str | None:
    """DepthToSpace or SpaceToDepth by Reshape and Transpose, the blocks square or not, the axes turned so or not."""
    shape = d.shapes[x]
    if len(shape) != 4:
        return None
    batch, channels, height, width = shape
    if d.flip():
        rows, columns = d.one_of((2, 2), (2, 1), (1, 2))
        if channels % (rows * columns):
            return None
        rest = channels // (rows * columns)
        split = d.one_of((rest, rows, columns, height, width), (rows, columns, rest, height, width))
        order = d.one_of([0, 1, 4, 2, 5, 3], [0, 3, 4, 1, 5, 2], [0, 2, 4, 1, 5, 3])
        made = (batch, rest, height * rows, width * columns)
    else:
        rows, columns = d.one_of((2, 2), (3, 3), (1, 2))
        if height % rows or width % columns:
            return None
        split = (channels, height // rows, rows, width // columns, columns)
        order = d.one_of([0, 3, 5, 1, 2, 4], [0, 1, 3, 5, 2, 4])
        made = (batch, channels * rows * columns, height // rows, width // columns)
    inner = d.inner("Reshape", [x, d.integers(batch if d.rarely() else d.one_of(0, -1), *split)])
    turned = d.inner("Transpose", [inner], perm=order)
    return d.node("Reshape", [turned, d.integers(*made)], made)


def focus(d: Drawing, x: str) -> str | None:
    """Every second row and column from each start, one after the other, in any order; a Conv may read it."""
    shape = d.shapes[x]
    if len(shape) != 4 or shape[2] % 2 or shape[3] % 2:
        return None
    starts = d.one_of([(0, 0), (1, 0), (0, 1), (1, 1)], [(0, 0), (0, 1), (1, 0), (1, 1)])
    starts = [*starts[:3], starts[0]] if d.rarely() else starts
    end = d.one_of(2**31 - 1, 4)
    parts = []
    for row, column in starts:
        if d.flip():
            bounds = [d.integers(row, column), d.integers(end, end), d.integers(2, -1), d.integers(2, 2)]
            parts.append(d.inner("Slice", [x, *bounds]))
        else:
            part = d.inner("Slice", [x, d.integers(row), d.integers(end), d.integers(2), d.integers(2)])
            parts.append(d.inner("Slice", [part, d.integers(column), d.integers(end), d.integers(3), d.integers(2)]))
    made = (shape[0], 4 * shape[1], min(end, shape[2]) // 2, min(end, shape[3]) // 2)
    joined = d.node("Concat", parts, made, axis=d.one_of(1, -3))
    if d.flip():
        return joined
    del d.shapes[joined]
    weight = d.numbers((2, made[1], 1, 1))
    return d.node("Conv", [joined, weight], (made[0], 2, *made[2:]))

"""Single operators for random graphs: each takes a value and makes another, or None where its shape does not fit."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto

from tests.passes.random_drawing import Drawing


def conv(d: Drawing, x: str) -> str | None:
    """Conv of one or two spatial dimensions, grouped or not, with or without a bias."""
    shape = d.shapes[x]
    if len(shape) not in {3, 4}:
        return None
    group = d.one_of(*[g for g in (1, 2, 3, shape[1]) if shape[1] % g == 0])
    out = group * d.one_of(1, 2)
    kernel = [d.one_of(1, 2, 3) for _ in shape[2:]]
    pads = [d.one_of(0, 1) for _ in range(2 * len(kernel))]
    stride = d.one_of(1, 2)
    padded = [size + before + after for size, before, after in zip(shape[2:], pads, pads[len(kernel) :], strict=False)]
    space = [max(0, size - width + stride) // stride for size, width in zip(padded, kernel, strict=True)]
    if min(space) < 1:
        return None
    weights = [d.numbers((out, shape[1] // group, *kernel))]
    if d.draw(st.booleans()):
        weights.append(d.numbers((out,)))
    return d.node(
        "Conv", [x, *weights], (shape[0], out, *space), group=group, pads=pads, strides=[stride] * len(kernel)
    )


def conv_transpose(d: Drawing, x: str) -> str | None:
    """ConvTranspose of an image, grouped or not, with or without a bias."""
    shape = d.shapes[x]
    if len(shape) != 4:
        return None
    group = d.one_of(*[g for g in (1, 2, shape[1]) if shape[1] % g == 0])
    each = d.one_of(1, 2, 3)
    stride, kernel = d.one_of(1, 2), d.one_of(1, 2)
    space = [(size - 1) * stride + kernel for size in shape[2:]]
    weights = [d.numbers((shape[1], each, kernel, kernel))]
    if d.draw(st.booleans()):
        weights.append(d.numbers((group * each,)))
    return d.node("ConvTranspose", [x, *weights], (shape[0], group * each, *space), group=group, strides=[stride] * 2)


def batch_normalization(d: Drawing, x: str) -> str | None:
    """BatchNormalization with a scale that is a power of two."""
    shape = d.shapes[x]
    if len(shape) < 2:
        return None
    parameters = [d.numbers((shape[1],)) for _ in range(3)] + [d.numbers((shape[1],), (1, 4, 0.25, 16))]
    return d.node("BatchNormalization", [x, *parameters], shape, epsilon=0.0)


def elementwise(d: Drawing, x: str) -> str | None:
    """Add, Sub, Mul or Div with a constant of any shape that broadcasts, which may raise the rank or be neutral."""
    shape = d.shapes[x]
    op = d.one_of("Add", "Sub", "Mul", "Div")
    kept = d.draw(st.integers(0, len(shape)))
    tail = [size if d.draw(st.booleans()) else 1 for size in shape[len(shape) - kept :]]
    other = tuple(tail if kept < len(shape) or d.draw(st.integers(0, 5)) else [1, *tail])
    values = d.one_of((2, -1, 0.5, 4), (1,), (1, 2)) if op in {"Mul", "Div"} else d.one_of((1, 0.5, -2), (0,))
    constant = d.numbers(other, values)
    made = tuple(np.broadcast_shapes(shape, other))
    inputs = [constant, x] if op in {"Add", "Sub", "Mul"} and d.draw(st.booleans()) else [x, constant]
    return d.node(op, inputs, made)


def per_channel(d: Drawing, x: str) -> str | None:
    """Add, Sub, Mul or Div with one number, or one for each channel or column."""
    shape = d.shapes[x]
    axis = d.one_of(1 if len(shape) > 2 else -1, -1)
    channels = [1] * len(shape)
    channels[axis] = shape[axis]
    other = d.one_of(tuple(channels), tuple(channels[axis:]), (), (1,))
    op = d.one_of("Mul", "Add", "Div", "Sub")
    constant = d.numbers(other, (2, -1, 0.5, 4))
    inputs = [constant, x] if op in {"Add", "Mul"} and d.draw(st.booleans()) else [x, constant]
    return d.node(op, inputs, shape)


def matmul(d: Drawing, x: str) -> str | None:
    """MatMul with a constant matrix."""
    shape = d.shapes[x]
    columns = d.one_of(1, 2, 3)
    return d.node("MatMul", [x, d.numbers((shape[-1], columns))], (*shape[:-1], columns))


def gemm(d: Drawing, x: str) -> str | None:
    """Gemm with alpha, beta, either factor transposed, and every form of bias."""
    shape = d.shapes[x]
    if len(shape) != 2:
        return None
    transposed, weight_transposed = d.one_of(0, 1), d.one_of(0, 1)
    rows, inner = shape[::-1] if transposed else shape
    columns = d.one_of(2, 1, 3)
    bias = d.one_of(None, (columns,), (1, columns), (), (1,), (rows, columns), (rows, 1))
    inputs = [x, d.numbers((columns, inner) if weight_transposed else (inner, columns))]
    inputs += [] if bias is None else [d.numbers(bias)]
    alpha, beta = d.one_of(1.0, 0.5, -2.0), d.one_of(1.0, 2.0, 0.0)
    attributes = {"alpha": alpha, "beta": beta, "transA": transposed, "transB": weight_transposed}
    return d.node("Gemm", inputs, (rows, columns), **attributes)


def pad(d: Drawing, x: str) -> str | None:
    """Pad of zeros or of something else, of any axis, that may crop or do nothing."""
    shape = d.shapes[x]
    widths = [0] * (2 * len(shape))
    for axis in range(len(shape)):
        if d.draw(st.booleans()) and (axis >= 2 or not d.draw(st.integers(0, 4))):
            widths[axis], widths[len(shape) + axis] = d.one_of(1, 0, 2, -1), d.one_of(0, 1)
    kept = [size + min(0, width) for size, width in zip(shape, widths, strict=False)]
    if min(kept) < 1:
        return None  # onnxruntime 1.23 reads beyond an axis of which nothing is kept
    made = tuple(size + widths[i] + widths[len(shape) + i] for i, size in enumerate(shape))
    value = [d.constant(np.array(d.one_of(0.0, 1.5), np.float32))] if d.draw(st.booleans()) else []
    return d.node("Pad", [x, d.constant(np.array(widths, np.int64)), *value], made)


def unary(d: Drawing, x: str) -> str | None:
    """A node of one input: an activation, or something that does nothing."""
    op = d.one_of("Relu", "Identity", "Neg", "Dropout", "Abs", "LeakyRelu")
    return d.node(op, [x], d.shapes[x], **({"alpha": 0.25} if op == "LeakyRelu" else {}))


def casts(d: Drawing, x: str) -> str | None:
    """To float64 and back, or to float32 itself.

    An Identity reads it: onnxruntime 1.32 loses the second of two Casts that a branch reads.
    """
    shape = d.shapes[x]
    if d.draw(st.booleans()):
        x = d.node("Cast", [x], shape, to=TensorProto.DOUBLE)
        del d.shapes[x]  # every other operator takes float32
    return d.node("Identity", [d.inner("Cast", [x], to=TensorProto.FLOAT)], shape)


def reshape(d: Drawing, x: str) -> str | None:
    """Reshape that flattens, splits the last dimension, or changes nothing; one dimension may be left open."""
    shape = d.shapes[x]
    targets = [shape, (shape[0], math.prod(shape[1:])), (*shape[:-1], 1, shape[-1])]
    target = d.one_of(*[t for t in targets if len(t) <= 5])
    given = list(target)
    if d.draw(st.booleans()):
        given[d.draw(st.integers(0, len(given) - 1))] = -1
    return d.node("Reshape", [x, d.constant(np.array(given, np.int64))], target)


def transpose(d: Drawing, x: str) -> str | None:
    """Transpose of the axes behind the first."""
    rest = d.draw(st.permutations(range(1, len(d.shapes[x]))))
    order = [0, *rest]
    return d.node("Transpose", [x], tuple(d.shapes[x][axis] for axis in order), perm=order)


def slices(d: Drawing, x: str) -> str | None:
    """Slice of one axis, that may take everything."""
    shape = d.shapes[x]
    axis = d.draw(st.integers(0, len(shape) - 1))
    start, end, step = d.one_of(0, 1), d.one_of(shape[axis], 2**40, -1), d.one_of(1, 2)
    length = len(range(shape[axis])[start:end:step])
    if length < 1:
        return None
    bounds = [d.constant(np.array([number], np.int64)) for number in (start, end, axis, step)]
    return d.node("Slice", [x, *bounds], (*shape[:axis], length, *shape[axis + 1 :]))


def concat(d: Drawing, x: str) -> str | None:
    """Concat of one, or of two of the same shape."""
    axis = d.draw(st.integers(0, len(d.shapes[x]) - 1))
    count = d.one_of(1, 2)
    shape = list(d.shapes[x])
    shape[axis] *= count
    return d.node("Concat", [x] * count, tuple(shape), axis=axis)


def join(d: Drawing, x: str) -> str | None:
    """The sum of two values of one shape."""
    alike = [name for name, shape in d.shapes.items() if shape == d.shapes[x]]
    return d.node("Add", [x, d.one_of(*alike)], d.shapes[x])

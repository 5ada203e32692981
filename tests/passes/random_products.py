"""Products for random graphs: two Convs of which one looks at single points mostly, matrix products, and factors."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.passes.random_drawing import Drawing, Shape
from tests.passes.random_operators import gemm, matmul


def convs(d: Drawing, x: str) -> str | None:
    """Two Convs, grouped or depthwise or neither, with and without a bias; the one between may have other readers."""
    shape = d.shapes[x]
    if len(shape) not in {3, 4}:
        return None
    pointwise = d.one_of((False, True), (True, False), (True, True), (False, False))
    between = _conv(d, x, pointwise=pointwise[0])
    if between is None:
        return None
    made = _conv(d, between, pointwise=pointwise[1])
    if not d.rarely():
        del d.shapes[between]
    return made or between if between in d.shapes else made


def _conv(d: Drawing, x: str, *, pointwise: bool) -> str | None:
    shape = d.shapes[x]
    spatial = len(shape) - 2
    group = d.one_of(1, *[g for g in (2, shape[1]) if shape[1] % g == 0])
    out = group * d.one_of(1, 1, 2, 4)
    kernel = [1] * spatial if pointwise else [d.one_of(2, 1, 3) for _ in range(spatial)]
    pads = [d.one_of(0, 1) if d.rarely() or not pointwise else 0 for _ in range(2 * spatial)]
    stride = 2 if d.rarely() else 1
    padded = [size + low + high for size, low, high in zip(shape[2:], pads, pads[spatial:], strict=False)]
    space = [(size - width) // stride + 1 for size, width in zip(padded, kernel, strict=True)]
    if min(space) < 1:
        return None
    inputs = [x, d.numbers((out, shape[1] // group, *kernel))]
    inputs += [d.numbers((out,))] if d.flip() else []
    attributes = {"pads": pads, "strides": [stride] * spatial} if any(pads) or stride > 1 or d.flip() else {}
    return d.node("Conv", inputs, (shape[0], out, *space), group=group, **attributes)


def matrices(d: Drawing, x: str) -> str | None:
    """Two or three products of constant matrices, MatMul or Gemm."""
    if len(d.shapes[x]) != 2:
        return None
    for _ in range(d.one_of(2, 3)):
        if d.rarely():
            x = d.node("Transpose", [x], d.shapes[x][::-1], perm=[1, 0])
        x = d.one_of(gemm, matmul)(d, x)
        assert x is not None
    return x


def scaled(d: Drawing, x: str) -> str | None:
    """A product with weights, steps that let a factor through or do not, and the factor: one number mostly."""
    shape = d.shapes[x]
    columns = d.one_of(2, 3, 4)
    weights = d.numbers((shape[-1], columns))
    y, now = d.inner("MatMul", [x, weights]), (*shape[:-1], columns)
    if d.rarely():
        d.node("MatMul", [x, weights], now)
    for _ in range(d.one_of(1, 2, 3)):
        step = d.one_of(*_STEPS)
        made = step(d, y, now)
        if made is not None:
            y, now = made
        if d.rarely():
            d.kept(y, now)
    number = d.numbers((now[-1],) if d.rarely() else (1,) * d.one_of(0, 1, len(now)), (2, -1, 0.5, 4))
    if d.flip():
        return d.kept(d.inner("Div", [y, number]), now)
    return d.kept(d.swapped("Mul", y, number), now)


def _turned(d: Drawing, x: str, shape: Shape) -> tuple[str, Shape]:
    order = d.draw(st.permutations(range(len(shape))))
    return d.inner("Transpose", [x], perm=order), tuple(shape[axis] for axis in order)


def _reshaped(d: Drawing, x: str, shape: Shape) -> tuple[str, Shape] | None:
    if len(shape) > 4 or shape[-1] % 2:
        return None
    target = [0] * (len(shape) - 1) + [2, -1]
    return d.inner("Reshape", [x, d.integers(*target)]), (*shape[:-1], 2, shape[-1] // 2)


def _moved(d: Drawing, x: str, shape: Shape) -> tuple[str, Shape]:
    return d.swapped("Add", x, d.numbers(d.one_of((shape[-1],), (), shape))), shape


def _squared(d: Drawing, x: str, shape: Shape) -> tuple[str, Shape]:
    """The product of a value and its transpose, which is one operator that reads the value twice, or two."""
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    other = d.inner("Transpose", [x], perm=order)
    return d.inner("MatMul", [x, other]), (*shape[:-1], shape[-2])


def _projected(d: Drawing, x: str, shape: Shape) -> tuple[str, Shape]:
    """The product with weights that were multiplied with something else."""
    other = d.inner("MatMul", [d.numbers((shape[-1], 2)), d.inner("Relu", [d.numbers((2, 2))])])
    return d.inner("MatMul", [x, other]), (*shape[:-1], 2)


def _kinked(d: Drawing, x: str, shape: Shape) -> tuple[str, Shape]:
    return d.inner("Relu", [x]), shape


_STEPS = (_turned, _reshaped, _moved, _squared, _projected, _kinked)


def einsum(d: Drawing, x: str) -> str | None:
    """An Einsum of x and of itself or a constant, with any indices, of which few are summed wrongly."""
    shape = d.shapes[x]
    first = "".join(d.draw(st.permutations("abcde")))[: len(shape)]
    sizes = dict(zip(first, shape, strict=True))
    shared = [index for index in first if d.flip()]
    second = "".join(d.draw(st.permutations([*shared, *d.one_of((), ("x",), ("x", "y"))])))
    sizes |= {index: 2 for index in second if index not in sizes}
    kept = [index for index in sizes if index not in shared or d.flip()]
    output = "".join(d.draw(st.permutations(kept)))
    if d.opset < 12 or len(second) > 4 or not 3 <= len(output) <= 5:
        return None
    if d.rarely():
        output = output[1:]
    other = d.numbers(tuple(sizes[index] for index in second), (1, 0.5, -1, 0))
    operands, equation = ([x, other], f"{first},{second}") if d.flip() else ([other, x], f"{second},{first}")
    return d.node("Einsum", operands, tuple(sizes[index] for index in output), equation=f"{equation}->{output}")

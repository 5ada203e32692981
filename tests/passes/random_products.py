"""Products in a row for random graphs: Convs of which one looks at single points mostly, and matrix products."""

from __future__ import annotations

from tests.passes.random_drawing import Drawing
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
        x = d.one_of(gemm, matmul)(d, x)
        assert x is not None
    return x

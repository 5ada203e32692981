"""Attention written out for random graphs, spelled in every way and wrongly at times."""

from __future__ import annotations

from tests.passes.random_drawing import Drawing, Shape

HEADS = 2


def attention(d: Drawing, x: str) -> str | None:
    """softmax(scale q k^T + mask) v of projections of x, or of x itself, split into two heads."""
    shape = d.shapes[x]
    if len(shape) != 3 or shape[-1] % HEADS:
        return None
    batch, positions, size = shape[0], shape[1], shape[2] // HEADS
    order = [1, 2, 0, 3] if d.rarely() else [0, 2, 1, 3]
    query, value = (_split(d, _source(d, x), order) for _ in range(2))
    key = _split(d, _source(d, x), [order[0], order[1], order[3], order[2]])
    if batch != positions and order[0]:
        return None
    scores = _scaled(d, d.inner("MatMul", [query, key]))
    weights = d.inner("Softmax", [_masked(d, scores, (batch, HEADS, positions, positions))], axis=_axis(d))
    if d.rarely():
        d.kept(weights, (batch, HEADS, positions, positions))
    context = d.inner("MatMul", [weights, value])
    if d.rarely():
        return d.kept(context, (batch, HEADS, positions, size))
    joined = d.inner("Transpose", [context], perm=[0, 2, 3, 1] if d.rarely() else [0, 2, 1, 3])
    return d.kept(d.inner("Reshape", [joined, d.integers(0, -1, HEADS * size)]), shape)


def _source(d: Drawing, x: str) -> str:
    size = d.shapes[x][-1]
    return x if d.rarely() else d.inner("MatMul", [x, d.numbers((size, size), (0.25, 0, -0.25, 0.5))])


def _split(d: Drawing, x: str, order: list[int]) -> str:
    return d.inner("Transpose", [d.inner("Reshape", [x, d.integers(0, 0, HEADS, -1)])], perm=order)


def _scaled(d: Drawing, scores: str) -> str:
    number = d.number(-0.5 if d.rarely() else 0.5, (1,) * d.one_of(0, 1, 4))
    return d.one_of(scores, d.swapped("Mul", scores, number), d.inner("Div", [scores, number]))


def _masked(d: Drawing, scores: str, shape: Shape) -> str:
    if d.flip():
        return scores
    rank = d.one_of(4, 2, 3, 1)
    kept = tuple(1 if d.rarely() else size for size in shape[4 - rank :])
    return d.swapped("Add", scores, d.numbers(kept, (0, -2, 1, -1000)))


def _axis(d: Drawing) -> int:
    return d.one_of(-1, 3, 2) if d.rarely() else -1

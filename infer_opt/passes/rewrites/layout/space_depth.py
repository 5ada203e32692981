"""Blocks of an image that become channels, and channels that become blocks.

DepthToSpace and SpaceToDepth move r x r blocks by six axes:

    SpaceToDepth        [N, C, H, r, W, r] to [N, r, r, C, H, W]
    DepthToSpace<DCR>   [N, r, r, C, H, W] to [N, C, H, r, W, r]
    DepthToSpace<CRD>   [N, C, r, r, H, W] to [N, C, H, r, W, r]

A Concat of every r-th row and column, from each start, is SpaceToDepth with its blocks in some order; a Conv that
reads it takes the order into its weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.formulas.polynomials import Reading, Written

__all__ = ["SPACE_DEPTH_RULES"]

Array = np.ndarray[Any, Any]

_FLOATS = {ir.DataType.FLOAT, ir.DataType.DOUBLE}  # what onnxruntime has kernels of
_NO_END = 2**31 - 1


class BlocksByReshape(Rule):
    """`Reshape(Transpose(Reshape(x)))` to the operator that moves blocks so.

    Args:
        order: of the six axes; mode: of DepthToSpace, none for SpaceToDepth.
    """

    root = "Reshape"
    opset = 11
    near = 3

    def __init__(self, order: tuple[int, ...], mode: str = "") -> None:
        self.order, self.mode = order, mode
        self.makes = "DepthToSpace" if mode else "SpaceToDepth"
        self.name = f"{self.makes} by Reshape and Transpose"

    def pattern(self, op: Any, x: Any) -> Any:
        split = op.Reshape(x, _allow_other_inputs=True, _outputs=["split"])
        return op.Reshape(op.Transpose(split, perm=list(self.order)), _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> dict[str, Any]:
        if match["x"].dtype not in _FLOATS:
            raise Decline("its input is neither float nor double")
        given, split, made = (_behind_batch(match[name]) for name in ("x", "split", "y"))
        if len(split) != 5:
            raise Decline("the blocks are not split into six axes")
        channels, height, width, rows, columns = _blocks(split, self.mode)
        depth = [channels * rows * columns, height, width]
        space = [channels, height * rows, width * columns]
        if rows != columns or (given, made) != ((depth, space) if self.mode else (space, depth)):
            raise Decline("the axes are not those of square blocks")
        return {"blocksize": rows, "mode": self.mode} if self.mode else {"blocksize": rows}

    def rewrite(self, op: Builder, match: Match, facts: dict[str, Any]) -> ir.Value:
        return op.node(self.makes, [match["x"]], facts)


def _behind_batch(value: ir.Value) -> list[int]:
    """The sizes behind the first, which is the same where all of these are: a Reshape keeps the number of elements."""
    sizes = [size for size in (ir.dims(value) or ())[1:] if isinstance(size, int) and size > 0]
    if not sizes or len(sizes) != len(ir.dims(value) or ()) - 1:
        raise Decline("channels, height or width are not fixed")
    return sizes


def _blocks(sizes: list[int], mode: str) -> tuple[int, int, int, int, int]:
    """Channels, height, width, and rows and columns of a block, of the axes behind the batch before they are turned."""
    a, b, c, d, e = sizes
    if mode == "DCR":
        return c, d, e, a, b
    return (a, d, e, b, c) if mode == "CRD" else (a, b, d, c, e)


class SlicesToDepth(Written):
    """`Concat(x[..., i::r, j::r] for all i and j)` to SpaceToDepth where the order is that one's own."""

    name = "SpaceToDepth by Slice and Concat"
    root = "Concat"
    makes = "SpaceToDepth"
    near = 4

    @property
    def pattern(self) -> Callable[..., Any]:
        """Any Concat: `read` looks at its parts."""
        return lambda op, a: op.Concat(a, _allow_other_inputs=True)

    def read(self, reading: Reading) -> tuple[ir.Value, int] | None:
        found = _slices(reading, reading.root)
        if found is None:
            return None
        x, r, order = found
        reading.finish(4)
        if order != list(range(r * r)):
            raise Decline("its blocks are in another order")
        return x, r

    def rewrite(self, op: Builder, match: Match, facts: tuple[ir.Value, int]) -> ir.Value:
        del match
        return op.node("SpaceToDepth", [facts[0]], {"blocksize": facts[1]})


class SlicesToDepthBeforeConv(Written):
    """`Conv(Concat(x[..., i::r, j::r] for all i and j))` to `Conv'(SpaceToDepth(x))`, the weight in another order."""

    name = "SpaceToDepth by Slice and Concat before Conv"
    root = "Conv"
    makes = "SpaceToDepth"
    near = 4

    @property
    def pattern(self) -> Callable[..., Any]:
        """Any Conv: `read` looks at what it reads."""
        return lambda op, a: op.Conv(a, _allow_other_inputs=True)

    def read(self, reading: Reading) -> tuple[ir.Value, int, Array] | None:
        conv = reading.root
        concat = reading.take(conv.inputs[0], "Concat")
        found = None if concat is None else _slices(reading, concat)
        if found is None:
            return None
        x, r, order = found
        reading.nodes[conv] = None
        reading.finish(4)
        weight = ir.constant(conv.inputs[1])
        if weight is None or ir.attribute(conv, "group", 1) != 1:
            raise Decline("the weight of the Conv is not a constant, or grouped")
        blocks = weight.reshape(weight.shape[0], r * r, -1, *weight.shape[2:])
        own = np.ascontiguousarray(blocks[:, np.argsort(order)].reshape(weight.shape))
        return x, r, own

    def rewrite(self, op: Builder, match: Match, facts: tuple[ir.Value, int, Array]) -> ir.Value:
        x, r, weight = facts
        conv = match.root
        depth = op.node("SpaceToDepth", [x], {"blocksize": r})
        name = conv.inputs[1].name if conv.inputs[1] is not None else None
        return op.node("Conv", [depth, op.initializer(weight, name), *conv.inputs[2:]], conv.attributes)


def _slices(reading: Reading, concat: ir.Node) -> tuple[ir.Value, int, list[int]] | None:
    """What is cut, the size of a block, and at which place of SpaceToDepth each part of a Concat stands."""
    r = round(len(concat.inputs) ** 0.5)
    if r < 2 or r * r != len(concat.inputs):
        return None
    starts = [_starts(reading, part, r) for part in concat.inputs]
    known = [item for item in starts if item is not None]
    x = known[0][0] if known else None
    if x is None or len(known) != r * r or any(item[0] is not x for item in known):
        return None
    if ir.rank(x) != 4 or x.dtype not in _FLOATS or ir.attribute(concat, "axis") not in {1, -3}:
        return None
    order = [row * r + column for _, row, column in known]
    if sorted(order) != list(range(r * r)):
        return None
    reading.nodes[concat] = None
    return x, r, order


def _starts(reading: Reading, part: ir.Value | None, r: int) -> tuple[ir.Value, int, int] | None:
    """What a part takes every r-th row and column of, and from which."""
    found: dict[int, int] = {}
    value = part
    while len(found) < 2:
        node = reading.take(value, "Slice")
        bounds = None if node is None else _bounds(node, r)
        if node is None or bounds is None or found.keys() & bounds.keys():
            return None
        found |= bounds
        value = node.inputs[0]
    return None if value is None or found.keys() != {2, 3} else (value, found[2], found[3])


def _bounds(node: ir.Node, r: int) -> dict[int, int] | None:
    """The start of each axis of which a Slice takes every r-th element up to the end."""
    given = [ir.constant(value) for value in node.inputs[1:]]
    dims = ir.dims(node.inputs[0])
    if len(given) != 4 or dims is None or len(dims) != 4:
        return None
    starts, ends, axes, steps = (item.tolist() if item is not None else [] for item in given)
    bounds: dict[int, int] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=False):
        size = dims[axis]
        whole = end >= _NO_END or (isinstance(size, int) and end >= size)
        if step != r or not 0 <= start < r or not whole or (isinstance(size, int) and size % r):
            return None
        bounds[axis % 4] = start
    return bounds or None


SPACE_DEPTH_RULES: tuple[Rule, ...] = (
    BlocksByReshape((0, 3, 4, 1, 5, 2), "DCR"),
    BlocksByReshape((0, 1, 4, 2, 5, 3), "CRD"),
    BlocksByReshape((0, 3, 5, 1, 2, 4)),
    SlicesToDepth(),
    SlicesToDepthBeforeConv(),
)

"""Convolutions that look at few positions: as one product of matrices over the windows of the whole batch.

With x^T of [N, length, channels], window p of the convolution is the rows p s .. p s + k - 1 of x^T, one after the
other, and y^T[n, p] = window(n, p) W' + b, where W'[i c, m] = W[m, c, i]. The windows are put together of g = gcd(k, s)
rows at a time: k / g Slices of step s / g, and one Concat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule

__all__ = ["FEW_POSITIONS_RULES"]

_MOST_POSITIONS = 8
_MOST_SLICES = 8
_ONE_DIMENSION = 3  # rank of what a convolution along one axis reads
_TURN = {"perm": [0, 2, 1]}


@dataclass(frozen=True)
class _Windows:
    """Windows along one axis, `positions` of them, over rows that are padded first."""

    pads: tuple[int, int]
    kernel: int
    stride: int
    positions: int
    length: int  # after padding
    channels: int

    @property
    def used(self) -> int:
        """Rows up to the end of the last window."""
        return (self.positions - 1) * self.stride + self.kernel

    @property
    def rows(self) -> int:
        """How many rows windows have in common at a time."""
        return math.gcd(self.kernel, self.stride)


class ConvOfFewPositions(Rule):
    """`Conv(x, W, b)` along one axis with at most 8 positions to `Transpose(MatMul(windows(Transpose(x)), W') + b)`.

    A kernel that multiplies sample by sample has as many columns as there are positions: on one core of an AVX-512
    host, 3 x 129 x 128 numbers at 4 positions took 3.7 times as long so for 160 samples and 1.4 times for one, at 8
    positions 1.8 and 1.2 times, at 16 positions 0.8 times.
    """

    name = "Conv of few positions to MatMul"
    root = "Conv"
    opset = 13
    makes = "MatMul"
    on_request = True

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        return op.Conv(x, w, _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> _Windows:
        conv, weight = match.root, ir.constant(match["w"])
        shape = ir.dims(match["x"])
        if weight is None or weight.ndim != _ONE_DIMENSION or shape is None:
            raise Decline("it has no constant weight along one axis")
        length = shape[2]
        if not isinstance(length, int):
            raise Decline("the length of what it reads is not fixed")
        if ir.attribute(conv, "group", 1) != 1 or any(step != 1 for step in ir.attribute(conv, "dilations", ())):
            raise Decline("its window has gaps, or its channels are in groups")
        if ir.attribute(conv, "auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
            raise Decline("it pads by a rule of its own (auto_pad)")
        own = ir.attribute(conv, "pads", (0, 0)) if ir.attribute(conv, "auto_pad", "NOTSET") == "NOTSET" else (0, 0)
        before, after = own
        [stride] = ir.attribute(conv, "strides", (1,))
        kernel = weight.shape[2]
        positions = (length + before + after - kernel) // stride + 1
        if not 1 <= positions <= _MOST_POSITIONS:
            raise Decline(f"it has {positions} positions, and a product gains up to {_MOST_POSITIONS}")
        found = _Windows((before, after), kernel, stride, positions, length + before + after, weight.shape[1])
        if kernel // found.rows > _MOST_SLICES:
            raise Decline(f"its windows are of more than {_MOST_SLICES} pieces")
        return found

    def rewrite(self, op: Builder, match: Match, facts: _Windows) -> ir.Value:
        name = str(match["w"].name)
        weight = ir.array(match["w"]).transpose(2, 1, 0).reshape(facts.kernel * facts.channels, -1)
        product = op.node(
            "MatMul", [_windows(op, match["x"], facts, name), op.initializer(np.ascontiguousarray(weight), name)]
        )
        bias = match.root.inputs[2] if len(match.root.inputs) > 2 else None
        return op.node("Transpose", [product if bias is None else op.node("Add", [product, bias])], _TURN)


def _windows(op: Builder, source: ir.Value, facts: _Windows, name: str) -> ir.Value:
    """The windows of all samples, [N, positions, kernel * channels]."""

    def ints(*numbers: int) -> ir.Value:
        return op.initializer(np.array(numbers, np.int64), f"{name}_window")

    def cut(value: ir.Value, start: int, end: int, step: int) -> ir.Value:
        return op.node("Slice", [value, ints(start), ints(end), ints(1), ints(step)])

    rows = op.node("Transpose", [source], _TURN)
    if any(facts.pads):
        rows = op.node("Pad", [rows, ints(0, facts.pads[0], 0, 0, facts.pads[1], 0)])
    if facts.used < facts.length:
        rows = cut(rows, 0, facts.used, 1)
    if facts.rows > 1:
        rows = op.node("Reshape", [rows, ints(0, facts.used // facts.rows, facts.rows * facts.channels)])
    step = facts.stride // facts.rows
    pieces = facts.kernel // facts.rows
    if pieces == step == 1:
        return rows
    reach = (facts.positions - 1) * step + 1
    cuts = [cut(rows, piece, piece + reach, step) for piece in range(pieces)]
    return cuts[0] if pieces == 1 else op.node("Concat", cuts, {"axis": 2})


FEW_POSITIONS_RULES: tuple[Rule, ...] = (ConvOfFewPositions(),)

"""What the nodes of a graph make of sizes: dimensions of every value, and what vectors of dimensions hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.passes.rewrites.shapes.shape_contents import CONTENTS
from infer_opt.passes.rewrites.shapes.shape_transfer import TRANSFER
from infer_opt.passes.rewrites.shapes.sizes import Size, declared, fixed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ShapeAnalysis"]

_LONGEST = 16  # entries of a vector that may be a shape
_MOST_FACTORS = 16  # that are not fixed, of one size: what is multiplied by itself again and again is none
_INTEGERS = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL})


class ShapeAnalysis:
    """Sizes of the values of a model; every node has to be visited in order, once."""

    def __init__(self) -> None:
        self._dims: dict[ir.Value, tuple[Size, ...] | None] = {}
        self._contents: dict[ir.Value, tuple[Size, ...] | None] = {}

    def dims(self, value: ir.Value | None) -> tuple[Size, ...] | None:
        """The dimensions of a value, or None where its rank is not known."""
        if value is None:
            return None
        if value not in self._dims:
            self._dims[value] = declared(value)
        return self._dims[value]

    def contents(self, value: ir.Value | None) -> tuple[Size, ...] | None:
        """The entries of a short vector or of a scalar of integers, or None where it may be anything."""
        if value is None:
            return None
        if value not in self._contents:
            self._contents[value] = _own_contents(value)
        return self._contents[value]

    def visit(self, node: ir.Node) -> None:
        """Note what the outputs of a node are; its inputs have been visited."""
        if node.domain:
            return
        transfer = TRANSFER.get(node.op_type)
        if transfer is not None:
            found = _without_long(transfer(self, node))
            for output in node.outputs if node.op_type == "Split" else node.outputs[:1]:
                self._dims[output] = _merged(output, found)
        contents = CONTENTS.get(node.op_type)
        if contents is not None and node.outputs[0].dtype in _INTEGERS and ir.rank(node.outputs[0]) in {0, 1}:
            entries = contents(self, node)
            kept = None if entries is None else _without_long(tuple(entries))
            if kept is not None and None not in kept and len(kept) <= _LONGEST:
                self._contents[node.outputs[0]] = tuple(size for size in kept if size is not None)


def _without_long(found: Sequence[Size | None] | None) -> list[Size | None] | None:
    """The sizes that are short enough to reckon with."""
    if found is None:
        return None
    return [size if size is not None and len(size[1]) <= _MOST_FACTORS else None for size in found]


def _merged(output: ir.Value, found: Sequence[Size | None] | None) -> tuple[Size, ...] | None:
    """What was inferred before goes first where it is a number."""
    own = declared(output)
    if own is None or found is None:
        return tuple(size for size in found if size is not None) if found and None not in found else own
    if len(own) != len(found):
        return own
    return tuple(mine if not mine[1] or other is None else other for mine, other in zip(own, found, strict=True))


def _own_contents(value: ir.Value) -> tuple[Size, ...] | None:
    content, count = ir.constant(value), ir.elements(value)
    if value.dtype not in _INTEGERS or ir.rank(value) not in {0, 1} or count is None or count > _LONGEST:
        return None
    if content is not None:
        return tuple(fixed(int(entry)) for entry in content.reshape(-1))
    return tuple((1, ((value, place, False),)) for place in range(count))

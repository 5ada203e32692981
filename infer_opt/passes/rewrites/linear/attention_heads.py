"""Heads of attention: how the last axis of [batch, positions, heads * size] is split, and joined again.

split: Transpose<0, 2, 1, 3>(Reshape(x, [batch, positions, heads, size]))
joined: Reshape(Transpose<0, 2, 1, 3>(y), [batch, positions, heads * size])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline

if TYPE_CHECKING:
    from infer_opt.passes.engine.rules import Match

    Dims = tuple[int | str | None, ...]

__all__ = ["Keys", "Whole", "head_count", "keys", "whole"]

_SPLIT = [0, 2, 1, 3]
_SPLIT_TRANSPOSED = [0, 2, 3, 1]


@dataclass(frozen=True)
class Keys:
    """Keys that are not transposed: `order` of `source`, or the source itself where that is no change."""

    source: ir.Value
    order: list[int]

    @property
    def is_source(self) -> bool:
        """Whether the source is used as it is."""
        return self.order == sorted(self.order)

    def build(self, op: Builder) -> ir.Value:
        """The keys, [batch, heads, positions, size]."""
        return self.source if self.is_source else op.node("Transpose", [self.source], {"perm": self.order})


def keys(transposed: ir.Value) -> Keys:
    """The keys of the right factor of the scores, [batch, heads, size, positions].

    Raises:
        Decline: no Transpose makes it.
    """
    maker = _maker(transposed, "Transpose")
    order = list(ir.attribute(maker, "perm", None) or []) if maker is not None else []
    source = maker.inputs[0] if maker is not None else None
    if source is None or len(order) != 4:
        raise Decline("the keys are not transposed by a Transpose")
    return Keys(source, [*order[:2], order[3], order[2]])


@dataclass(frozen=True)
class Whole:
    """A value of rank 3, and the heads that its last axis was split into."""

    value: ir.Value
    heads: int


def whole(value: ir.Value, *, transposed: bool = False) -> Whole:
    """What was split into the heads of `value`; of a transposed one, the last axes are swapped.

    Raises:
        Decline: it is made in another way.
    """
    turn = _maker(value, "Transpose")
    wanted = _SPLIT_TRANSPOSED if transposed else _SPLIT
    if turn is None or list(ir.attribute(turn, "perm", None) or []) != wanted:
        raise Decline(f"`{value.name}` is not split into heads by Reshape and Transpose")
    split = _maker(turn.inputs[0], "Reshape")
    source = split.inputs[0] if split is not None else None
    before, after = ir.dims(source), ir.dims(turn.inputs[0])
    heads = after[2] if after is not None and len(after) == 4 else None
    if source is None or before is None or after is None or not isinstance(heads, int):
        raise Decline(f"the heads of `{value.name}` are not known")
    if not _holds(before, after[:2], (heads, after[3])):
        raise Decline(f"`{value.name}` is not the last axis split into heads")
    return Whole(source, heads)


def head_count(match: Match) -> int:
    """How many heads there are, where `joined` and the last node of the match join those of the result.

    Raises:
        Decline: they do something else, or it cannot be seen.
    """
    if list(ir.attribute(match.node("joined"), "perm", None) or []) != _SPLIT:
        raise Decline("the heads are not joined by Transpose and Reshape")
    query, value, result = ir.dims(match["q"]), ir.dims(match["v"]), ir.dims(match.root.outputs[0])
    if query is None or value is None or result is None or len(query) != 4 or len(value) != 4:
        raise Decline("the shapes of queries, values or result are not known")
    heads = query[1]
    if not isinstance(heads, int) or not _holds(result, (query[0], query[2]), (heads, value[3])):
        raise Decline("the result is not of rank 3, with all heads in the last axis")
    return heads


def _holds(shape: Dims, leading: Dims, last: Dims) -> bool:
    """Whether a shape is the leading dimensions and then the product of the last ones, which are fixed."""
    heads, size = last
    if not isinstance(heads, int) or not isinstance(size, int) or None in leading:
        return False
    return shape == (*leading, heads * size)


def _maker(value: ir.Value | None, operator: str) -> ir.Node | None:
    maker = value.producer() if value is not None else None
    return maker if maker is not None and maker.op_type == operator and not maker.domain else None

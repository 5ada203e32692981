"""The mask of attention: what is added to the scores, in the shape that the operators take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline
from infer_opt.passes.rewrites.linear.moved_constants import moved_constant

if TYPE_CHECKING:
    Dims = tuple[int | str | None, ...]

__all__ = ["Mask", "fitting_mask"]


@dataclass(frozen=True)
class Mask:
    """A value that is added to the scores.

    Args:
        queries: how many positions it is repeated for, where it holds one for all.
    """

    value: ir.Value
    rank: int
    queries: int | None

    def build(self, op: Builder, rank: int = 2) -> ir.Value:
        """The mask with one row for each query, of rank 4 where it has more than two axes, or where it has to be."""
        made, wanted = self.value, 4 if self.rank > 2 else rank
        if self.rank < wanted:
            axes = np.arange(wanted - self.rank, dtype=np.int64)
            written = moved_constant(op, made, lambda array: np.expand_dims(array, tuple(axes.tolist())))
            made = written or op.node("Unsqueeze", [made, op.initializer(axes, f"{self.value.name}_axes")])
        if self.queries is not None:
            target = np.array([*[1] * (wanted - 2), self.queries, 1], np.int64)
            written = moved_constant(
                op, made, lambda array: np.broadcast_to(array, np.broadcast_shapes(array.shape, tuple(target)))
            )
            made = written or op.node("Expand", [made, op.initializer(target, f"{self.value.name}_shape")])
        return made


def fitting_mask(mask: ir.Value, scores: Dims, *, expands: bool) -> Mask:
    """The mask, if it can be seen that the scores keep their shape when it is added.

    Args:
        scores: [batch, heads, queries, keys].
        expands: whether one row for all queries may be repeated.

    Raises:
        Decline: it cannot be seen, or no operator takes the mask.
    """
    shape = ir.dims(mask)
    if shape is None or not 2 <= len(shape) <= 4:
        raise Decline("the mask is not of rank 2, 3 or 4")
    wanted = scores[-len(shape) :]
    if any(have != 1 and (have is None or have != want) for have, want in zip(shape, wanted, strict=True)):
        raise Decline("the mask may have another shape than the scores")
    if shape[-1] != wanted[-1]:
        raise Decline("the mask has one number for all keys")
    if shape[-2] == wanted[-2]:
        return Mask(mask, len(shape), None)
    if not expands or not isinstance(wanted[-2], int):
        raise Decline("the mask has one row for all queries, which would have to be repeated first")
    return Mask(mask, len(shape), wanted[-2])

"""Broadcasting: which shapes leave another as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["broadcasts_into"]


def broadcasts_into(shape: Sequence[int | str | None], other: ir.Value) -> bool:
    """Whether an operand of `shape` leaves the shape of `other` as it is. A symbol is equal to nothing here."""
    target = ir.dims(other)
    if target is None:
        return len(shape) == 0
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all(isinstance(size, int) and size in (1, dim) for size, dim in zip(shape, tail, strict=True))

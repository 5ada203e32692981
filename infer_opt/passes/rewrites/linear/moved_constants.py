"""Constants that a rewrite moves data of: the result is written down, as constant folding would do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer_opt.passes.engine.rules import Builder

__all__ = ["moved_constant"]

_SMALL_BYTES = 65536  # what `simplify` folds by default, though others read the constant still


def moved_constant(
    op: Builder, value: ir.Value, move: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
) -> ir.Value | None:
    """A new initializer with what `move` makes of a constant; None where it is none, or the file would grow by much."""
    constant = ir.constant(value)
    if constant is None:
        return None
    result = move(constant)
    dies = len(value.uses()) <= 1 and result.size <= constant.size
    return op.initializer(np.ascontiguousarray(result), value.name) if dies or result.nbytes <= _SMALL_BYTES else None

"""Sizes that are known only at run time, as products of a number and of dimensions where they first appear.

Two of them are equal where they are the same product, whatever the input. Names of symbols prove nothing here: a
dimension is told by the value that it belongs to. Two inputs that both say `N` have two sizes, though a caller is
meant to make them one.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ONE", "Atom", "Size", "declared", "dimension", "fixed", "is_size", "number", "product", "quotient"]

Atom = tuple[ir.Value, int, bool]
"""A value, an axis of it or a place in it, and whether that is a dimension, which is never negative."""
Size = tuple[int, tuple[Atom, ...]]
"""A number times the product of atoms, which are in order."""


def fixed(value: int) -> Size:
    """A number as a size."""
    return value, ()


ONE: Size = fixed(1)


def dimension(value: ir.Value, axis: int) -> Size:
    """A dimension of a value of which no more is known."""
    return 1, ((value, axis, True),)


def number(size: Size) -> int | None:
    """The number that a size is, or None where it depends on the input."""
    return None if size[1] else size[0]


def is_size(size: Size) -> bool:
    """Whether it cannot be negative."""
    return size[0] >= 0 and all(atom[2] for atom in size[1])


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes."""
    listed = list(sizes)
    factor = math.prod(size[0] for size in listed)
    return (factor, _ordered([atom for size in listed for atom in size[1]])) if factor else fixed(0)


def quotient(size: Size, by: Size) -> Size | None:
    """What gives `size` times `by`, where that is no fraction; `by` is not 0, whatever the input."""
    left = Counter(size[1])
    left.subtract(by[1])
    if by[0] == 0 or size[0] % by[0] or min(left.values(), default=0) < 0:
        return None
    return size[0] // by[0], _ordered(list(left.elements()))


def _ordered(atoms: Sequence[Atom]) -> tuple[Atom, ...]:
    return tuple(sorted(atoms, key=lambda atom: (id(atom[0]), atom[1], atom[2])))


def declared(value: ir.Value | None) -> tuple[Size, ...] | None:
    """The dimensions of a value by itself: numbers where they are fixed, atoms of its own elsewhere."""
    shape = ir.dims(value)
    if value is None or shape is None:
        return None
    return tuple(fixed(size) if isinstance(size, int) else dimension(value, axis) for axis, size in enumerate(shape))

"""Orders of axes: what a Transpose holds, and what it costs.

Axis i of Transpose<p>(x) is axis p[i] of x.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from infer_opt import ir

__all__ = ["Dims", "Order", "composed", "cost_of_moving", "inverse", "is_identity", "keeps_elements", "order_of"]

Order: TypeAlias = tuple[int, ...]
Dims: TypeAlias = tuple[int | str | None, ...]

_START = 1 << 14  # elements: starting a kernel takes as long as moving some ten thousand numbers
_UNKNOWN = 32  # elements along a dimension that is not fixed


def order_of(node: ir.Node) -> Order | None:
    """The order of a Transpose; None for other nodes, and where neither it nor the rank is known."""
    if node.op_type != "Transpose" or node.domain:
        return None
    given, rank = ir.attribute(node, "perm"), ir.rank(node.inputs[0])
    if given is not None:
        return tuple(given)
    return None if rank is None else tuple(reversed(range(rank)))


def inverse(order: Order) -> Order:
    """The order that undoes `order`."""
    return tuple(order.index(axis) for axis in range(len(order)))


def composed(inner: Order, outer: Order) -> Order:
    """The one order that does what Transpose<outer>(Transpose<inner>(x)) does."""
    return tuple(inner[axis] for axis in outer)


def is_identity(order: Order) -> bool:
    """Whether all axes stay where they are."""
    return order == tuple(range(len(order)))


def keeps_elements(dims: Dims | None, order: Order) -> bool:
    """Whether elements stay in their order in memory: no axis moves but those of size 1. False where unknown."""
    if dims is None or len(dims) != len(order):
        return False
    long = [axis for axis in order if dims[axis] != 1]
    return long == sorted(long)


def cost_of_moving(dims: Dims, order: Order) -> float:
    """Elements that Transpose<order> of a value of these dimensions moves, and what starting it takes.

    One that moves only axes of size 1 will be a Reshape, which costs next to nothing.
    """
    if is_identity(order):
        return 0.0
    if keeps_elements(dims, order):
        return 1.0
    return _START + math.prod(size if isinstance(size, int) else _UNKNOWN for size in dims)

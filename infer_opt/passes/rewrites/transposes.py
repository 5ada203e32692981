"""Transposes: two in a row are one, and one that moves no element but those of size 1 is a Reshape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["merge_transposes"]


def merge_transposes(model: ir.Model) -> Iterator[Change]:
    """`Transpose<q>(Transpose<p>(x))` becomes `Transpose<p[q]>(x)`; a Transpose of size-1 axes becomes a Reshape.

    The inner Transpose may have other readers: the outer one then reads past it.
    """
    names = ir.Names(model)
    for graph in ir.all_graphs(model):
        for node in graph:
            if node.op_type != "Transpose" or node.domain or node.inputs[0] is None:
                continue
            if (inner := _transpose_before(node)) is not None:
                order = _order(inner)
                assert order is not None  # noqa: S101 - _transpose_before has just seen it
                _set_order(node, [order[axis] for axis in _order(node) or ()])
                node.replace_input_with(0, inner.inputs[0])
                yield Change("merge transposes", ir.origin(node), f"skipped `{inner.name}`")
            if (shape := _reshape_instead(node)) is not None:
                _become_reshape(graph, node, shape, names)
                yield Change("transpose to reshape", ir.origin(node))


def _order(node: ir.Node) -> list[int] | None:
    given = ir.attribute(node, "perm")
    if given is not None:
        return list(given)
    rank = ir.rank(node.inputs[0])
    return None if rank is None else list(reversed(range(rank)))


def _transpose_before(node: ir.Node) -> ir.Node | None:
    inner = node.inputs[0].producer() if node.inputs[0] is not None else None
    if inner is None or inner.op_type != "Transpose" or inner.domain or inner.graph is not node.graph:
        return None
    return inner if _order(inner) is not None and _order(node) is not None else None


def _set_order(node: ir.Node, order: list[int]) -> None:
    node.attributes.add(ir.AttrInt64s("perm", order))


def _reshape_instead(node: ir.Node) -> list[int] | None:
    """The shape that comes out, where the axes that hold more than one element keep their order."""
    before, after, order = ir.dims(node.inputs[0]), ir.dims(node.outputs[0]), _order(node)
    if before is None or after is None or order is None or not len(before) == len(after) == len(order):
        return None
    moved = [axis for axis in order if before[axis] != 1]
    sizes = [size if isinstance(size, int) else -1 for size in after]
    if moved != sorted(moved) or order == sorted(order) or 0 in sizes or sizes.count(-1) > 1:
        return None
    return sizes


def _become_reshape(graph: ir.Graph, node: ir.Node, shape: list[int], names: ir.Names) -> None:
    wanted = ir.add_initializer(graph, names.fresh(f"{node.name}_shape"), np.asarray(shape, np.int64))
    node.op_type = "Reshape"
    del node.attributes["perm"]
    node.resize_inputs(2)
    node.replace_input_with(1, wanted)

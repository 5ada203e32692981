"""Transposes: two in a row are one, and one that moves no element but those of size 1 is a Reshape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change
from infer_opt.passes.rewrites.layout.orders import composed, is_identity, keeps_elements, order_of

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
            order = order_of(node)
            if order is None:
                continue
            inner = node.inputs[0].producer() if node.inputs[0] is not None else None
            before = order_of(inner) if inner is not None and inner.graph is graph else None
            if inner is not None and before is not None:
                node.attributes.add(ir.AttrInt64s("perm", composed(before, order)))
                node.replace_input_with(0, inner.inputs[0])
                yield Change("merge transposes", ir.origin(node), f"skipped `{inner.name}`")
                if not inner.outputs[0].uses() and not inner.outputs[0].is_graph_output():
                    ir.remove(inner)  # now: a reader that is dead would count where Transposes move
            if (shape := _reshape_instead(node)) is not None:
                _become_reshape(graph, node, shape, names)
                yield Change("transpose to reshape", ir.origin(node))


def _reshape_instead(node: ir.Node) -> list[int] | None:
    """The shape that comes out, where the axes that hold more than one element keep their order."""
    before, after, order = ir.dims(node.inputs[0]), ir.dims(node.outputs[0]), order_of(node)
    if after is None or order is None or len(after) != len(order) or is_identity(order):
        return None
    sizes = [size if isinstance(size, int) else -1 for size in after]
    return sizes if keeps_elements(before, order) and 0 not in sizes and sizes.count(-1) <= 1 else None


def _become_reshape(graph: ir.Graph, node: ir.Node, shape: list[int], names: ir.Names) -> None:
    wanted = ir.add_initializer(graph, names.fresh(f"{node.name}_shape"), np.asarray(shape, np.int64))
    node.op_type = "Reshape"
    del node.attributes["perm"]
    node.resize_inputs(2)
    node.replace_input_with(1, wanted)

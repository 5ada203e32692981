"""Reshaping: chains of operators that only rename an element's place become one Reshape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["merge_reshapes"]

_RESHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


def merge_reshapes(model: ir.Model) -> Iterator[Change]:
    """`R2(R1(x))` becomes `Reshape(x, shape)`, for reshaping operators, where R1 has no other reader.

    The elements stay in their order, so the shape that comes out decides everything. It has to be known but for one
    dimension, which Reshape finds out by itself (-1). A dimension of size 0 is left alone: Reshape takes it for a copy.
    Where R1 has other readers, R2 still goes if it gives x's own shape back.
    """
    names = ir.Names(model)
    for graph in ir.all_graphs(model):
        for node in graph:
            inner = _reshaping_before(node)
            shape = _final_shape(node) if inner is not None else None
            if inner is None or shape is None or inner.inputs[0] is None:
                continue
            shared = len(tuple(inner.outputs[0].uses())) > 1 or inner.outputs[0].is_graph_output()
            if shared and _final_shape(inner, before=True) != shape:
                continue
            _become_reshape(graph, node, inner.inputs[0], shape, names)
            yield Change("merge reshapes", ir.origin(node), f"{inner.op_type} and {node.op_type} to Reshape")


def _reshaping_before(node: ir.Node) -> ir.Node | None:
    if node.op_type not in _RESHAPING or node.domain or node.inputs[0] is None:
        return None
    inner = node.inputs[0].producer()
    if inner is None or inner.op_type not in _RESHAPING or inner.domain or inner.graph is not node.graph:
        return None
    return inner


def _final_shape(node: ir.Node, *, before: bool = False) -> list[int] | None:
    """The shape after (or before) a node as a Reshape writes it, or None where it cannot."""
    if not before and _drops_what_it_finds(node):
        return None
    dims = ir.dims(node.inputs[0] if before else node.outputs[0])
    if dims is None or 0 in dims:
        return None
    sizes = [size if isinstance(size, int) else -1 for size in dims]
    return sizes if sizes.count(-1) <= 1 else None


def _drops_what_it_finds(node: ir.Node) -> bool:
    """A Squeeze without axes of open dimensions: its rank is known at run time only, whatever the file declares."""
    axes = ir.attribute(node, "axes") or (len(node.inputs) > 1 and node.inputs[1])
    return node.op_type == "Squeeze" and not axes and ir.elements(node.inputs[0]) is None


def _become_reshape(graph: ir.Graph, node: ir.Node, source: ir.Value, shape: list[int], names: ir.Names) -> None:
    wanted = ir.add_initializer(graph, names.fresh(f"{node.name}_shape"), np.asarray(shape, np.int64))
    new = ir.make_node("Reshape", [source, wanted])
    ir.set_origin(new, [node])
    name = node.name
    ir.replace_nodes(graph, [node], node.outputs[0], [new], new.outputs[0])
    new.name = name

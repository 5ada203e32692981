"""Layout: transposes that all inputs of a Concat share are done once, after it.

Concat<a>(Transpose<p>(x), Transpose<p>(y)) = Transpose<p>(Concat<p[a]>(x, y))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.passes.engine.base import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["sink_transposes"]


def sink_transposes(model: ir.Model) -> Iterator[Change]:
    """Move transposes behind the Concat that joins them, where nobody else reads them."""
    names = ir.Names(model)
    for graph in ir.all_graphs(model):
        for node in graph:
            order = _shared_order(node) if node.op_type == "Concat" and not node.domain else None
            if order is None:
                continue
            yield Change("transpose behind Concat", ir.origin(node), f"{len(node.inputs)} transposes to one")
            _sink(graph, node, order, names)


def _shared_order(node: ir.Node) -> list[int] | None:
    orders = [_order(value, node) for value in node.inputs]
    first = orders[0]
    return first if len(orders) > 1 and first is not None and all(order == first for order in orders) else None


def _order(value: ir.Value | None, reader: ir.Node) -> list[int] | None:
    maker = value.producer() if value is not None else None
    if value is None or maker is None or maker.op_type != "Transpose" or maker.domain or value.is_graph_output():
        return None
    if maker.graph is not reader.graph or any(user is not reader for user, _ in value.uses()):
        return None
    perm = ir.attribute(maker, "perm")
    return None if perm is None else list(perm)


def _sink(graph: ir.Graph, node: ir.Node, order: list[int], names: ir.Names) -> None:
    sources = [value.producer().inputs[0] for value in node.inputs if value is not None and value.producer()]  # type: ignore[union-attr]
    axis = order[ir.attribute(node, "axis") % len(order)]
    joined = ir.make_node("Concat", sources, {"axis": axis}, name=names.fresh(f"{node.name}_joined"))
    joined.outputs[0].name = names.fresh(f"{node.outputs[0].name}_joined")
    joined.outputs[0].type = node.outputs[0].type
    turned = ir.make_node("Transpose", [joined.outputs[0]], {"perm": order})
    for made in (joined, turned):
        ir.set_origin(made, [node])
    name = node.name
    ir.replace_nodes(graph, [node], node.outputs[0], [joined, turned], turned.outputs[0])
    turned.name = name

"""Dead code: nodes and initializers that nothing reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.passes.engine.base import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["detach", "remove_dead_code", "remove_dead_code_of"]


def remove_dead_code(model: ir.Model) -> Iterator[Change]:
    """Remove nodes whose outputs nobody reads, last first, then initializers nobody reads. Inputs always stay."""
    yield from _clean(model.graph)


def remove_dead_code_of(graph: ir.Graph) -> None:
    """The same for one subgraph, where its outputs became fewer."""
    for _ in _clean(graph):
        pass


def _clean(graph: ir.Graph) -> Iterator[Change]:
    for node in reversed(graph):
        if all(not value.uses() and not value.is_graph_output() for value in node.outputs):
            yield Change("dead node", ir.origin(node))
            for inner in ir.inner_graphs(node):
                detach(inner)
            ir.remove(node)
        else:
            for inner in ir.inner_graphs(node):
                yield from _clean(inner)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input():
            del graph.initializers[name]
            yield Change("dead initializer", (name,))


def detach(graph: ir.Graph) -> None:
    """Let go of outer values that the nodes of a dead subgraph read, which would count as used for ever otherwise."""
    for node in graph:
        for inner in ir.inner_graphs(node):
            detach(inner)
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)

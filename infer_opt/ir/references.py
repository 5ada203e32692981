"""References of custom operators: what an operator outside the standard computes, written in standard operators.

A runtime on this host has no kernel of a device's custom operator. With a reference, a model that holds one can still
be run and compared: each such node is replaced by its reference in the copy that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from infer_opt.ir.edit import add_initializer, inner_graphs, operator_name, replace_nodes
from infer_opt.ir.names import Names

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "GraphBuilder",
    "Reference",
    "expand_references",
    "referenced_operators",
    "register_reference",
    "registered_references",
]

Reference = Callable[["GraphBuilder", Sequence[Any], Mapping[str, Any]], Any]
"""`reference(op, inputs, attributes)` builds the computation and returns its one output value."""

_REFERENCES: dict[str, Reference] = {}


class GraphBuilder:
    """Makes nodes and initializers under names nobody has; whoever asked for them puts the nodes into the graph."""

    def __init__(self, graph: ir.Graph, names: Names) -> None:
        self._graph = graph
        self._names = names
        self.nodes: list[ir.Node] = []

    def node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
    ) -> ir.Value:
        """A new node with one output."""
        made = ir.node(op_type, inputs, dict(attributes or {}), domain=domain)
        self.nodes.append(made)
        return made.outputs[0]

    def initializer(self, array: np.ndarray[Any, Any], like: str | None) -> ir.Value:
        """A new initializer, named after `like`."""
        return add_initializer(self._graph, self._names.fresh(like or "constant"), array)


def register_reference(operator: str, reference: Reference) -> None:
    """Say what a custom operator (`DOMAIN::OP`, one output) computes. The last registration counts."""
    _REFERENCES[operator] = reference


def registered_references() -> frozenset[str]:
    """Operators with a reference."""
    return frozenset(_REFERENCES)


def referenced_operators(model: ir.Model) -> list[str]:
    """Custom operators of a model that have a reference, sorted."""
    used = {operator_name(node) for graph in model.graphs() for node in graph}
    return sorted(used & _REFERENCES.keys())


def expand_references(model: ir.Model) -> ir.Model:
    """A copy in which every custom operator with a reference is written out; the model itself where there is none."""
    if not referenced_operators(model):
        return model
    copy = model.clone()
    names = Names(copy)
    for graph in [copy.graph, *(inner for node in copy.graph.all_nodes() for inner in inner_graphs(node))]:
        for node in tuple(graph):
            reference = _REFERENCES.get(operator_name(node))
            if reference is not None:
                builder = GraphBuilder(graph, names)
                attributes = {name: attr.value for name, attr in node.attributes.items()}
                output = reference(builder, tuple(node.inputs), attributes)
                for index, made in enumerate(builder.nodes):
                    made.name = names.fresh(f"{node.name}_reference_{index}")
                replace_nodes(graph, [node], node.outputs[0], builder.nodes, output)
    return copy

"""References of custom operators: what an operator outside the standard computes, written in standard operators.

A runtime on this host has no kernel of a device's custom operator. With a reference, a model that holds one can still
be run and compared: each such node is replaced by its reference in the copy that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from infer_opt.errors import InputError, place_of, running_user_code
from infer_opt.ir.edit import add_initializer, all_graphs, inner_graphs, operator_name, replace_nodes
from infer_opt.ir.names import Names

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

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

_CONTRACT = "a reference takes (op, inputs, attributes) and returns the value of its last op.node()"

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
        # A name given when it is put into a graph would be free in that graph only.
        made.outputs[0].name = self.fresh(f"{op_type}_value")
        self.nodes.append(made)
        return made.outputs[0]

    def initializer(self, array: ArrayLike, like: str | None = None) -> ir.Value:
        """A new initializer, named after `like`."""
        return add_initializer(self._graph, self.fresh(like or "constant"), array)

    def fresh(self, wanted: str) -> str:
        """A name that is free in the whole model, `wanted` if it can be."""
        return self._names.fresh(wanted)

    def result(self, output: object, function: Callable[..., object], contract: str) -> ir.Value:
        """What a user's function returned, if it is a value; one that it did not make passes through an Identity.

        Raises:
            InputError: it is no value; the function's place is named.
        """
        if not isinstance(output, ir.Value):
            returned = type(output).__name__
            raise InputError(
                f"{place_of(function)}: it returned {returned}, and no value", f"correct the code; {contract}"
            )
        return output if output.producer() in self.nodes else self.node("Identity", [output])


def register_reference(operator: str, reference: Reference) -> None:
    """Say what a custom operator (`DOMAIN::OP`, one output) computes. The last registration counts.

    Raises:
        ValueError: the operator is none of a domain of its own.
    """
    domain, separator, name = operator.partition("::")
    if not (domain and separator and name):
        message = f"an operator with a reference is written `DOMAIN::OP`, not `{operator}`"
        raise ValueError(message)
    _REFERENCES[operator] = reference


def registered_references() -> frozenset[str]:
    """Operators with a reference."""
    return frozenset(_REFERENCES)


def referenced_operators(model: ir.Model) -> list[str]:
    """Custom operators of a model that have a reference, sorted."""
    used = {operator_name(node) for graph in all_graphs(model) for node in graph}
    return sorted(used & _REFERENCES.keys())


def expand_references(model: ir.Model) -> ir.Model:
    """A copy in which every custom operator with a reference is written out; the model itself where there is none.

    Raises:
        InputError: a reference raises, or returns no value; its file and line are named.
    """
    if not referenced_operators(model):
        return model
    copy = model.clone()
    names = Names(copy)
    for graph in [copy.graph, *(inner for node in copy.graph.all_nodes() for inner in inner_graphs(node))]:
        for node in tuple(graph):
            reference = _REFERENCES.get(operator_name(node))
            if reference is not None:
                builder = GraphBuilder(graph, names)
                output = _written_out(builder, node, reference)
                for index, made in enumerate(builder.nodes):
                    made.name = builder.fresh(f"{node.name}_reference_{index}")
                    copy.opset_imports.setdefault(made.domain, 1)
                replace_nodes(graph, [node], node.outputs[0], builder.nodes, output)
    return copy


def _written_out(builder: GraphBuilder, node: ir.Node, reference: Reference) -> ir.Value:
    """What a reference makes of one node."""
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        raise InputError(
            f"node `{node.name}`: a reference stands for one output, and `{operator_name(node)}` has more",
            "leave the reference out, and compile with --allow-op",
        )
    attributes = {name: attr.value for name, attr in node.attributes.items()}
    with running_user_code(reference, _CONTRACT):
        output = reference(builder, tuple(node.inputs), attributes)
    return builder.result(output, reference, _CONTRACT)

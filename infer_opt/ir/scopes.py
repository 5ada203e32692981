"""Scopes: the main graph, and each subgraph by the node and the attribute that carry it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from infer_opt.ir.edit import all_graphs, inner_graphs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Scope", "branches", "initializers", "nodes", "scopes"]


@dataclass(frozen=True, eq=False)
class Scope:
    """A graph, and where it stands.

    Args:
        graph: its own nodes; those of its subgraphs stand in scopes of their own.
        owner: the node that runs it, None of the main graph.
        outer: the scope of `owner`, whose values it sees.
    """

    graph: ir.Graph
    owner: ir.Node | None = None
    attribute: str = ""
    outer: Scope | None = None

    @property
    def name(self) -> str | None:
        """`NODE/else_branch`, say; None of the main graph. Names of nodes are unique, so this is too."""
        return None if self.owner is None else f"{self.owner.name}/{self.attribute}"

    @property
    def is_branch(self) -> bool:
        """Whether it is a branch of an If: it runs once at most each time that the graph around it runs."""
        return self.owner is not None and self.owner.op_type == "If" and not self.owner.domain

    def outwards(self) -> Iterator[Scope]:
        """This scope and those around it, the main graph last."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def looped(self) -> Scope | None:
        """The innermost scope that is no branch of an If, so that one run may run it many times; None of branches."""
        return next((scope for scope in self.outwards() if scope.owner is not None and not scope.is_branch), None)


def scopes(model: ir.Model) -> Iterator[Scope]:
    """All scopes of a model: outer ones before inner ones, and these in the order of their nodes."""
    yield from _within(Scope(model.graph))


def branches(model: ir.Model) -> list[Scope]:
    """The branches of If, which a run of the model takes or not; none that stand inside a Loop or a Scan."""
    return [scope for scope in scopes(model) if scope.is_branch and scope.looped() is None]


def _within(scope: Scope) -> Iterator[Scope]:
    yield scope
    for node in scope.graph:
        if not inner_graphs(node):
            continue
        for name, attr in node.attributes.items():
            if attr.type == ir.AttributeType.GRAPH:
                yield from _within(Scope(attr.as_graph(), node, name, scope))
            elif attr.type == ir.AttributeType.GRAPHS:
                for index, graph in enumerate(attr.as_graphs()):
                    yield from _within(Scope(graph, node, f"{name}[{index}]", scope))


def nodes(model: ir.Model) -> dict[str, ir.Node]:
    """Every node by its name, subgraphs included: loading made the names unique."""
    return {str(node.name): node for graph in all_graphs(model) for node in graph}


def initializers(model: ir.Model) -> dict[str, ir.Value]:
    """Every initializer by its name, subgraphs included: loading made the names unique."""
    return {name: value for graph in all_graphs(model) for name, value in graph.initializers.items()}

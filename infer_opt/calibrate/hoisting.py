"""Handing values of the branches of If out to the caller, and which branches a sample takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Hoist", "branches_taken"]


class Hoist:
    """Adds outputs to a model, of which it keeps the names: one for each value or branch that is asked for."""

    def __init__(self, model: ir.Model, names: ir.Names) -> None:
        self._model, self._names = model, names
        self._scopes = {scope.graph: scope for scope in ir.scopes(model)}

    def output(self, value: ir.Value, name: str, absent: np.ndarray[Any, Any]) -> None:
        """Make `value` an output `name` of the model, which is `absent` where the value's branch is not taken.

        Args:
            value: of the main graph, or of a branch of an If, at any depth.
        """
        graph = value.graph
        assert isinstance(graph, ir.Graph)  # noqa: S101 - functions are inlined when a model is loaded
        scope = self._scopes[graph]
        if scope.outer is not None and value.is_graph_output():
            value = self._copied(value, graph)
        if scope.outer is not None and value.name == name:
            value.name = self._names.fresh(name)
        for each in scope.outwards():
            if each.owner is not None:
                value = self._handed_out(value, each, each.owner, absent)
        value.name = name
        self._model.graph.outputs.append(value)

    def flags(self) -> dict[str, str]:
        """An output for each branch, true where it is taken: names of outputs by names of branches."""
        found: dict[str, str] = {}
        for scope in ir.branches(self._model):
            assert scope.name is not None  # noqa: S101 - only the main graph has no name
            taken = ir.add_initializer(scope.graph, self._names.fresh("branch_taken"), np.array(1, np.bool_))
            found[scope.name] = self._names.fresh(f"{scope.name}/taken")
            self.output(taken, found[scope.name], np.array(0, np.bool_))
        return found

    def _copied(self, value: ir.Value, graph: ir.Graph) -> ir.Value:
        """No graph has one value as an output twice."""
        name = self._names.fresh(f"{value.name}_copy")
        node = ir.make_node("Identity", [value], name=name)
        node.outputs[0].name, node.outputs[0].type = name, value.type
        graph.append(node)
        return node.outputs[0]

    def _handed_out(self, value: ir.Value, scope: ir.Scope, owner: ir.Node, absent: np.ndarray[Any, Any]) -> ir.Value:
        """The value as a further output of the If around its branch."""
        for graph in ir.inner_graphs(owner):
            other = graph is not scope.graph
            graph.outputs.append(
                ir.add_initializer(graph, self._names.fresh(f"{value.name}_absent"), absent) if other else value
            )
        owner.resize_outputs(len(owner.outputs) + 1)
        made = owner.outputs[-1]
        made.name, made.type = self._names.fresh(f"{value.name}_out"), value.type
        return made


def branches_taken(model: ir.Model, feeds: Iterable[Mapping[str, np.ndarray[Any, Any]]], threads: int = 1) -> set[str]:
    """Names of the branches of If that at least one of the feeds takes. Runs the model, if it has any, on each feed."""
    copy = ir.clone(ir.expand_references(model))
    copy.graph.outputs.clear()
    flags = Hoist(copy, ir.Names(copy)).flags()
    if not flags:
        return set()
    runner = Runner.of_model(copy, "the model", threads=threads)
    taken: set[str] = set()
    for feed in feeds:
        results = runner.run(feed)
        taken |= {branch for branch, output in flags.items() if results[output]}
    return taken

"""What must hold of a graph between any two passes. A pass that breaks it is named at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["IllegalModel", "check_legal"]


class IllegalModel(Exception):
    """A pass left the graph in a state that is no ONNX model: a bug, never the user's fault."""


def check_legal(model: ir.Model) -> None:
    """Check names, order and scope of every value, in linear time.

    Raises:
        IllegalModel: a name is taken twice or missing, or a value is used before it is made or out of its scope.
    """
    _check_graph(model.graph, set(), set())


def _check_graph(graph: ir.Graph, visible: set[ir.Value], names: set[str]) -> None:
    made: list[ir.Value] = []

    def make(value: ir.Value) -> None:
        if value.name in names:
            _fail(f"two values are named `{value.name}`")
        names.add(str(value.name))
        visible.add(value)
        made.append(value)

    for value in graph.inputs:
        make(value)
    for value in graph.initializers.values():
        if value not in visible:
            make(value)
        if value.const_value is None:
            _fail(f"initializer `{value.name}` has no content")
    for node in graph:
        for value in node.inputs:
            if value is not None and value not in visible:
                _fail(f"node `{node.name}` ({node.op_type}) reads `{value.name}` before it is made")
        for attr in node.attributes.values():
            for inner in _graphs(attr):
                _check_graph(inner, visible, names)
        for value in node.outputs:
            if value.name:
                make(value)
    for value in graph.outputs:
        if value not in visible:
            _fail(f"output `{value.name}` is made by no node")
    visible.difference_update(made)


def _graphs(attr: ir.Attr) -> list[ir.Graph]:
    if attr.type.name == "GRAPH":
        return [attr.as_graph()]
    return list(attr.as_graphs()) if attr.type.name == "GRAPHS" else []


def _fail(reason: str) -> None:
    raise IllegalModel(reason)

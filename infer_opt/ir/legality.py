"""What must hold of a graph between any two passes. A pass that breaks it is named at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt.ir.edit import inner_graphs

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["IllegalModelError", "check_legal"]


class IllegalModelError(Exception):
    """A pass left the graph in a state that is no ONNX model: a bug, never the user's fault."""


def check_legal(model: ir.Model) -> None:
    """Check names, order and scope of every value, in linear time.

    Raises:
        IllegalModelError: a name is taken twice or missing, or a value is used before it is made or out of its scope.
    """
    _Checker().check(model.graph)


class _Checker:
    def __init__(self) -> None:
        self._visible: set[ir.Value] = set()
        self._names: set[str] = set()

    def check(self, graph: ir.Graph) -> None:
        made = [*graph.inputs]
        for value in graph.inputs:
            self._make(value)
        for initializer in graph.initializers.values():
            if initializer not in self._visible:
                self._make(initializer)
                made.append(initializer)
            if initializer.const_value is None:
                _fail(f"initializer `{initializer.name}` has no content")
        for node in graph:
            made += self._check_node(node)
        for value in graph.outputs:
            if value not in self._visible:
                _fail(f"output `{value.name}` is made by no node")
        self._visible.difference_update(made)

    def _check_node(self, node: ir.Node) -> list[ir.Value]:
        for value in node.inputs:
            if value is not None and value not in self._visible:
                _fail(f"node `{node.name}` ({node.op_type}) reads `{value.name}` before it is made")
        for inner in inner_graphs(node):
            self.check(inner)
        made = [value for value in node.outputs if value.name]
        for value in made:
            self._make(value)
        return made

    def _make(self, value: ir.Value) -> None:
        if not value.name or value.name in self._names:
            _fail(f"two values are named `{value.name}`")
        self._names.add(str(value.name))
        self._visible.add(value)


def _fail(reason: str) -> None:
    raise IllegalModelError(reason)

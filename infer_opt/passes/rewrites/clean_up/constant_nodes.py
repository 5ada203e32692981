"""Constant nodes become initializers, so that every later rewrite finds weights in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["lift_constant_nodes"]

_FORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda tensor: tensor,
    "value_int": lambda number: ir.tensor(np.asarray(number, np.int64)),
    "value_ints": lambda numbers: ir.tensor(np.asarray(numbers, np.int64)),
    "value_float": lambda number: ir.tensor(np.asarray(number, np.float32)),
    "value_floats": lambda numbers: ir.tensor(np.asarray(numbers, np.float32)),
}


def lift_constant_nodes(model: ir.Model) -> Iterator[Change]:
    """Replace each Constant node by an initializer of the same name in its own graph.

    A Constant that is itself a graph output stays: an initializer cannot be told from a value there. Strings and
    sparse constants stay too; no backend rewrites them.
    """
    for graph in ir.all_graphs(model):
        for node in graph:
            tensor = _content(node)
            if tensor is None or node.outputs[0].is_graph_output():
                continue
            old = node.outputs[0]
            new = ir.Value(name=old.name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
            old.replace_all_uses_with(new)
            ir.remove(node)
            old.name = None
            graph.register_initializer(new)
            yield Change("constant node to initializer", ir.origin(node))


def _content(node: ir.Node) -> Any | None:
    if node.op_type != "Constant" or node.domain or len(node.attributes) != 1:
        return None
    name, attr = next(iter(node.attributes.items()))
    return _FORMS[name](attr.value) if name in _FORMS and not attr.is_ref() else None

"""Cutting a model in two: how much crosses each cut, and each part as a model of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from infer_opt.ir.constants import known_ahead
from infer_opt.ir.edit import clone, inner_graphs, read_by

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["crossing_sizes", "tail", "with_outputs"]

_CAN_CROSS = frozenset(
    {
        *(ir.DataType.BOOL, ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE),
        *(ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT8),
    }
)


def crossing_sizes(model: ir.Model, sizes: Mapping[str, int]) -> list[float]:
    """Elements that cross the cut before each node of the main graph, in its order; infinite where it cannot be cut.

    That is behind a node with a body, and where a value crosses that is an output, or no plain tensor, or whose size is
    not known. What a model is fed does not count, nor what is known before it runs.

    Args:
        sizes: elements by value.
    """
    constants, nodes = known_ahead(model), list(model.graph)
    last = {value: place for place, node in enumerate(nodes) for value in read_by(node)}
    outputs = {value for node in nodes for graph in inner_graphs(node) for value in graph.outputs}
    outputs.update(model.graph.outputs)
    last |= dict.fromkeys(outputs, len(nodes))
    change, blocked = np.zeros(len(nodes) + 2), np.zeros(len(nodes) + 2)
    for place, node in enumerate(nodes):
        if any(inner_graphs(node)):
            blocked[place + 1] += 1
        for value in (value for value in node.outputs if value not in constants):
            end, size = last.get(value, place), sizes.get(str(value.name))
            free = size is not None and value.dtype in _CAN_CROSS and value not in outputs
            held, amount = (change, size or 0) if free else (blocked, 1)
            held[place + 1] += amount
            held[end + 1] -= amount
    found = np.where(np.cumsum(blocked) > 0, math.inf, np.cumsum(change))
    return [float(size) for size in found[: len(nodes)]]


def tail(model: ir.Model, start: int) -> ir.Model:
    """A copy without the first nodes of the main graph, which shares the weights.

    What crosses the cut are its inputs, under their names. Inputs that nobody reads behind the cut are gone.

    Args:
        start: how many nodes are left out, those aside whose outputs are known before the model runs; a place where
            `crossing_sizes` is finite.
    """
    copy = clone(model)
    graph, constants = copy.graph, known_ahead(copy)
    head = [node for node in list(graph)[:start] if not constants.issuperset(node.outputs)]
    left_out = frozenset(head)
    for value in (value for node in head for value in node.outputs):
        if any(user not in left_out for user, _ in value.uses()):
            fed = ir.Value(name=value.name, type=value.type, shape=value.shape)
            value.replace_all_uses_with(fed)
            value.name = None
            graph.inputs.append(fed)
    graph.remove(head, safe=True)
    for value in [value for value in graph.inputs if not value.uses() and not value.is_graph_output()]:
        graph.inputs.remove(value)
    for name in [name for name, value in graph.initializers.items() if not value.uses()]:
        del graph.initializers[name]
    return copy


def with_outputs(model: ir.Model, names: Collection[str]) -> ir.Model:
    """A copy that hands out these values of its main graph, and nothing else; it shares the weights."""
    copy = clone(model)
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(value for node in copy.graph for value in node.outputs if value.name in names)
    return copy

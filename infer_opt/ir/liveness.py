"""How much memory activations need: every value is held from the node that makes it to its last reader."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from infer_opt.ir.constants import known_ahead
from infer_opt.ir.edit import all_graphs, inner_graphs, read_by
from infer_opt.ir.shapes import elements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

__all__ = ["Peak", "activation_peak"]


@dataclass(frozen=True)
class Peak:
    """The most bytes of activations that live at one time.

    Args:
        bytes: a lower bound where `unknown` names any value.
        node: the node that runs then, or None where the inputs alone are the most.
        unknown: names of the values whose size the model does not fix; they count as empty.
    """

    bytes: int
    node: str | None
    unknown: tuple[str, ...]


def activation_peak(model: ir.Model) -> Peak:
    """Peak of one run in the order of the graph.

    Graph inputs are held until they are last read, graph outputs to the end. Constants do not count, nor what is
    computed from constants alone. No value shares memory with another, so a runtime that works in place needs less. A
    subgraph's own peak is added to that of its node.
    """
    constants = known_ahead(model)
    unknown = tuple(
        str(value.name) for graph in all_graphs(model) for value in _made(graph, constants) if _size(value) is None
    )
    return Peak(*_walk(model.graph, constants), unknown)


def _walk(graph: ir.Graph, constants: AbstractSet[ir.Value]) -> tuple[int, str | None]:
    """Peak bytes of a graph, and the node at which it is reached."""
    last = {value: node for node in graph for value in read_by(node)}
    kept = {*graph.outputs, *constants}
    own = {value for value in _made(graph, constants) if value not in kept}
    live = peak = sum(_bytes(value) for value in graph.inputs if value not in constants)
    where = None
    for node in graph:
        made = [value for value in node.outputs if value.name and value not in constants]
        live += sum(_bytes(value) for value in made)
        inside = max((_walk(inner, constants)[0] for inner in inner_graphs(node)), default=0)
        if live + inside > peak:
            peak, where = live + inside, str(node.name)
        over = {value for value in (*made, *read_by(node)) if last.get(value, node) is node} & own
        live -= sum(_bytes(value) for value in over)
    return peak, where


def _made(graph: ir.Graph, constants: AbstractSet[ir.Value]) -> Iterator[ir.Value]:
    """What is fed to a graph and what its own nodes make."""
    for value in (*graph.inputs, *(value for node in graph for value in node.outputs)):
        if value.name and value not in constants:
            yield value


def _bytes(value: ir.Value) -> int:
    return _size(value) or 0


def _size(value: ir.Value) -> int | None:
    count = elements(value)
    if count is None or value.dtype is None or value.dtype in {ir.DataType.STRING, ir.DataType.UNDEFINED}:
        return None
    return math.ceil(count * value.dtype.itemsize)

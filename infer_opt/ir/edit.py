"""Small edits that keep a graph's interface as it is, and where a node came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
from onnx_ir.convenience import replace_nodes_and_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike

__all__ = [
    "add_initializer",
    "all_graphs",
    "attribute",
    "clone",
    "constant_value",
    "drop_constants",
    "every_value",
    "inner_graphs",
    "interface_values",
    "operator_name",
    "origin",
    "read_by",
    "remove",
    "replace_node",
    "replace_nodes",
    "set_origin",
    "substitute",
]

_ORIGIN = "infer_opt.origin"
_WITH_SUBGRAPHS = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def clone(model: ir.Model) -> ir.Model:
    """A copy of the graph that shares the weights; dropping it undoes whatever was done to it."""
    return model.clone()


def constant_value(name: str | None, content: ArrayLike | ir.TensorProtocol) -> ir.Value:
    """A value that holds a constant; `add_initializer` puts one into a graph at once."""
    tensor = _tensor(content)
    return ir.Value(
        name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
    )


def drop_constants(model: ir.Model) -> None:
    """Let go of the constants of a copy that is of no more use: graphs hold themselves, and are collected late."""
    for graph in all_graphs(model):
        for value in graph.initializers.values():
            value.const_value = None


def _tensor(content: ArrayLike | ir.TensorProtocol) -> ir.TensorProtocol:
    # Plain arrays first: to ask whether something has the methods of a protocol takes as long as all the rest.
    if isinstance(content, np.ndarray) and content.dtype.kind in "biuf":
        return ir.Tensor(content)
    return content if isinstance(content, ir.TensorProtocol) else ir.tensor(np.asarray(content))


def add_initializer(graph: ir.Graph, name: str, content: ArrayLike | ir.TensorProtocol) -> ir.Value:
    """A new initializer of `graph`. The name has to be free: take it from `Names`."""
    value = constant_value(name, content)
    graph.register_initializer(value)
    return value


def attribute(node: ir.Node, name: str, default: Any = None) -> Any:
    """The plain Python value of an attribute, or `default` where the node has none."""
    attr = node.attributes.get(name)
    return default if attr is None or attr.is_ref() else attr.value


def all_graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """The main graph and every subgraph, outer ones first.

    onnx_ir's own walk looks at every attribute of every node; operators of the standard without subgraphs are passed
    over here, which matters since every rewrite begins with this walk.
    """
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph:
            if node.op_type in _WITH_SUBGRAPHS or node.domain:
                waiting.extend(inner_graphs(node))


def operator_name(node: ir.Node) -> str:
    """`Conv`, or `DOMAIN::OP` outside the standard's own domain."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def every_value(model: ir.Model) -> list[ir.Value]:
    """The model's inputs and what nodes make, in subgraphs too; no constants."""
    made = [value for graph in all_graphs(model) for node in graph for value in node.outputs]
    return [value for value in (*model.graph.inputs, *made) if value.name]


def inner_graphs(node: ir.Node) -> Sequence[ir.Graph]:
    """The subgraphs a control-flow node carries (If, Loop, Scan)."""
    if node.op_type not in _WITH_SUBGRAPHS and not node.domain:
        return ()
    found: list[ir.Graph] = []
    for attr in node.attributes.values():
        if attr.type == ir.AttributeType.GRAPH:
            found.append(attr.as_graph())
        elif attr.type == ir.AttributeType.GRAPHS:
            found.extend(attr.as_graphs())
    return found


def read_by(node: ir.Node) -> Iterator[ir.Value]:
    """Values that a node reads, or that its subgraphs do."""
    yield from (value for value in node.inputs if value is not None)
    for graph in inner_graphs(node):
        yield from graph.outputs
        for inner in graph:
            yield from read_by(inner)


def interface_values(graph: ir.Graph) -> set[ir.Value]:
    """Inputs and outputs of a graph: values whose names a caller knows."""
    return {*graph.inputs, *graph.outputs}


def origin(node: ir.Node) -> tuple[str, ...]:
    """Names of the nodes of the original model that `node` stands for."""
    return tuple(node.meta.get(_ORIGIN) or ((node.name,) if node.name else ()))


def set_origin(node: ir.Node, sources: Iterable[ir.Node]) -> None:
    """Record that `node` stands for `sources` (their own origins, in order, each once)."""
    node.meta[_ORIGIN] = tuple(dict.fromkeys(name for source in sources for name in origin(source)))


def substitute(old: ir.Value, new: ir.Value) -> bool:
    """Let every user of `old` use `new`; a graph output keeps its name, dtype and declared shape.

    Returns:
        False, and nothing is changed, where `old` is a graph output that `new` cannot stand for: `new` is itself part
        of an interface, or a constant, or lives in another graph. An Identity is needed there.
    """
    if old.is_graph_output():
        if new.is_graph_input() or new.is_graph_output() or new.is_initializer() or new.graph is not old.graph:
            return False
        _take_over_output(old, new)
    old.replace_all_uses_with(new)
    return True


def _take_over_output(old: ir.Value, new: ir.Value) -> None:
    graph = old.graph
    assert graph is not None  # noqa: S101 - a graph output has a graph
    for index, value in enumerate(graph.outputs):
        if value is old:
            graph.outputs[index] = new
    name, old.name = old.name, None
    new.name, new.type, new.shape = name, old.type, old.shape


def remove(node: ir.Node) -> None:
    """Take a node whose outputs nobody uses out of its graph.

    Raises:
        ValueError: an output is still in use.
    """
    assert node.graph is not None  # noqa: S101 - only nodes of a graph are removed
    node.graph.remove(node, safe=True)


def replace_nodes(
    graph: ir.Graph,
    old: Sequence[ir.Node],
    old_output: ir.Value,
    new: Sequence[ir.Node],
    new_output: ir.Value,
) -> None:
    """Put `new` in the place of `old`, whose last node makes `old_output`; `new_output` takes its name and users."""
    replace_nodes_and_values(graph, old[-1], old, new, [old_output], [new_output])


def replace_node(graph: ir.Graph, old: ir.Node, outputs: Sequence[ir.Value], new: ir.Node) -> None:
    """Put `new` in the place of `old` and under its name; its outputs stand for `outputs`, the others are not read."""
    replace_nodes_and_values(graph, old, [old], [new], outputs, new.outputs)
    new.name = old.name

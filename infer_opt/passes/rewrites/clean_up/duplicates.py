"""Duplicates: equal initializers become one, and equal nodes on equal inputs become one."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_random", "merge_equal_initializers", "merge_equal_nodes"]

_BEGINNING = 16  # elements

_RANDOM_OPERATORS = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
_PLAIN_ATTRIBUTES = frozenset(
    {
        ir.AttributeType.FLOAT,
        ir.AttributeType.FLOATS,
        ir.AttributeType.INT,
        ir.AttributeType.INTS,
        ir.AttributeType.STRING,
        ir.AttributeType.STRINGS,
    }
)


def is_random(node: ir.Node) -> bool:
    """Whether two runs of a node may differ: a random operator, or a Dropout in training mode."""
    if node.op_type == "Dropout" and len(node.inputs) > 2:
        return node.inputs[2] is not None and ir.scalar(node.inputs[2]) is not False
    return node.op_type in _RANDOM_OPERATORS


def merge_equal_initializers(model: ir.Model) -> Iterator[Change]:
    """One initializer for each dtype, shape and content; the one of the outermost graph stays.

    Only tensors that share dtype, shape and first elements with another are read whole, so distinct large weights are
    not paged in from disk.
    """
    alike: dict[object, list[tuple[ir.Graph, ir.Value]]] = defaultdict(list)
    for graph in ir.all_graphs(model):
        for value in graph.initializers.values():
            if ir.is_constant(value) and not value.is_graph_output() and value.const_value is not None:
                alike[value.const_value.dtype, tuple(value.const_value.shape), _beginning(value)].append((graph, value))
    for group in alike.values():
        kept: dict[bytes, ir.Value] = {}
        for graph, value in group if len(group) > 1 else []:
            first = kept.setdefault(_digest(value), value)
            # Subgraphs see the main graph's values, but not each other's.
            if first is value or (first.graph is not model.graph and first.graph is not graph):
                continue
            value.replace_all_uses_with(first)
            del graph.initializers[str(value.name)]
            yield Change("equal initializers", (str(value.name),), f"kept `{first.name}`")


def _beginning(value: ir.Value) -> bytes:
    array = ir.array(value)
    return b"" if array.dtype == np.object_ else array.reshape(-1)[:_BEGINNING].tobytes()


def _digest(value: ir.Value) -> bytes:
    tensor = value.const_value
    assert tensor is not None  # noqa: S101 - only constants with content are grouped
    return hashlib.sha256(ir.content_bytes(tensor)).digest()


def merge_equal_nodes(model: ir.Model) -> Iterator[Change]:
    """Common subexpression elimination within each graph.

    Random operators, control flow and operators outside the ONNX standard, which may be either, are left alone.
    """
    for graph in ir.all_graphs(model):
        first_of: dict[object, ir.Node] = {}
        for node in graph:
            key = _key(node)
            if key is None:
                continue
            first = first_of.setdefault(key, node)
            if first is not node and _merge(node, first):
                yield Change("equal nodes", ir.origin(node), f"kept `{first.name}`")


def _merge(node: ir.Node, first: ir.Node) -> bool:
    if any(value.is_graph_output() for value in node.outputs):
        # The output's name would have to move; only a lone output can move without leaving a half-merged node.
        if len(node.outputs) > 1 or not ir.substitute(node.outputs[0], first.outputs[0]):
            return False
    else:
        for old, new in zip(node.outputs, first.outputs, strict=True):
            old.replace_all_uses_with(new)
    ir.remove(node)
    return True


def _key(node: ir.Node) -> object | None:
    if is_random(node) or not ir.operator_known(node.op_type, node.domain):
        return None
    attributes: list[object] = []
    for name, attr in sorted(node.attributes.items()):
        if attr.type == ir.AttributeType.TENSOR:
            tensor = attr.as_tensor()
            attributes.append((name, tensor.dtype, tuple(tensor.shape), ir.content_bytes(tensor)))
        elif attr.type in _PLAIN_ATTRIBUTES:
            attributes.append((name, attr.type, repr(attr.value)))
        else:
            return None
    present = tuple(bool(value.name) for value in node.outputs)
    return (node.op_identifier(), tuple(id(value) for value in node.inputs), tuple(attributes), present)

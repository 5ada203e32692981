"""Counting what a model holds and does: operators, parameters, multiply-adds, 2:4 share."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from infer_opt.ir.constants import is_constant
from infer_opt.ir.edit import all_graphs, attribute
from infer_opt.ir.shapes import dims, elements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Sparsity", "Stored", "Work", "multiply_adds", "multiply_adds_by_node", "operators", "sparsity", "stored"]


@dataclass(frozen=True)
class Stored:
    """Constants of a model, those of Constant nodes and of subgraphs too.

    Args:
        parameters: numbers held, of every dtype but strings.
        bytes: by ONNX element type in lower case, largest first.
    """

    parameters: int
    bytes: dict[str, int]


@dataclass(frozen=True)
class Work:
    """Multiply-adds of one run.

    Args:
        multiply_adds: of the nodes whose shapes are fixed.
        unknown: names of the nodes whose shapes, or number of runs, the model does not fix.
    """

    multiply_adds: int
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Sparsity:
    """Groups of four weights along the input channels: all that are eligible, and those with two zeros or more."""

    groups: int
    sparse: int

    @property
    def share(self) -> float | None:
        """Share of the groups that are 2:4 sparse, or None where there are none."""
        return self.sparse / self.groups if self.groups else None


def operators(model: ir.Model) -> dict[str, int]:
    """Nodes of each operator, subgraphs included, most frequent first; `domain::Operator` outside the standard."""
    counts = Counter(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for graph in all_graphs(model)
        for node in graph
    )
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def stored(model: ir.Model) -> Stored:
    """What the model keeps in constants. Reads no content, so external weights stay on disk."""
    tensors = [tensor for tensor in _tensors(model) if tensor.dtype != ir.DataType.STRING]
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        sizes[tensor.dtype.name.lower()] += tensor.nbytes
    return Stored(sum(tensor.size for tensor in tensors), dict(sizes.most_common()))


def _tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    for graph in all_graphs(model):
        yield from (value.const_value for value in graph.initializers.values() if value.const_value is not None)
        yield from (tensor for node in graph if (tensor := _content(node)) is not None)


def _content(node: ir.Node | None) -> ir.TensorProtocol | None:
    """The tensor of a Constant node; the forms that hold a few plain numbers are no weights."""
    if node is None or node.op_type != "Constant" or node.domain:
        return None
    found = attribute(node, "value")
    return found if isinstance(found, ir.TensorProtocol) else None


def multiply_adds(model: ir.Model) -> Work:
    """Multiply-adds of Conv, ConvTranspose, MatMul and Gemm; biases and everything else are not counted.

    Those of a ConvTranspose are what it multiplies before padding crops the result. Nodes inside If, Loop and Scan
    count as unknown: how often they run depends on the input.
    """
    found = multiply_adds_by_node(model)
    unknown = tuple(name for name, count in found.items() if count is None)
    return Work(sum(count for count in found.values() if count is not None), unknown)


def multiply_adds_by_node(model: ir.Model) -> dict[str, int | None]:
    """Those of each node that `multiply_adds` counts, by name; None where they are unknown."""
    return {
        str(node.name): _COUNTED[node.op_type](node) if graph is model.graph else None
        for graph in all_graphs(model)
        for node in graph
        if node.op_type in _COUNTED and not node.domain
    }


def _conv(node: ir.Node) -> int | None:
    return _product(elements(node.outputs[0]), _kernel(node))


def _conv_transpose(node: ir.Node) -> int | None:
    return _product(elements(node.inputs[0]), _kernel(node))


def _kernel(node: ir.Node) -> int | None:
    """Multiply-adds for one element: the weight's elements beyond its first axis."""
    shape = dims(node.inputs[1])
    return None if shape is None else _product(*(size if isinstance(size, int) else None for size in shape[1:]))


def _matmul(node: ir.Node) -> int | None:
    return _product(elements(node.outputs[0]), _size(node.inputs[0], -1))


def _gemm(node: ir.Node) -> int | None:
    return _product(elements(node.outputs[0]), _size(node.inputs[0], 0 if attribute(node, "transA", 0) else 1))


def _size(value: ir.Value | None, axis: int) -> int | None:
    shape = dims(value)
    size = shape[axis] if shape else None
    return size if isinstance(size, int) else None


def _product(*factors: int | None) -> int | None:
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None


_COUNTED = {"Conv": _conv, "ConvTranspose": _conv_transpose, "MatMul": _matmul, "Gemm": _gemm}


def sparsity(model: ir.Model) -> Sparsity:
    """2:4 share of the constant weights of Conv, ConvTranspose, MatMul and Gemm, quantized ones too.

    A weight is eligible where its input channels (of one group of a grouped convolution) come in fours; a group is
    four neighbours along them. Weights are read one at a time.

    Source: NVIDIA Ampere architecture white paper, "fine-grained structured sparsity".
    """
    found = [groups for node in _weighted(model) if (groups := _groups_of_four(node)) is not None]
    zeros = [int((np.count_nonzero(groups == 0, axis=1) >= _ZEROS).sum()) for groups in found]
    return Sparsity(sum(len(groups) for groups in found), sum(zeros))


_FOUR = 4
_ZEROS = 2


def _weighted(model: ir.Model) -> Iterable[ir.Node]:
    return (node for graph in all_graphs(model) for node in graph if node.op_type in _COUNTED and not node.domain)


def _groups_of_four(node: ir.Node) -> np.ndarray | None:
    tensor = _weight(node.inputs[1])
    if tensor is None or len(tensor.shape) < 2:  # a vector has no channels
        return None
    axis = _input_channels(node, len(tensor.shape))
    channels = tensor.shape.numpy()[axis]
    if node.op_type == "ConvTranspose":
        channels //= int(attribute(node, "group", 1))
    if channels % _FOUR:
        return None
    return np.moveaxis(tensor.numpy(), axis, -1).reshape(-1, _FOUR)


def _input_channels(node: ir.Node, rank: int) -> int:
    if node.op_type == "Conv":
        return 1
    if node.op_type == "ConvTranspose":
        return 0
    return rank - 1 if attribute(node, "transB", 0) else rank - 2


def _weight(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The stored tensor a node multiplies with, behind a DequantizeLinear whose zero point is 0 too."""
    if value is None or is_constant(value):
        return None if value is None else value.const_value
    producer = value.producer()
    if producer is None or producer.op_type != "DequantizeLinear":
        return _content(producer)
    zero_point = _weight(producer.inputs[2]) if len(producer.inputs) > 2 else None  # its third input
    symmetric = zero_point is None or not zero_point.numpy().any()
    return _weight(producer.inputs[0]) if symmetric else None

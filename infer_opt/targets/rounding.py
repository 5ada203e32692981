"""FP16 on a host without it: every number that a typed graph holds in FP16 is rounded to FP16, and computed in float32.

onnxruntime's CPU kernels compute most operators in float32 between Casts of its own, and it takes Casts away where one
undoes the other, the rounding with them: a product of 90,000 stays 90,000, where FP16 makes it infinite (1.32). A pair
of Casts that the model itself holds is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["rounded"]

_FLOAT, _HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16

# What they write is made of numbers that they read, or in integers and scales, which a kernel multiplies in float32.
_EXACT = frozenset(
    {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Concat", "Expand"}
    | {"Gather", "GatherElements", "GatherND", "Pad", "Tile", "Where", "Max", "Min", "Clip", "Relu", "Neg", "Abs"}
    | {"MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "DepthToSpace", "SpaceToDepth", "ConstantOfShape", "TopK"}
    | {"DequantizeLinear"}
)


def rounded(model: ir.Model) -> ir.Model:
    """A copy that computes in float32 and rounds to FP16 whatever the model has in FP16.

    What it does not tell: in which order and how finely the device's kernels add up. Here sums are kept in float32 and
    rounded once; a kernel that adds up in FP16 is less exact.

    A model whose inputs, outputs or bodies of If, Loop and Scan are FP16 themselves is returned as it is.
    """
    if any(value.dtype == _HALF for value in _fixed(model)):
        return model
    copy = ir.clone(model)
    names = ir.Names(copy)
    for node in tuple(copy.graph):
        for value in node.outputs:
            if value.dtype == _HALF:
                value.type = ir.TensorType(_FLOAT)
                if node.op_type not in _EXACT:
                    _round(copy.graph, node, value, names)
        if node.op_type == "ConstantOfShape" and node.outputs[0].dtype == _FLOAT:
            filled = node.attributes["value"].as_tensor().numpy().astype(np.float32)
            node.attributes["value"] = ir.Attr("value", ir.AttributeType.TENSOR, ir.tensor(filled))
    for value in tuple(copy.graph.initializers.values()):
        if value.dtype == _HALF:
            widened = ir.add_initializer(
                copy.graph, names.fresh(f"{value.name}_float"), ir.array(value).astype(np.float32)
            )
            value.replace_all_uses_with(widened)
            del copy.graph.initializers[str(value.name)]
    return copy


def _fixed(model: ir.Model) -> Iterator[ir.Value]:
    yield from (*model.graph.inputs, *model.graph.outputs)
    for graph in ir.all_graphs(model):
        if graph is not model.graph:
            yield from graph.initializers.values()
            yield from (value for node in graph for value in node.outputs)


def _round(graph: ir.Graph, node: ir.Node, value: ir.Value, names: ir.Names) -> None:
    """Let readers of a value see it rounded. A Cast to FP16 is one half of the pair already."""
    users = tuple(value.uses())
    if node.op_type == "Cast":
        value.type = ir.TensorType(_HALF)
        first = node
    else:
        first = ir.make_node("Cast", [value], {"to": _HALF.value}, name=names.fresh(f"{value.name}_to_half"))
        first.outputs[0].name = names.fresh(f"{value.name}_half")
        first.outputs[0].type, first.outputs[0].shape = ir.TensorType(_HALF), value.shape
        graph.insert_after(node, first)
    second = ir.make_node("Cast", [first.outputs[0]], {"to": _FLOAT.value}, name=names.fresh(f"{value.name}_rounding"))
    result = second.outputs[0]
    result.name = names.fresh(f"{value.name}_rounded")
    result.type, result.shape = ir.TensorType(_FLOAT), value.shape
    graph.insert_after(first, second)
    for user, index in users:
        user.replace_input_with(index, result)

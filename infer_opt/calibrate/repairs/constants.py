"""The constants that repairs changed, put into a graph: weights rounded on purpose, and biases corrected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir

if TYPE_CHECKING:
    from infer_opt.calibrate.plan import Plan

__all__ = ["bias_of", "with_constants"]

_BIAS = 2  # which input of Conv and Gemm is the bias


def with_constants(model: ir.Model, plan: Plan) -> ir.Model:
    """A copy in which each lowered node reads the constants that the plan has for it, still as float numbers.

    A chosen level lies on its scale, so that quantizing the number gives the level back.
    """
    copy = ir.clone(model)
    names = ir.Names(copy)
    nodes = ir.nodes(copy)
    for _, scheme in plan.lowered():
        for site in scheme.weights:
            node, key = nodes[site.node], (site.node, site.index)
            if key in plan.levels:
                array = plan.weights[key].dequantize(plan.levels[key])
                _put(node, site.index, array, names.fresh(f"{site.value}_repaired"))
            if site.node in plan.biases:
                _correct(node, plan.biases[site.node], names)
    return copy


def bias_of(node: ir.Node) -> tuple[ir.Node, int] | None:
    """Where the bias of a Conv, Gemm or MatMul is a constant number a channel, or may be: a node and its input's index.

    That of a MatMul is what the Add behind it adds, where nobody else reads the product.
    """
    if node.op_type in {"Conv", "Gemm"}:
        bias = node.inputs[_BIAS] if len(node.inputs) > _BIAS else None
        return (node, _BIAS) if bias is None or (ir.is_constant(bias) and ir.rank(bias) == 1) else None
    users = tuple(node.outputs[0].uses())
    if len(users) != 1 or node.outputs[0].is_graph_output() or users[0][0].op_type != "Add":
        return None
    add = users[0][0]
    other = 1 - users[0][1]
    bias = add.inputs[other]
    channels = (ir.dims(node.inputs[1]) or [None])[-1]
    return (add, other) if ir.is_constant(bias) and ir.dims(bias) == (channels,) else None


def _correct(node: ir.Node, correction: np.ndarray[Any, Any], names: ir.Names) -> None:
    place = bias_of(node)
    assert place is not None  # noqa: S101 - only such nodes get a correction
    holder, index = place
    bias = holder.inputs[index] if index < len(holder.inputs) else None
    array = correction if bias is None else ir.array(bias).astype(np.float64) + correction
    _put(holder, index, array, names.fresh(f"{node.name}_bias_repaired"))


def _put(node: ir.Node, index: int, array: np.ndarray[Any, Any], name: str) -> None:
    graph = node.graph
    assert isinstance(graph, ir.Graph)  # noqa: S101 - functions are inlined when a model is loaded
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    node.replace_input_with(index, ir.add_initializer(graph, name, np.ascontiguousarray(array, np.float32)))

"""LSTMs that find ranges at run time: onnxruntime's DynamicQuantizeLSTM, with one scale for each row of the gates.

The kernel quantizes the whole sequence that it reads with one scale, and the hidden state of each step with another.
Directions share the scales of a row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.targets.weight_sites import weight_site

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infer_opt.calibrate.plan import WeightSite
    from infer_opt.calibrate.quantization import Quantization
    from infer_opt.profiles import Dialect

__all__ = ["lstm_sites", "write_lstm"]

_DOMAIN = "com.microsoft"
_WEIGHTS = (1, 2)  # of what it reads, and of the hidden state: [directions, 4 * hidden, columns]
_ROWS = 1  # axis of a weight
_INPUTS = 8  # of an LSTM


def lstm_sites(node: ir.Node, dialect: Dialect) -> tuple[WeightSite, ...] | None:
    """The two weights of an LSTM; None where one is no constant, or the batch comes first."""
    if ir.attribute(node, "layout", 0) != 0 or not all(ir.is_constant(node.inputs[index]) for index in _WEIGHTS):
        return None
    axis = _ROWS if dialect.weight_per_channel else None
    return tuple(
        replace(weight_site(node, weight, dialect), index=index, axis=axis)
        for index in _WEIGHTS
        if (weight := node.inputs[index]) is not None
    )


def write_lstm(model: ir.Model, node: ir.Node, found: Mapping[int, Quantization], names: ir.Names) -> None:
    """Put a DynamicQuantizeLSTM in the place of an LSTM.

    Args:
        found: quantization of its weights by input index.
    """
    graph = model.graph
    inputs: list[ir.Value | None] = [*node.inputs, *[None] * (_INPUTS - len(node.inputs))]
    parameters: list[ir.Value | None] = []

    def constant(content: np.ndarray[Any, Any], kind: str, value: ir.Value) -> ir.Value:
        return ir.add_initializer(graph, names.fresh(f"{value.name}_{kind}"), content)

    for index, quantization in found.items():
        weight = node.inputs[index]
        assert weight is not None  # noqa: S101 - a required input
        levels = quantization.quantize(ir.array(weight)).transpose(0, 2, 1)
        inputs[index] = constant(np.ascontiguousarray(levels), "quantized", weight)
        rows = (levels.shape[0], *quantization.scale.shape)
        parameters.append(constant(np.broadcast_to(quantization.scale, rows).copy(), "scale", weight))
        parameters.append(constant(np.broadcast_to(quantization.zero_point, rows).copy(), "zero_point", weight))
    attributes = {name: value for name, value in node.attributes.items() if name != "layout"}
    made = ir.make_node(
        "DynamicQuantizeLSTM", [*inputs, *parameters], attributes, domain=_DOMAIN, num_outputs=len(node.outputs)
    )
    ir.set_origin(made, [node])
    ir.replace_node(graph, node, node.outputs, made)
    model.opset_imports.setdefault(_DOMAIN, 1)

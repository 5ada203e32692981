"""Keeping float weights float in onnxruntime.

Behind a DequantizeLinear of one scale, onnxruntime 1.32 quantizes the weights of a Conv, ConvTranspose or Gemm by
itself, with one scale for all channels, and says nothing (its core/optimizer/qdq_transformer/
weight_bias_quantization.cc). One depthwise Conv of EfficientNet-Lite0 that a plan keeps in float costs 14 dB that way.
Where the same scale stands once for each channel, it leaves the weights alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["keep_float_weights"]

_QUANTIZED_BEHIND_A_SCALE = frozenset({"Conv", "ConvTranspose", "Gemm"})
_CHANNELS = 1  # axis of what they read


def keep_float_weights(model: ir.Model) -> ir.Model:
    """Give operators whose weights are to stay float a DequantizeLinear by channel, of the same numbers; in place."""
    names = ir.Names(model)
    turned: dict[ir.Value, ir.Value] = {}
    endangered = [pair for graph in ir.all_graphs(model) for pair in _endangered(graph)]
    for node, source in endangered:
        if source.outputs[0] not in turned:
            assert isinstance(source.graph, ir.Graph)  # noqa: S101 - nothing but graphs holds nodes here
            turned[source.outputs[0]] = _by_channel(source.graph, source, names)
        node.replace_input_with(0, turned[source.outputs[0]])
    for source in dict.fromkeys(source for _, source in endangered):
        if not source.outputs[0].uses() and not source.outputs[0].is_graph_output():
            ir.remove(source)  # onnxruntime would run it for nobody
    return model


def _endangered(graph: ir.Graph) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Operators with float weights, and the DequantizeLinear that each reads; a Gemm may read its matrix turned."""
    for node in graph:
        if node.op_type not in _QUANTIZED_BEHIND_A_SCALE or node.domain or not ir.is_constant(node.inputs[1]):
            continue
        source = node.inputs[0].producer() if node.inputs[0] is not None else None
        if source is None or source.op_type != "DequantizeLinear" or ir.rank(source.inputs[1]) != 0:
            continue
        if source.graph is not graph:  # onnxruntime sees one graph at a time
            continue
        if isinstance((ir.dims(node.inputs[0]) or (None, None))[_CHANNELS], int):
            yield node, source


def _by_channel(graph: ir.Graph, source: ir.Node, names: ir.Names) -> ir.Value:
    channels = int((ir.dims(source.outputs[0]) or ())[_CHANNELS] or 0)
    name = str(source.outputs[0].name)
    inputs: list[ir.Value | None] = [source.inputs[0]]
    for value, kind in zip(source.inputs[1:], ("scales", "zero_points"), strict=False):
        inputs.append(None if value is None else _repeated(graph, value, channels, names.fresh(f"{name}_{kind}")))
    made = ir.make_node("DequantizeLinear", inputs, {"axis": _CHANNELS}, name=names.fresh(f"{source.name}_by_channel"))
    made.outputs[0].name = names.fresh(f"{name}_by_channel")
    made.outputs[0].type, made.outputs[0].shape = source.outputs[0].type, source.outputs[0].shape
    graph.insert_after(source, made)
    return made.outputs[0]


def _repeated(graph: ir.Graph, value: ir.Value, count: int, name: str) -> ir.Value:
    array: np.ndarray[Any, Any] = ir.array(value)
    return ir.add_initializer(graph, name, np.full(count, array, array.dtype))

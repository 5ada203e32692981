"""Writing a plan as QuantizeLinear and DequantizeLinear nodes: one writer for every backend that reads them.

What differs between backends (dtypes, zero points, bias, which outputs) is in the plan already, by the dialect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.quantization import Quantization
from infer_opt.calibrate.repairs import with_constants

if TYPE_CHECKING:
    from infer_opt.calibrate.plan import Plan, Region, Scheme

__all__ = ["write_qdq"]

_INT32 = np.iinfo(np.int32)
_BIAS = 2  # which input of Conv, ConvTranspose and Gemm is the bias


def write_qdq(model: ir.Model, plan: Plan) -> ir.Model:
    """A copy of `model` with the plan's quantizers, integer weights and biases, and without the float weights.

    A value that an INT8 region writes is read through its quantizer by everybody, so that the kernel can keep its
    integers; one that only INT8 regions read quantized stays as it is for others.
    """
    copy = with_constants(model, plan)
    writer = _Writer(copy, plan)
    quantized = plan.lowered()
    for _, scheme in quantized:
        writer.quantize_weights(scheme)
    for region, scheme in quantized:
        writer.quantize_reads(region, scheme)
    for region, scheme in quantized:
        writer.quantize_writes(region, scheme)
    writer.drop_unread_weights()
    copy.graph.sort()
    return copy


class _Writer:
    def __init__(self, model: ir.Model, plan: Plan) -> None:
        self._graph, self._plan = model.graph, plan
        self._names = ir.Names(model)
        self._nodes = {str(node.name): node for node in model.graph}
        self._written = {value for _, scheme in plan.lowered() for value in scheme.writes}
        self._dequantized: dict[str, ir.Value] = {}
        self._weights: dict[tuple[str, Quantization], ir.Value] = {}

    def nodes_of(self, region: Region) -> list[ir.Node]:
        return [self._nodes[name] for name in region.nodes]

    def quantize_weights(self, scheme: Scheme) -> None:
        for site in scheme.weights:
            node, found = self._nodes[site.node], self._plan.weights[site.node, site.index]
            weight = node.inputs[site.index]
            assert weight is not None  # noqa: S101 - a site is an input that is there
            node.replace_input_with(site.index, self._stored(weight, found))
            bias = node.inputs[_BIAS] if len(node.inputs) > _BIAS else None
            if bias is not None and site.bias_scale_of is not None:
                left = self._plan.activations[site.bias_scale_of]
                node.replace_input_with(_BIAS, self._integer_bias(bias, left, found))

    def quantize_reads(self, region: Region, scheme: Scheme) -> None:
        reads = set(scheme.reads)
        for node in self.nodes_of(region):
            for index, value in enumerate(node.inputs):
                if value is not None and value.name in reads and value.name not in self._written:
                    node.replace_input_with(index, self._through_quantizer(value))

    def quantize_writes(self, region: Region, scheme: Scheme) -> None:
        for node in self.nodes_of(region):
            for value in tuple(node.outputs):
                if value.name in scheme.writes:
                    self._rewire(value)

    def _rewire(self, value: ir.Value) -> None:
        users = [(user, index) for user, index in value.uses() if user.op_type != "QuantizeLinear"]
        outputs = [index for index, output in enumerate(self._graph.outputs) if output is value]
        name = str(value.name)
        result = self._through_quantizer(value)
        for user, index in users:
            user.replace_input_with(index, result)
        if outputs:
            # The graph's output keeps its name: the float value before the quantizer takes another.
            value.name = self._names.fresh(f"{name}_float")
            result.name, result.type, result.shape = name, value.type, value.shape
            for index in outputs:
                self._graph.outputs[index] = result

    def _through_quantizer(self, value: ir.Value) -> ir.Value:
        name = str(value.name)
        if name not in self._dequantized:
            found = self._plan.activations[name]
            if ir.is_constant(value):
                self._dequantized[name] = self._stored(value, found)
            else:
                self._dequantized[name] = self._pair(value, found)
        return self._dequantized[name]

    def _pair(self, value: ir.Value, found: Quantization) -> ir.Value:
        name = str(value.name)
        scale, zero = self._parameters(name, found)
        attributes = {} if found.axis is None else {"axis": found.axis}
        quantized = self._append("QuantizeLinear", [value, scale, zero], attributes, f"{name}_quantized")
        quantized.type, quantized.shape = ir.TensorType(zero.dtype or ir.DataType.UINT8), value.shape
        result = self._append("DequantizeLinear", [quantized, scale, zero], attributes, f"{name}_dequantized")
        result.type, result.shape = value.type, value.shape
        return result

    def _stored(self, value: ir.Value, found: Quantization) -> ir.Value:
        """A constant kept in integers; one that two nodes quantize alike is kept once."""
        key = (str(value.name), found)
        if key not in self._weights:
            scale, zero = self._parameters(str(value.name), found)
            integers = self._initializer(found.quantize(ir.array(value)), f"{value.name}_quantized")
            attributes = {} if found.axis is None else {"axis": found.axis}
            result = self._append("DequantizeLinear", [integers, scale, zero], attributes, f"{value.name}_dequantized")
            result.type, result.shape = value.type, value.shape
            self._weights[key] = result
        return self._weights[key]

    def _integer_bias(self, bias: ir.Value, left: Quantization, weight: Quantization) -> ir.Value:
        """An int32 bias on the scale of the accumulator, input scale times weight scale, zero point 0."""
        array = ir.array(bias).astype(np.float64).reshape(-1)
        scale = (left.scale.astype(np.float64) * weight.scale.astype(np.float64)).astype(np.float32)
        integers = np.rint(array / scale.astype(np.float64)).clip(_INT32.min, _INT32.max).astype(np.int32)
        scales = np.broadcast_to(scale, array.shape) if scale.ndim else scale
        values = [
            self._initializer(integers, f"{bias.name}_quantized"),
            self._initializer(np.ascontiguousarray(scales), f"{bias.name}_scale"),
            self._initializer(np.zeros(scales.shape, np.int32), f"{bias.name}_zero_point"),
        ]
        attributes = {"axis": 0} if scales.ndim else {}
        result = self._append("DequantizeLinear", values, attributes, f"{bias.name}_dequantized")
        result.type, result.shape = bias.type, bias.shape
        return result

    def _parameters(self, name: str, found: Quantization) -> tuple[ir.Value, ir.Value]:
        scale = self._initializer(found.scale, f"{name}_scale")
        return scale, self._initializer(found.zero_point, f"{name}_zero_point")

    def _initializer(self, array: np.ndarray[Any, Any], name: str) -> ir.Value:
        return ir.add_initializer(self._graph, self._names.fresh(name), array)

    def _append(self, op_type: str, inputs: list[ir.Value], attributes: dict[str, int], output: str) -> ir.Value:
        node = ir.make_node(op_type, inputs, attributes, name=self._names.fresh(f"{output}_node"))
        node.outputs[0].name = self._names.fresh(output)
        self._graph.append(node)
        return node.outputs[0]

    def drop_unread_weights(self) -> None:
        for name, value in list(self._graph.initializers.items()):
            if not value.uses() and not value.is_graph_output() and not value.is_graph_input():
                del self._graph.initializers[name]

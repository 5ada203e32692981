"""Writing a plan as QuantizeLinear and DequantizeLinear nodes: one writer for every backend that reads them.

What differs between backends (dtypes, zero points, bias, which outputs) is in the plan already, by the dialect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.repairs import with_constants
from infer_opt.targets.weight_sites import drop_unread_weights, weight_array

if TYPE_CHECKING:
    from infer_opt.calibrate.plan import Plan, Region, Scheme
    from infer_opt.calibrate.quantization import Quantization

__all__ = ["write_qdq"]

_INT32 = np.iinfo(np.int32)
_BIAS = 2  # which input of Conv, ConvTranspose and Gemm is the bias


def write_qdq(model: ir.Model, plan: Plan) -> ir.Model:
    """A copy of `model` with the plan's quantizers, integer weights and biases, and without the float weights.

    A value that an INT8 region writes is read through its quantizer by everybody, so that the kernel can keep its
    integers; one that only INT8 regions read quantized stays as it is for others. Regions with
    ranges found at run time are left to `write_dynamic`.

    A runtime sees one graph at a time. What a branch reads in integers is therefore dequantized inside the branch, and
    quantized there too unless the graph around it has it in integers already; integer weights stay where the float
    ones were, so that branches share them.
    """
    copy = with_constants(model, plan)
    writer = _Writer(copy, plan)
    quantized = plan.quantized()
    for _, scheme, _ in quantized:
        writer.quantize_weights(scheme)
    for region, scheme, _ in quantized:
        writer.quantize_reads(region, scheme)
    for region, scheme, _ in quantized:
        writer.quantize_writes(region, scheme)
    drop_unread_weights(copy)
    copy.graph.sort()
    return copy


class _Writer:
    def __init__(self, model: ir.Model, plan: Plan) -> None:
        self._plan = plan
        self._names = ir.Names(model)
        self._nodes = ir.nodes(model)
        self._scopes = {scope.graph: scope for scope in ir.scopes(model)}
        self._written = {value for _, scheme, _ in plan.quantized() for value in scheme.writes}
        self._parameters: dict[str, tuple[ir.Value, ir.Value]] = {}
        self._quantized: dict[tuple[str, ir.Graph], ir.Value] = {}
        self._dequantized: dict[tuple[str, ir.Graph], ir.Value] = {}
        self._integers: dict[tuple[str, Quantization], tuple[ir.Value, ir.Value, ir.Value]] = {}
        self._weights: dict[tuple[str, Quantization, ir.Graph], ir.Value] = {}

    def nodes_of(self, region: Region) -> list[ir.Node]:
        return [self._nodes[name] for name in region.nodes]

    def quantize_weights(self, scheme: Scheme) -> None:
        for site in scheme.weights:
            node, found = self._nodes[site.node], self._plan.weights[site.node, site.index]
            weight = node.inputs[site.index]
            assert weight is not None  # noqa: S101 - a site is an input that is there
            node.replace_input_with(site.index, self._stored(weight, found, _graph(node)))
            bias = node.inputs[_BIAS] if len(node.inputs) > _BIAS else None
            if bias is not None and site.bias_scale_of is not None:
                left = self._plan.activations[site.bias_scale_of]
                node.replace_input_with(_BIAS, self._integer_bias(bias, left, found, _graph(node)))

    def quantize_reads(self, region: Region, scheme: Scheme) -> None:
        reads = set(scheme.reads)
        for node in self.nodes_of(region):
            for index, value in enumerate(node.inputs):
                if value is not None and value.name in reads and value.name not in self._written:
                    node.replace_input_with(index, self._through_quantizer(str(value.name), value, _graph(node)))

    def quantize_writes(self, region: Region, scheme: Scheme) -> None:
        for node in self.nodes_of(region):
            for value in tuple(node.outputs):
                if value.name in scheme.writes:
                    self._rewire(value)

    def _rewire(self, value: ir.Value) -> None:
        users = [(user, index) for user, index in value.uses() if user.op_type != "QuantizeLinear"]
        own = _graph(value)
        outputs = [index for index, output in enumerate(own.outputs) if output is value]
        name = str(value.name)
        for user, index in users:
            user.replace_input_with(index, self._through_quantizer(name, value, _graph(user)))
        if outputs:
            # The graph's output keeps its name: the float value before the quantizer takes another.
            result = self._through_quantizer(name, value, own)
            value.name = self._names.fresh(f"{name}_float")
            result.name, result.type, result.shape = name, value.type, value.shape
            for index in outputs:
                own.outputs[index] = result

    def _through_quantizer(self, name: str, value: ir.Value, reader: ir.Graph) -> ir.Value:
        """What nodes of the graph `reader` read instead of `value`, whose name in the plan is `name`."""
        found = self._plan.activations[name]
        if ir.is_constant(value):
            return self._stored(value, found, reader)
        graph = self._place(value, reader)
        if (name, graph) not in self._dequantized:
            scale, zero = self._scale(name, value, found)
            quantized = self._in_integers(name, value, graph)
            result = self._append(
                graph, "DequantizeLinear", [quantized, scale, zero], found.axis, f"{name}_dequantized"
            )
            result.type, result.shape = value.type, value.shape
            self._dequantized[name, graph] = result
        return self._dequantized[name, graph]

    def _place(self, value: ir.Value, reader: ir.Graph) -> ir.Graph:
        """The innermost graph on the way to `reader` that runs once at most: nothing is dequantized turn by turn."""
        place = reader
        for scope in self._scopes[reader].outwards():
            if scope.graph is value.graph:
                break
            if scope.outer is not None and not scope.is_branch:
                place = scope.outer.graph
        return place

    def _in_integers(self, name: str, value: ir.Value, graph: ir.Graph) -> ir.Value:
        """The integers of a value: those of a graph around this one, where one has them."""
        around = [scope.graph for scope in self._scopes[graph].outwards()]
        known = next((self._quantized[name, each] for each in around if (name, each) in self._quantized), None)
        if known is not None:
            return known
        home = _graph(value) if name in self._written else graph
        found = self._plan.activations[name]
        scale, zero = self._scale(name, value, found)
        made = self._append(home, "QuantizeLinear", [value, scale, zero], found.axis, f"{name}_quantized")
        made.type, made.shape = ir.TensorType(zero.dtype or ir.DataType.UINT8), value.shape
        self._quantized[name, home] = made
        return made

    def _scale(self, name: str, value: ir.Value, found: Quantization) -> tuple[ir.Value, ir.Value]:
        """Scale and zero point of an activation, where every reader sees them."""
        if name not in self._parameters:
            self._parameters[name] = self._scale_and_zero(_graph(value), name, found)
        return self._parameters[name]

    def _stored(self, value: ir.Value, found: Quantization, reader: ir.Graph) -> ir.Value:
        """A constant, or one read through a Transpose, kept in integers; what two nodes quantize alike is kept once."""
        name, home = str(value.name), _graph(value)
        if (name, found) not in self._integers:
            scale, zero = self._scale_and_zero(home, name, found)
            integers = self._initializer(home, found.quantize(weight_array(value)), f"{name}_quantized")
            self._integers[name, found] = (integers, scale, zero)
        if (name, found, reader) not in self._weights:
            inputs = list(self._integers[name, found])
            result = self._append(reader, "DequantizeLinear", inputs, found.axis, f"{name}_dequantized")
            result.type, result.shape = value.type, value.shape
            self._weights[name, found, reader] = result
        return self._weights[name, found, reader]

    def _integer_bias(self, bias: ir.Value, left: Quantization, weight: Quantization, reader: ir.Graph) -> ir.Value:
        """An int32 bias on the scale of the accumulator, input scale times weight scale, zero point 0."""
        array = ir.array(bias).astype(np.float64).reshape(-1)
        scale = (left.scale.astype(np.float64) * weight.scale.astype(np.float64)).astype(np.float32)
        integers = np.rint(array / scale.astype(np.float64)).clip(_INT32.min, _INT32.max).astype(np.int32)
        scales = np.broadcast_to(scale, array.shape) if scale.ndim else scale
        values = [
            self._initializer(reader, integers, f"{bias.name}_quantized"),
            self._initializer(reader, np.ascontiguousarray(scales), f"{bias.name}_scale"),
            self._initializer(reader, np.zeros(scales.shape, np.int32), f"{bias.name}_zero_point"),
        ]
        axis = 0 if scales.ndim else None
        result = self._append(reader, "DequantizeLinear", values, axis, f"{bias.name}_dequantized")
        result.type, result.shape = bias.type, bias.shape
        return result

    def _scale_and_zero(self, graph: ir.Graph, name: str, found: Quantization) -> tuple[ir.Value, ir.Value]:
        scale = self._initializer(graph, found.scale, f"{name}_scale")
        return scale, self._initializer(graph, found.zero_point, f"{name}_zero_point")

    def _initializer(self, graph: ir.Graph, array: np.ndarray[Any, Any], name: str) -> ir.Value:
        return ir.add_initializer(graph, self._names.fresh(name), array)

    def _append(self, graph: ir.Graph, op_type: str, inputs: list[ir.Value], axis: int | None, output: str) -> ir.Value:
        attributes = {} if axis is None else {"axis": axis}
        node = ir.make_node(op_type, inputs, attributes, name=self._names.fresh(f"{output}_node"))
        node.outputs[0].name = self._names.fresh(output)
        graph.append(node)
        return node.outputs[0]


def _graph(item: ir.Node | ir.Value) -> ir.Graph:
    """The graph that a node stands in, or that makes, feeds or holds a value."""
    graph = item.graph
    assert isinstance(graph, ir.Graph)  # noqa: S101 - functions are inlined when a model is loaded
    return graph

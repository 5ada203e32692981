"""Writing dtypes: a graph in which chosen nodes compute in FP16, for backends that take precision from the graph.

Interfaces stay: graph inputs and outputs keep name and dtype. A value is cast where a reader wants it otherwise, once
for all readers of that dtype. Quantizers take the dtype of what they read, and dequantizers that of who reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.plan import Scheme

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["half_scheme", "write_half"]

_FLOAT, _HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16
_NUMPY = {_FLOAT: np.float32, _HALF: np.float16}
_SCALE = 1


def half_scheme(nodes: Sequence[ir.Node], opset: int) -> Scheme | None:
    """How the nodes of a region would run at FP16; None where they compute on nothing that ONNX has in FP16."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for node in nodes:
        ports = ir.half_ports(node, opset)
        reads |= dict.fromkeys(str(value.name) for index in ports.inputs if (value := node.inputs[index]) is not None)
        writes |= dict.fromkeys(str(node.outputs[index].name) for index in ports.outputs)
    return Scheme("fp16", reads=tuple(reads), writes=tuple(writes)) if reads or writes else None


def write_half(model: ir.Model, nodes: Collection[str]) -> ir.Model:
    """Let the named nodes of the main graph compute in FP16; in place.

    Args:
        model: written with float32 throughout, quantizers and all.
        nodes: of operators that ONNX has in FP16 (`ir.half_ports`).
    """
    writer = _Writer(model, frozenset(nodes))
    for node in tuple(model.graph):
        if node.op_type == "DequantizeLinear":
            writer.split_dequantizer(node)
    for node in tuple(model.graph):
        writer.type_outputs(node)
    for node in tuple(model.graph):
        writer.type_inputs(node)
    writer.finish()
    return model


class _Writer:
    def __init__(self, model: ir.Model, nodes: frozenset[str]) -> None:
        self._model, self._graph = model, model.graph
        self._names = ir.Names(model)
        self._opset = model.opset_imports.get("", 1)
        self._half = {node: self._ports(node) for node in model.graph if node.name in nodes}
        self._turned: set[ir.Value] = set()  # a model may hold FP16 of its own, which stays
        self._cast: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

    def _ports(self, node: ir.Node) -> ir.HalfPorts:
        return ir.half_ports(node, self._opset)

    def _wants_half(self, user: ir.Node, index: int) -> bool:
        return user in self._half and index in self._half[user].inputs

    def split_dequantizer(self, node: ir.Node) -> None:
        """Give the readers in FP16 a dequantizer of their own: a Cast behind it would hide it from the kernel."""
        value = node.outputs[0]
        half = [(user, index) for user, index in value.uses() if self._wants_half(user, index)]
        if not half:
            return
        own = node
        if len(half) < len(tuple(value.uses())) or value.is_graph_output():
            attributes = {name: attr.value for name, attr in node.attributes.items()}
            own = ir.make_node("DequantizeLinear", node.inputs, attributes, name=self._names.fresh(f"{node.name}_half"))
            own.outputs[0].name = self._names.fresh(f"{value.name}_half")
            own.outputs[0].type, own.outputs[0].shape = value.type, value.shape
            self._graph.insert_after(node, own)
            for user, index in half:
                user.replace_input_with(index, own.outputs[0])
        self._half[own] = ir.HalfPorts((_SCALE,), (0,))

    def type_outputs(self, node: ir.Node) -> None:
        """FP16 outputs of a node that computes in it; one that is the graph's gets a Cast under its name."""
        for index in self._half[node].outputs if node in self._half else ():
            value = node.outputs[index]
            value.type = ir.TensorType(_HALF)
            self._turned.add(value)
            if value.is_graph_output():
                self._keep_output(value)
        if node in self._half and node.op_type == "Cast" and self._half[node].outputs:
            node.attributes["to"] = ir.AttrInt64("to", _HALF.value)
        if node in self._half and node.op_type == "ConstantOfShape" and self._half[node].outputs:
            filled = node.attributes["value"].as_tensor().numpy().astype(np.float16)
            node.attributes["value"] = ir.Attr("value", ir.AttributeType.TENSOR, ir.tensor(filled))

    def _keep_output(self, value: ir.Value) -> None:
        name = str(value.name)
        value.name = self._names.fresh(f"{name}_half")
        result = self._converted(value, _FLOAT, name)
        for index, output in enumerate(self._graph.outputs):
            if output is value:
                self._graph.outputs[index] = result

    def type_inputs(self, node: ir.Node) -> None:
        """Casts and constants in front of a node and of the bodies that it holds."""
        if node.op_type == "QuantizeLinear":
            if node.inputs[0] in self._turned:
                self._read(node, _SCALE, _HALF)
            return
        for index in range(len(node.inputs)):
            self._read(node, index, _HALF if self._wants_half(node, index) else _FLOAT)
        for inner in ir.inner_graphs(node):
            self._read_inside(inner)

    def _read_inside(self, graph: ir.Graph) -> None:
        """Bodies stay in float32: what they take from outside is cast for them."""
        for node in graph:
            for index in range(len(node.inputs)):
                self._read(node, index, _FLOAT)
            for inner in ir.inner_graphs(node):
                self._read_inside(inner)

    def _read(self, node: ir.Node, index: int, dtype: ir.DataType) -> None:
        value = node.inputs[index]
        if value is None or (node.op_type == "Cast" and not node.domain):  # a Cast converts any dtype by itself
            return
        if (dtype == _HALF and value.dtype == _FLOAT) or (dtype == _FLOAT and value in self._turned):
            node.replace_input_with(index, self._as(value, dtype))

    def _as(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        key = (value, dtype)
        if key not in self._cast:
            if ir.is_constant(value):
                array: np.ndarray[Any, Any] = ir.array(value)
                with np.errstate(over="ignore"):  # an infinity that was meant stays one, and verdicts refuse others
                    converted = array.astype(_NUMPY[dtype])
                name = self._names.fresh(f"{value.name}_{'half' if dtype == _HALF else 'float'}")
                self._cast[key] = ir.add_initializer(self._graph, name, converted)
            else:
                kind = "half" if dtype == _HALF else "float"
                self._converted(value, dtype, self._names.fresh(f"{value.name}_{kind}"))
        return self._cast[key]

    def _converted(self, value: ir.Value, dtype: ir.DataType, name: str) -> ir.Value:
        """A Cast of a value, right behind it; remembered for other readers."""
        node = ir.make_node("Cast", [value], {"to": dtype.value}, name=self._names.fresh(f"{name}_cast"))
        result = node.outputs[0]
        result.name, result.type, result.shape = name, ir.TensorType(dtype), value.shape
        if dtype == _HALF:
            self._turned.add(result)
        producer = value.producer()
        if producer is not None:
            self._graph.insert_after(producer, node)
        else:
            self._graph.insert_before(next(iter(self._graph)), node)
        self._cast[value, dtype] = result
        return result

    def finish(self) -> None:
        """Drop the float32 constants that nobody reads any more."""
        for name, value in list(self._graph.initializers.items()):
            if not value.uses() and not value.is_graph_output() and not value.is_graph_input():
                del self._graph.initializers[name]

"""Dynamic quantization: matrix products and LSTMs whose kernel finds the range of what it reads when it runs.

    y = Cast(MatMulInteger(levels, weight, zero point)) * (scale * weight scales) + bias
    levels, scale, zero point = DynamicQuantizeLinear(x)

onnxruntime makes one kernel of it (DynamicQuantizeMatMul), or one quantizer and a kernel for each product
(MatMulIntegerToFloat) where several read one value. It needs no samples. The one scale is that of the whole tensor:
what a sample gives depends, within the rounding, on the samples it is batched with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.plan import DYNAMIC, Scheme
from infer_opt.calibrate.quantization import Format
from infer_opt.targets.dynamic_lstm import lstm_sites, write_lstm
from infer_opt.targets.weight_sites import constant_weight, drop_unread_weights, weight_array, weight_site

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt.calibrate.plan import Plan, WeightSite
    from infer_opt.calibrate.quantization import Quantization
    from infer_opt.profiles import Dialect

__all__ = ["dynamic_scheme", "write_dynamic"]

_LEVELS = Format("uint8", symmetric=False)  # what DynamicQuantizeLinear gives, by the ONNX specification
_BIAS = 2  # which input of Gemm


def dynamic_scheme(node: ir.Node, dialect: Dialect) -> Scheme | None:
    """How a node would run with the range of what it reads found at run time; None where it cannot.

    Its weights have to be constant, that of a product a matrix, and a Gemm has to be a plain product and sum.
    """
    if node.domain or node.op_type not in dialect.dynamic_ops or node.inputs[0] is None:
        return None
    if node.inputs[0].dtype != ir.DataType.FLOAT:
        return None
    sites = lstm_sites(node, dialect) if node.op_type == "LSTM" else _product_sites(node, dialect)
    return None if sites is None else Scheme(DYNAMIC, _LEVELS, weights=sites)


def _product_sites(node: ir.Node, dialect: Dialect) -> tuple[WeightSite, ...] | None:
    weight = node.inputs[1]
    if weight is None or ir.is_constant(node.inputs[0]) or constant_weight(weight) is None or ir.rank(weight) != 2:
        return None
    plain = {"transA": 0, "alpha": 1.0, "beta": 1.0}
    if any(ir.attribute(node, name, default) != default for name, default in plain.items()):
        return None
    return (weight_site(node, weight, dialect),)


def write_dynamic(model: ir.Model, plan: Plan) -> ir.Model:
    """Write the regions that a plan runs with ranges found at run time; in place, the rest is written already."""
    schemes = [scheme for _, scheme in plan.lowered() if scheme.precision == DYNAMIC]
    if schemes:
        writer = _Writer(model, plan)
        for scheme in schemes:
            writer.write(scheme.weights)
        drop_unread_weights(model)
    return model


class _Writer:
    def __init__(self, model: ir.Model, plan: Plan) -> None:
        self._model, self._graph, self._plan = model, model.graph, plan
        self._names = ir.Names(model)
        self._nodes = {str(node.name): node for node in model.graph}
        self._quantized: dict[ir.Value, Sequence[ir.Value]] = {}
        self._weights: dict[tuple[str, bool, Quantization], tuple[ir.Value, ir.Value]] = {}
        self._made: list[ir.Node] = []

    def write(self, sites: Sequence[WeightSite]) -> None:
        """One node. Its kernel keeps the node's name, by which its time is told later."""
        node = self._nodes[sites[0].node]
        if node.op_type == "LSTM":
            found = {site.index: self._plan.weights[site.node, site.index] for site in sites}
            write_lstm(self._model, node, found, self._names)
        else:
            self._write_product(sites[0], node)

    def _write_product(self, site: WeightSite, node: ir.Node) -> None:
        output, name = node.outputs[0], str(node.name)
        real, shape = ir.DataType.FLOAT, output.shape
        bias = node.inputs[_BIAS] if len(node.inputs) > _BIAS else None
        self._names.read()
        self._made = []
        levels, scale, zero = self._read_quantized(node)
        weight, weight_scales = self._stored(site)
        product = self._append("MatMulInteger", [levels, weight, zero], f"{name}_int32", ir.DataType.INT32, shape)
        kernel = self._made[-1]
        as_float = self._append("Cast", [product], f"{name}_float", real, shape, {"to": int(real)})
        factors = self._append("Mul", [scale, weight_scales], f"{name}_scales", real, weight_scales.shape)
        result = self._append("Mul", [as_float, factors], f"{name}_scaled", real, shape)
        if bias is not None:
            result = self._append("Add", [result, bias], f"{name}_biased", real, shape)
        for made in self._made:
            ir.set_origin(made, [node])
        ir.replace_nodes(self._graph, [node], output, self._made, result)
        kernel.name = name

    def _read_quantized(self, node: ir.Node) -> Sequence[ir.Value]:
        """Levels, scale and zero point of what a node reads; several that read one value share its quantizer."""
        source = node.inputs[0]
        assert source is not None  # noqa: S101 - a required input
        if source not in self._quantized:
            # Named after the node, so that its time counts for the first of those that need it.
            wanted = [f"{node.name}_{kind}" for kind in ("quantized", "scale", "zero_point")]
            types = (ir.DataType.UINT8, ir.DataType.FLOAT, ir.DataType.UINT8)
            made = ir.make_node(
                "DynamicQuantizeLinear", [source], {}, num_outputs=3, name=self._names.fresh(f"{wanted[0]}_node")
            )
            for value, name, dtype in zip(made.outputs, wanted, types, strict=True):
                value.name, value.type, value.shape = self._names.fresh(name), ir.TensorType(dtype), ir.Shape([])
            made.outputs[0].shape = source.shape
            self._made.append(made)
            self._quantized[source] = made.outputs
        return self._quantized[source]

    def _stored(self, site: WeightSite) -> tuple[ir.Value, ir.Value]:
        """Levels of a weight, [rows, columns] as MatMulInteger reads it, and its scales."""
        found, node = self._plan.weights[site.node, site.index], self._nodes[site.node]
        columns_first = bool(ir.attribute(node, "transB", 0))
        read = node.inputs[site.index]
        source = None if read is None else constant_weight(read)
        assert read is not None  # noqa: S101 - a site is an input that is there
        assert source is not None  # noqa: S101 - and a constant: the model's, or one that a repair put there
        key = (str(source.name), site.transposed != columns_first, found)
        if key not in self._weights:
            levels = found.quantize(weight_array(read))
            levels = np.ascontiguousarray(levels.T if columns_first else levels)
            self._weights[key] = (
                ir.add_initializer(self._graph, self._names.fresh(f"{site.value}_quantized"), levels),
                ir.add_initializer(self._graph, self._names.fresh(f"{site.value}_scale"), found.scale),
            )
        return self._weights[key]

    def _append(
        self,
        op_type: str,
        inputs: Sequence[ir.Value],
        output: str,
        dtype: ir.DataType,
        shape: ir.Shape | None,
        attributes: Mapping[str, int] | None = None,
    ) -> ir.Value:
        node = ir.make_node(op_type, inputs, attributes or {}, name=self._names.fresh(f"{output}_node"))
        value = node.outputs[0]
        value.name, value.type, value.shape = self._names.fresh(output), ir.TensorType(dtype), shape
        self._made.append(node)
        return value

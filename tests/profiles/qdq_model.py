"""Small Q/DQ models, one op each, written by the rules of a dialect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from infer_opt.profiles import Dialect

SCALE = 0.05


@dataclass(frozen=True)
class Case:
    """One op on quantized inputs: shapes of its activations, its weight, its integer or float operands."""

    inputs: tuple[tuple[int, ...], ...]
    weight: tuple[int, ...] = ()
    axis: int = 0  # the output channel of the weight
    operands: tuple[np.ndarray | None, ...] = ()  # further constant inputs; None is an input left out
    attributes: dict[str, object] = field(default_factory=dict)
    outputs: int = 1
    kernel: str = ""  # op type in the optimised graph; the op's own where the kernel takes integers as they are
    bias: bool = False


class QdqModel:
    """A model under construction, written by the rules of a dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.dtype = np.dtype(dialect.activation_dtype)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def constant(self, name: str, value: np.ndarray | np.generic) -> str:
        """Add a constant; returns its name."""
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def pair(self, name: str, scale: float, zero_point: int | None = None) -> str:
        """Quantize and dequantize an activation, from 0 up unless a zero point is given."""
        zero = np.iinfo(self.dtype).min if zero_point is None else zero_point
        scales = [
            self.constant(f"{name}_scale", np.float32(scale)),
            self.constant(f"{name}_zero", self.dtype.type(zero)),
        ]
        self.nodes.append(helper.make_node("QuantizeLinear", [name, *scales], [f"{name}_q"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *scales], [f"{name}_dq"]))
        return f"{name}_dq"

    def weight_and_bias(self, case: Case) -> Iterator[str]:
        """The dequantized weight, per channel, and the bias as the dialect writes it."""
        if not case.weight:
            return
        top = 2 ** (self.dialect.weight_bits - 1) - 1
        values = self.random.integers(-top, top, case.weight, endpoint=True).astype(np.int8)
        scales = np.linspace(0.001, 0.002, case.weight[case.axis], dtype=np.float32)
        yield self.dequantized("weight", values, scales, case.axis)
        if not case.bias:
            return
        if self.dialect.bias == "float":
            yield self.constant("bias", np.full(scales.shape, 0.5, np.float32))
        else:
            steps = (0.5 / (SCALE * scales)).round().astype(np.int32)
            yield self.dequantized("bias", steps, np.float32(SCALE) * scales, 0)

    def dequantized(self, name: str, values: np.ndarray, scales: np.ndarray, axis: int) -> str:
        """A constant stored as integers."""
        parts = [
            self.constant(f"{name}_q", values),
            self.constant(f"{name}_scale", scales),
            self.constant(f"{name}_zero", np.zeros(scales.shape, values.dtype)),
        ]
        self.nodes.append(helper.make_node("DequantizeLinear", parts, [f"{name}_dq"], axis=axis))
        return f"{name}_dq"

    def finish(self, case: Case, results: Sequence[str], opset: int) -> onnx.ModelProto:
        """The model that gives `results`."""
        graph = helper.make_graph(
            self.nodes,
            "qdq",
            [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(case.inputs)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
            self.constants,
        )
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def qdq_model(
    dialect: Dialect,
    op: str,
    case: Case,
    *,
    opset: int = 17,
    output_scale: float = SCALE,
    zero_point: int | None = None,
    activation: str | None = None,
) -> onnx.ModelProto:
    """`op` between quantizers, with an activation behind it where one is named (Clip cuts at 0 and 6)."""
    model = QdqModel(dialect)
    read = [model.pair(f"x{i}", SCALE * (i + 1), zero_point) for i in range(len(case.inputs))]
    read += model.weight_and_bias(case)
    for i, operand in enumerate(case.operands):
        read.append("" if operand is None else model.constant(f"operand{i}", operand))
    written = [f"y{i}" for i in range(case.outputs)]
    attributes = case.attributes
    if op.startswith("Reduce") and opset < 18:  # the axes became an input at opset 18
        read, attributes = read[:1], {"axes": [2, 3]}
    model.nodes.append(helper.make_node(op, read, written, name="op", **attributes))
    if activation:
        clip = [model.constant("low", np.float32(0)), model.constant("high", np.float32(6))]
        model.nodes.append(helper.make_node(activation, [*written, *(clip if activation == "Clip" else [])], ["act"]))
        written = ["act"]
    if dialect.output_q:
        written = [model.pair(name, output_scale, zero_point) for name in written]
    return model.finish(case, written, opset)

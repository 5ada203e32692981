"""Exports with channels last come out with channels first: a network as tf2onnx writes it without its optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from infer_opt import ir
from infer_opt.passes import Pipeline
from tests.onnx_text import load, run

TO_FIRST, TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]
PIPELINE = Pipeline.parse("legalize,simplify,fuse")


class Export:
    """A graph whose images have their channels last, each convolution between two Transposes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def node(self, op: str, inputs: Sequence[str], **attributes: object) -> str:
        """A new node; its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], f"{op}_{len(self.nodes)}", **attributes))
        return name

    def weight(self, *shape: int, scale: float = 0.3) -> str:
        """A random initializer."""
        return self.constant((self._random.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, array: np.ndarray) -> str:
        """An initializer."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def conv(self, x: str, channels: int, out: int, *, depthwise: bool = False, stride: int = 1) -> str:
        """A Conv with its batch normalisation as Mul and Add on the last axis, and Relu6."""
        size = 3 if depthwise else 1
        if stride == 2:  # SAME of TensorFlow pads behind only
            x = self.node("Pad", [x, self.constant(np.array([0, 0, 0, 0, 0, 1, 1, 0]))])
        pads = [1, 1, 1, 1] if depthwise and stride == 1 else [0, 0, 0, 0]
        first = self.node("Transpose", [x], perm=TO_FIRST)
        kernel = self.weight(out, 1 if depthwise else channels, size, size)
        attributes = {"group": channels if depthwise else 1, "pads": pads, "strides": [stride, stride]}
        last = self.node("Transpose", [self.node("Conv", [first, kernel], **attributes)], perm=TO_LAST)
        scaled = self.node("Mul", [last, self.weight(out)])
        shifted = self.node("Add", [scaled, self.weight(1, 1, 1, out)])
        return self.node("Clip", [shifted, self.constant(np.float32(0)), self.constant(np.float32(6))])

    def excited(self, x: str, channels: int) -> str:
        """Squeeze and excitation."""
        mean = self.node("ReduceMean", [x], axes=[1, 2], keepdims=1)
        first = self.node("Transpose", [mean], perm=TO_FIRST)
        gate = self.node("Conv", [first, self.weight(channels, channels, 1, 1)])
        return self.node("Mul", [x, self.node("Sigmoid", [self.node("Transpose", [gate], perm=TO_LAST)])])

    def model(self, output: str, shape: Sequence[int | str], batch: int | str) -> onnx.ModelProto:
        """Of images of 16x16 with three channels."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 16, 16, 3])
        y = helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, *shape])
        graph = helper.make_graph(self.nodes, "export", [x], [y], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def classifier(batch: int | str) -> onnx.ModelProto:
    """Inverted residuals, excitation, and a Dense layer behind the mean over the image."""
    export = Export()
    x = export.conv("x", 3, 8)
    for stride in (2, 1):
        wide = export.conv(x, 8, 16)
        deep = export.excited(export.conv(wide, 16, 16, depthwise=True, stride=stride), 16)
        narrow = export.conv(deep, 16, 8)
        x = export.node("Add", [x, narrow]) if stride == 1 else narrow
    mean = export.node("ReduceMean", [x], axes=[1, 2], keepdims=0)
    product = export.node("MatMul", [mean, export.weight(8, 5)])
    return export.model(export.node("Softmax", [export.node("Add", [product, export.weight(5)])], axis=-1), [5], batch)


def segmenter(batch: int | str) -> onnx.ModelProto:
    """A U: smaller and larger again, joined along the channels; its output has them last."""
    export = Export()
    whole = export.conv("x", 3, 8)
    half = export.conv(export.conv(whole, 8, 8, depthwise=True, stride=2), 8, 16)
    scales = export.constant(np.array([1, 2, 2, 1], np.float32))
    back = export.node("Resize", [half, export.constant(np.zeros(0, np.float32)), scales], mode="nearest")
    joined = export.node("Concat", [whole, back], axis=3)
    return export.model(export.conv(joined, 24, 4), [16, 16, 4], batch)


@pytest.mark.parametrize("batch", [2, "N"])
@pytest.mark.parametrize(
    ("make", "transposes", "operators"),
    [(classifier, 1, {"Conv", "Clip", "Add", "Mul", "Sigmoid"}), (segmenter, 2, {"Conv", "Clip", "Resize", "Concat"})],
    ids=["classifier", "segmenter"],
)
def test_only_the_transposes_at_the_ends_are_left(
    make: object, transposes: int, operators: set[str], batch: int | str, tmp_path: Path
) -> None:
    """One where the images come in, one where they go out; pads and normalisations are in the convolutions."""
    assert callable(make)
    proto = make(batch)
    before = load(proto, tmp_path)
    after, _ = PIPELINE.run(before)
    kinds = [node.op_type for node in after.graph]
    assert kinds.count("Transpose") == transposes
    assert set(kinds) - {"Transpose", "ReduceMean", "Gemm", "Softmax"} <= operators
    assert "Pad" not in kinds
    feed = {"x": np.random.default_rng(1).standard_normal((2, 16, 16, 3)).astype(np.float32)}
    [expected], [actual] = run(ir.serialize(before), feed), run(ir.serialize(after), feed)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)

"""Counts against figures worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from infer_opt import ir

FLOAT = TensorProto.FLOAT


def load(
    folder: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    weights: Mapping[str, np.ndarray | np.generic],
    outputs: tuple[str, ...] = ("y",),
) -> ir.Model:
    """A model of these nodes, read back as a user's would be."""
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    path = folder / "case.onnx"
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    model = ir.load(path)
    ir.infer_shapes(model, outputs=True)
    return model


def ones(*shape: int) -> np.ndarray:
    """A weight without any zero."""
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    ("node", "x", "w", "expected"),
    [
        # 16 channels of 8x8 outputs, each over 3 channels of 3x3
        (helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4), [1, 3, 8, 8], (16, 3, 3, 3), 16 * 64 * 27),
        # stride 2: a quarter of the outputs
        (
            helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4, strides=[2, 2]),
            [1, 3, 8, 8],
            (16, 3, 3, 3),
            16 * 16 * 27,
        ),
        # depthwise: one input channel for each output channel; two samples
        (
            helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4, group=6),
            [2, 6, 8, 8],
            (6, 1, 3, 3),
            2 * 6 * 64 * 9,
        ),
        (helper.make_node("Conv", ["x", "w"], ["y"]), [1, 4, 10], (5, 4, 3), 5 * 8 * 12),
        # every one of 3x4x4 inputs meets 5 channels of 2x2 weights
        (helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2]), [1, 3, 4, 4], (3, 5, 2, 2), 48 * 20),
        (helper.make_node("MatMul", ["x", "w"], ["y"]), [2, 7, 12], (12, 5), 2 * 7 * 5 * 12),
        (helper.make_node("MatMul", ["x", "w"], ["y"]), [12], (12, 5), 60),
        (helper.make_node("Gemm", ["x", "w"], ["y"]), [7, 12], (12, 5), 7 * 5 * 12),
        (helper.make_node("Gemm", ["x", "w"], ["y"], transA=1, transB=1), [12, 7], (5, 12), 7 * 5 * 12),
    ],
    ids=["conv", "strides", "depthwise", "conv1d", "transpose", "matmul", "vector", "gemm", "gemm transposed"],
)
def test_multiply_adds(tmp_path: Path, node: onnx.NodeProto, x: list[int], w: tuple[int, ...], expected: int) -> None:
    """One operator at a time."""
    model = load(tmp_path, [node], {"x": x}, {"w": ones(*w)})
    assert ir.multiply_adds(model) == ir.Work(expected, ())


def test_the_product_of_two_activations(tmp_path: Path) -> None:
    """Attention's MatMul has no weight and counts all the same."""
    model = load(tmp_path, [helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": [2, 3, 8], "b": [2, 8, 5]}, {})
    assert ir.multiply_adds(model).multiply_adds == 2 * 3 * 5 * 8


def test_what_is_not_fixed_is_named(tmp_path: Path) -> None:
    """Dynamic shapes and bodies of control flow are unknown by node; everything else is counted."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["f", "v"], ["z"], "inside")],
        "body",
        [],
        [helper.make_tensor_value_info("z", FLOAT, None)],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["d"], "dynamic"),
        helper.make_node("MatMul", ["f", "v"], ["e"], "fixed"),
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body),
    ]
    weights = {"w": ones(4, 4), "v": ones(4, 5), "c": np.array(1, bool)}
    model = load(tmp_path, nodes, {"x": ["n", 4], "f": [3, 4]}, weights, ("d", "e", "y"))
    work = ir.multiply_adds(model)
    assert work.multiply_adds == 3 * 5 * 4
    assert work.unknown[0] == "dynamic"
    assert len(work.unknown) == 3


def test_operators_are_counted_everywhere(tmp_path: Path) -> None:
    """By name, with the domain where it is not the standard's; most frequent first, then by name."""
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["z"])], "body", [], [helper.make_tensor_value_info("z", FLOAT, None)]
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Gelu", ["a"], ["b"], domain="com.microsoft"),
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body),
    ]
    model = load(tmp_path, nodes, {"x": [1]}, {"c": np.array(1, bool)}, ("b", "y"))
    assert list(ir.operators(model).items()) == [("Relu", 3), ("If", 1), ("com.microsoft::Gelu", 1)]


def test_what_is_stored(tmp_path: Path) -> None:
    """Initializers and Constant nodes, by element type; int4 takes half a byte."""
    half = numpy_helper.from_array(np.ones(6, np.float16), "h")
    nodes = [
        helper.make_node("Constant", [], ["h"], value=half),
        helper.make_node("Cast", ["h"], ["g"], to=FLOAT),
        helper.make_node("DequantizeLinear", ["q", "s"], ["d"]),
        helper.make_node("Add", ["x", "w"], ["y"]),
    ]
    weights = {"w": ones(4), "s": np.float32(1), "q": np.array([1, 2, 3, 4, 5]).astype(ml_dtypes.int4)}
    model = load(tmp_path, nodes, {"x": [4]}, weights, ("y", "g", "d"))
    assert ir.stored(model) == ir.Stored(4 + 1 + 6 + 5, {"float": 20, "float16": 12, "int4": 3})


SPARSE = np.tile(np.array([0, 1, 0, 2], np.float32), 2)  # two groups of 2:4
DENSE = np.tile(np.array([0, 1, 3, 2], np.float32), 2)  # one zero in four is not enough


@pytest.mark.parametrize(
    ("node", "x", "w", "groups", "sparse"),
    [
        (helper.make_node("Conv", ["x", "w"], ["y"]), [1, 8, 1, 1], np.stack([SPARSE, DENSE])[:, :, None, None], 4, 2),
        (helper.make_node("Gemm", ["x", "w"], ["y"], transB=1), [1, 8], np.stack([SPARSE, DENSE]), 4, 2),
        (helper.make_node("Gemm", ["x", "w"], ["y"]), [1, 8], np.stack([SPARSE, SPARSE], axis=1), 4, 4),
        (helper.make_node("MatMul", ["x", "w"], ["y"]), [1, 8], np.stack([SPARSE, DENSE, DENSE], axis=1), 6, 2),
        (helper.make_node("ConvTranspose", ["x", "w"], ["y"]), [1, 8, 1, 1], SPARSE[:, None, None, None], 2, 2),
        # two groups of four input channels each: the four do not reach over the border
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=2),
            [1, 8, 1, 1],
            SPARSE[:, None, None, None],
            2,
            2,
        ),
        # three input channels are no four; the same numbers along the outputs do not count
        (helper.make_node("Conv", ["x", "w"], ["y"]), [1, 3, 1, 1], np.zeros((8, 3, 1, 1), np.float32), 0, 0),
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=4),
            [1, 8, 1, 1],
            SPARSE[:, None, None, None],
            0,
            0,
        ),
        (helper.make_node("MatMul", ["x", "w"], ["y"]), [8], SPARSE, 0, 0),
    ],
    ids=["conv", "gemm transB", "gemm", "matmul", "transpose", "transpose grouped", "few", "few grouped", "vector"],
)
def test_sparsity(tmp_path: Path, node: onnx.NodeProto, x: list[int], w: np.ndarray, groups: int, sparse: int) -> None:
    """Groups of four along the input channels, on whichever axis they lie."""
    found = ir.sparsity(load(tmp_path, [node], {"x": x}, {"w": np.ascontiguousarray(w)}))
    assert found == ir.Sparsity(groups, sparse)
    assert found.share == (sparse / groups if groups else None)


@pytest.mark.parametrize(("zero_point", "groups"), [(0, 2), (3, 0)])
def test_quantized_weights_count_where_zero_is_zero(tmp_path: Path, zero_point: int, groups: int) -> None:
    """Behind a DequantizeLinear; with another zero point a stored 0 is not a weight of 0."""
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"]),
        helper.make_node("Gemm", ["x", "w"], ["y"], transB=1),
    ]
    weights = {"q": SPARSE[None].astype(np.int8), "s": np.float32(0.1), "z": np.int8(zero_point)}
    found = ir.sparsity(load(tmp_path, nodes, {"x": [1, 8]}, weights))
    assert found == ir.Sparsity(groups, groups)

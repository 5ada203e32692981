"""Ranges found at run time: the operators that are written, by the ONNX specification, and onnxruntime's kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from infer_opt import ir
from infer_opt.calibrate.plan import DYNAMIC, INT8
from infer_opt.calibrate.planner import dynamic_plan, float_plan
from infer_opt.profiles import Dialect
from infer_opt.targets.dynamic import write_dynamic
from infer_opt.targets.qdq import write_qdq
from infer_opt.targets.regions import find_regions
from tests.targets.networks import Network, for_any_host, normal, optimized, profile, run, sqnr

X86 = for_any_host("x86-avx512-vnni").dialect
EIGHT_BITS = profile("x86-avx512-vnni").dialect
assert X86 is not None
assert EIGHT_BITS is not None
W, T, B = normal(16, 8, scale=0.3), normal(8, 16, seed=1, scale=0.3), normal(8, seed=2)


def on_matrix(body: str, outputs: str = "float[] y", **constants: np.ndarray) -> Network:
    """A net of one matrix."""
    return Network(f"net (float[5,16] x) => ({outputs}) {{ {body} }}", constants)


def written(network: Network, folder: Path, dialect: Dialect = X86) -> bytes:
    """The network with every region lowered that can find its range at run time."""
    model = network.load(folder)
    plan = dynamic_plan(model, find_regions(model, dialect, int8=True))
    return ir.serialize(write_dynamic(write_qdq(model, plan), plan))


def quantized_at_run_time(x: np.ndarray) -> tuple[np.ndarray, np.float32, np.uint8]:
    """DynamicQuantizeLinear by the ONNX specification, operator set 11: levels, scale, zero point."""
    low, high = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    scale = np.float32((high - low) / np.float32(255))
    zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), scale, zero


def by_the_formula(x: np.ndarray, weight: np.ndarray, reach: int) -> np.ndarray:
    """The product as MatMulInteger, Cast and Mul give it, weights [rows, columns] by the largest of each column."""
    levels, scale, zero = quantized_at_run_time(x)
    steps = np.abs(weight).max(axis=0) / reach
    integers = (levels.astype(np.int64) - zero) @ np.rint(weight / steps).astype(np.int64)
    return np.asarray(integers * (scale * steps.astype(np.float32)), np.float32)


@pytest.mark.parametrize("reach", [1e-3, 1.0, 70.0])
@pytest.mark.parametrize(
    ("op", "weight", "bias"),
    [("MatMul(x, w)", W, 0), ("Gemm(x, w)", W, 0), ("Gemm(x, w, b)", W, B), ("Gemm<transB=1>(x, t, b)", T.T, B)],
)
def test_numbers_are_those_of_the_formula(
    tmp_path: Path, op: str, weight: np.ndarray, bias: np.ndarray, reach: float
) -> None:
    """To float32's rounding, at any size of the input, which no samples told of."""
    used = {name: value for name, value in {"w": W, "t": T, "b": B}.items() if name in op.replace("transB", "")}
    x = (np.random.default_rng(3).uniform(-0.5, 1, (5, 16)) * reach).astype(np.float32)
    got = run(written(on_matrix(f"y = {op}", **used), tmp_path), {"x": x})["y"]
    expected = by_the_formula(x, weight, 63) + bias
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert sqnr(x @ weight + bias, got) > 30


@pytest.mark.parametrize(
    ("body", "outputs", "kernels"),
    [
        ("y = MatMul(x, w)", "float[] y", ["DynamicQuantizeMatMul"]),
        ("c = MatMul(x, w) y = Add(c, b)", "float[] y", ["DynamicQuantizeMatMul"]),
        ("y = Gemm(x, w, b)", "float[] y", ["DynamicQuantizeMatMul"]),
        ("y = Gemm<transB=1>(x, t, b)", "float[] y", ["DynamicQuantizeMatMul"]),
        (
            "y = MatMul(x, w) z = Gemm<transB=1>(x, t, b)",
            "float[] y, float[] z",
            ["DynamicQuantizeLinear", "MatMulIntegerToFloat", "MatMulIntegerToFloat"],
        ),
    ],
)
def test_onnxruntime_has_one_kernel_for_it(tmp_path: Path, body: str, outputs: str, kernels: list[str]) -> None:
    """The bias included; several products of one value share its quantizer."""
    used = {
        name: value
        for name, value in {"w": W, "t": T, "b": B}.items()
        if f"{name}" in body.replace("Mat", "").replace("trans", "")
    }
    assert optimized(written(on_matrix(body, outputs, **used), tmp_path), tmp_path) == kernels


def test_the_text(tmp_path: Path) -> None:
    """Node by node; the kernel keeps the name of the node, and the float weights are gone."""
    network = on_matrix("[head] y = Gemm<transB=1>(x, t, b)", t=T, b=B)
    model = onnx.load_from_string(written(network, tmp_path))
    assert [(node.op_type, node.name, list(node.input), list(node.output)) for node in model.graph.node] == [
        (
            "DynamicQuantizeLinear",
            "head_quantized_node",
            ["x"],
            ["head_quantized", "head_scale", "head_zero_point"],
        ),
        ("MatMulInteger", "head", ["head_quantized", "t_quantized", "head_zero_point"], ["head_int32"]),
        ("Cast", "head_float_node", ["head_int32"], ["head_float"]),
        ("Mul", "head_scales_node", ["head_scale", "t_scale"], ["head_scales"]),
        ("Mul", "head_scaled_node", ["head_float", "head_scales"], ["head_scaled"]),
        ("Add", "head_biased_node", ["head_scaled", "b"], ["y"]),
    ]
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert set(constants) == {"t_quantized", "t_scale", "b"}
    assert (constants["t_quantized"].shape, constants["t_quantized"].dtype) == ((16, 8), np.int8)
    assert np.abs(constants["t_quantized"]).max() == 63
    np.testing.assert_allclose(constants["t_quantized"].T * constants["t_scale"][:, None], T, atol=0.01)


def test_a_weight_that_two_nodes_read_is_stored_once_and_one_read_along_both_axes_twice(tmp_path: Path) -> None:
    """Levels of a square matrix differ with the axis of its scales."""
    square = normal(16, 16)
    once = on_matrix("a = MatMul(x, q) y = MatMul(a, q)", q=square)
    twice = on_matrix("a = MatMul(x, q) y = Gemm<transB=1>(a, q)", q=square)
    for network, count in ((once, 1), (twice, 2)):
        model = onnx.load_from_string(written(network, tmp_path))
        assert sum(tensor.data_type == onnx.TensorProto.INT8 for tensor in model.graph.initializer) == count


def test_a_table_that_is_looked_up_too_keeps_its_floats_and_gets_one_matrix(tmp_path: Path) -> None:
    """As embeddings that are also the last layer of a decoder, read through a Transpose, which goes."""
    text = "net (int64[3] i) => (float[] y) { e = Gather(t, i) m = Transpose<perm=[1,0]>(t) y = MatMul(e, m) }"
    table = normal(8, 16)
    model = onnx.load_from_string(written(Network(text, {"t": table}), tmp_path))
    assert [node.op_type for node in model.graph.node][:2] == ["Gather", "DynamicQuantizeLinear"]
    assert "Transpose" not in {node.op_type for node in model.graph.node}
    kept = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    assert kept == {"t": (8, 16), "t_quantized": (16, 8), "t_scale": (8,)}
    index = np.array([0, 5, 7])
    got = run(model.SerializeToString(), {"i": index})["y"]
    np.testing.assert_allclose(got, by_the_formula(table[index], table.T, 63), rtol=1e-5, atol=1e-4)


def test_a_transpose_that_others_read_stays(tmp_path: Path) -> None:
    """The product leaves it to them."""
    text = "net (float[5,16] x) => (float[] y, float[] z) { m = Transpose(t) y = MatMul(x, m) z = Add(m, m) }"
    model = onnx.load_from_string(written(Network(text, {"t": T}), tmp_path))
    assert {"Transpose", "Add"} <= {node.op_type for node in model.graph.node}


@pytest.mark.parametrize(
    "op",
    [
        "Gemm<transA=1>(q, w)",
        "Gemm<alpha=0.5>(x, w)",
        "Gemm<beta=0.5>(x, w, b)",
        "MatMul(w, r)",
        "MatMul(x, q)",
        "MatMul(x3, w3)",
        "Relu(x)",
    ],
)
def test_what_the_operators_cannot_say_stays_float(tmp_path: Path, op: str) -> None:
    """A turned or scaled Gemm, weights that are no constant matrix, and other operators."""
    text = f"net (float[5,16] x, float[16,5] q, float[8,2] r, float[2,5,16] x3) => (float[] y) {{ y = {op} }}"
    used = {name: value for name, value in {"w": W, "b": B, "w3": normal(2, 16, 8)}.items() if f"{name}" in op}
    if "w3" in used:
        used.pop("w")
    model = Network(text, used).load(tmp_path)
    [region] = find_regions(model, X86, int8=True)
    assert DYNAMIC not in region.precisions


def test_a_dialect_names_the_operators(tmp_path: Path) -> None:
    """Without them, or without INT8, nothing finds its range at run time."""
    model = on_matrix("y = MatMul(x, w)", w=W).load(tmp_path)
    assert X86 is not None
    for dialect, int8, expected in (
        (X86, True, ("fp32", INT8, DYNAMIC)),
        (replace(X86, dynamic_ops=()), True, ("fp32", INT8)),
        (X86, False, ("fp32",)),
    ):
        [region] = find_regions(model, dialect, int8=int8)
        assert region.precisions == expected


def test_a_weight_that_is_no_number_keeps_its_region_in_float(tmp_path: Path) -> None:
    """And the reason names it."""
    broken = W.copy()
    broken[3, 3] = np.nan
    model = on_matrix("y = MatMul(x, w)", w=broken).load(tmp_path)
    plan = dynamic_plan(model, find_regions(model, X86, int8=True))
    assert plan.lowered() == ()
    assert [choice.reason for choice in plan.choices.values()] == ["weight `w` holds NaN or infinite values"]


def test_a_float_plan_is_written_as_it_is(tmp_path: Path) -> None:
    """Nothing is touched where no region is lowered so."""
    network = on_matrix("y = MatMul(x, w)", w=W)
    model = network.load(tmp_path)
    plan = float_plan(find_regions(model, X86, int8=True))
    assert ir.serialize(write_dynamic(write_qdq(model, plan), plan)) == ir.serialize(write_qdq(model, plan))


def test_one_scale_serves_all_that_is_batched(tmp_path: Path) -> None:
    """So a small sample beside a large one loses accuracy, which the documents say."""
    data = written(on_matrix("y = MatMul(x, w)", w=W), tmp_path)
    small = np.random.default_rng(0).uniform(-1, 1, (5, 16)).astype(np.float32)
    mixed = small.copy()
    mixed[1:] *= 1000
    alone, beside = (run(data, {"x": x})["y"][0] for x in (small, mixed))
    assert sqnr(small[0] @ W, alone) > 30
    assert sqnr(small[0] @ W, beside) < 10

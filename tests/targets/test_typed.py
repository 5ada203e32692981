"""Graphs with dtypes written in: what is cast, once, and that interfaces, bodies and float ports stay as they are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from infer_opt import ir
from infer_opt.targets.rounding import rounded
from infer_opt.targets.typed import half_scheme, write_half
from tests.targets.networks import Network, normal, run, sqnr

CHAIN = Network(
    "net (float[2,4] x) => (float[2,4] y, float[2,4] z) { a = MatMul(x, w) b = Relu(a) y = Add(b, a) z = Exp(b) }",
    {"w": normal(4, 4)},
    opset=20,
)


def half(network: Network, folder: Path, *names: str) -> onnx.ModelProto:
    """The network with these nodes in FP16, named after their first output; all of them if none is named."""
    model = network.load(folder)
    opset = model.opset_imports[""]
    chosen = [
        str(node.name)
        for node in model.graph
        if ir.half_ports(node, opset) and (not names or node.outputs[0].name in names)
    ]
    written = onnx.load_from_string(ir.serialize(write_half(model, chosen)))
    onnx.checker.check_model(written, full_check=True)
    return written


def operators(model: onnx.ModelProto) -> Counter[str]:
    """How many nodes of each operator."""
    return Counter(node.op_type for node in model.graph.node)


def dtypes(model: onnx.ModelProto) -> dict[str, int]:
    """Element types that onnx infers, by value, constants included."""
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    found = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output, *graph.input)}
    return found | {tensor.name: tensor.data_type for tensor in graph.initializer}


def test_all_in_half_casts_at_the_ends_only(tmp_path: Path) -> None:
    """One Cast for each input and output; the interface is as it was."""
    written = half(CHAIN, tmp_path)
    assert operators(written) == {"Cast": 3, "MatMul": 1, "Relu": 1, "Add": 1, "Exp": 1}
    assert [value.name for value in written.graph.output] == ["y", "z"]
    found = dtypes(written)
    assert {found[name] for name in ("x", "y", "z")} == {TensorProto.FLOAT}
    assert {found[name] for name in ("a", "b", "y_half", "z_half", "w_half")} == {TensorProto.FLOAT16}
    assert [tensor.name for tensor in written.graph.initializer] == ["w_half"]
    feed = {"x": normal(2, 4, seed=1)}
    for name, value in CHAIN.run(feed).items():
        assert 50 < sqnr(value, run(written.SerializeToString(), feed)[name]) < 90


def test_a_value_is_cast_once_for_all_its_readers(tmp_path: Path) -> None:
    """Two readers in float32 of one FP16 value share a Cast, and nothing is cast there and back."""
    written = half(CHAIN, tmp_path, "a", "b")
    casts = [node for node in written.graph.node if node.op_type == "Cast"]
    assert sorted(node.input[0] for node in casts) == ["a", "b", "x"]
    assert not {node.output[0] for node in casts} & {node.input[0] for node in casts}


def test_nothing_chosen_changes_nothing(tmp_path: Path) -> None:
    """The same graph."""
    model = CHAIN.load(tmp_path)
    before = ir.text(model)
    assert ir.text(write_half(model, ())) == before


def test_a_constant_that_both_read_is_there_in_both(tmp_path: Path) -> None:
    """FP16 for one reader, float32 for the other."""
    network = Network("net (float[4] x) => (float[4] y) { a = Add(x, w) y = Mul(a, w) }", {"w": normal(4)}, opset=20)
    found = dtypes(half(network, tmp_path, "a"))
    assert (found["w"], found["w_half"]) == (TensorProto.FLOAT, TensorProto.FLOAT16)


def test_scales_of_a_resize_stay_float32(tmp_path: Path) -> None:
    """By the standard; sizes stay integers, and an empty input stays empty."""
    network = Network(
        'net (float[1,1,2,2] x) => (float[1,1,4,4] y) { r = Resize<mode="linear">(x, , s) y = Resize(r, , , n) }',
        {"s": np.array([1, 1, 2, 2], np.float32), "n": np.array([1, 1, 4, 4], np.int64)},
        opset=20,
    )
    written = half(network, tmp_path)
    assert dtypes(written)["s"] == TensorProto.FLOAT
    assert dtypes(written)["r"] == TensorProto.FLOAT16


def test_dtypes_that_stand_in_attributes_follow(tmp_path: Path) -> None:
    """A Cast from integers and a ConstantOfShape give FP16 at once."""
    network = Network(
        """net (int64[3] i) => (float[3] y) {
            f = Cast<to=1>(i) s = Shape(f) c = ConstantOfShape<value = float[1] {0.25}>(s) y = Add(f, c)
        }""",
        opset=20,
    )
    written = half(network, tmp_path)
    assert operators(written)["Cast"] == 2
    np.testing.assert_array_equal(run(written.SerializeToString(), {"i": np.arange(3)})["y"], [0.25, 1.25, 2.25])


@pytest.mark.parametrize("flag", [True, False])
def test_bodies_read_what_they_take_from_outside_in_float32(tmp_path: Path, flag: bool) -> None:  # noqa: FBT001
    """Two branches that read an outer activation; the activation is FP16."""
    network = Network(
        """net (bool c, float[2] x) => (float[2] y) {
            a = Relu(x)
            o = If (c) <
                then_branch = g () => (float[2] t) { t = Neg(a) },
                else_branch = h () => (float[2] e) { e = Identity(a) }
            >
            y = Mul(o, o)
        }""",
        opset=20,
    )
    written = half(network, tmp_path)
    assert operators(written)["If"] == 1
    feed = {"c": np.array(flag), "x": np.array([-1, 3], np.float32)}
    np.testing.assert_array_equal(run(written.SerializeToString(), feed)["y"], [0, 9])


def test_fp16_of_the_model_stays(tmp_path: Path) -> None:
    """What came in FP16 is none of our doing, and no reader of it gets a Cast."""
    network = Network(
        "net (float16[2] x, float[2] z) => (float16[2] y, float[2] q) { y = Neg(x) q = Neg(z) }", opset=20
    )
    written = half(network, tmp_path, "q")
    assert operators(written) == {"Neg": 2, "Cast": 2}


def test_a_scheme_lists_what_would_be_half(tmp_path: Path) -> None:
    """Values by name, constants included; none for what computes on integers."""
    nodes = list(CHAIN.load(tmp_path).graph)
    scheme = half_scheme(nodes[:2], 20)
    assert scheme is not None
    assert (scheme.precision, scheme.reads, scheme.writes) == ("fp16", ("x", "w", "a"), ("a", "b"))
    assert scheme.activations is None
    integers = Network("net (int64[4] x) => (int64[4] y) { y = Add(x, x) }").load(tmp_path)
    assert half_scheme(list(integers.graph), 20) is None


SQUARES = Network("net (float[3] x) => (float[3] y) { a = Mul(x, x) y = Div(a, x) }", opset=20)
LARGE = np.array([300.0, 3.14159265, 1e-5], np.float32)


def test_rounding_is_what_fp16_gives(tmp_path: Path) -> None:
    """Overflow, digits and underflow as numpy's float16 has them, bit for bit."""
    model = write_half(SQUARES.load(tmp_path), [f"{op}:{out}" for op, out in (("Mul", "a"), ("Div", "y"))])
    got = run(ir.serialize(rounded(model)), {"x": LARGE})["y"]
    with np.errstate(over="ignore"):
        exact = LARGE.astype(np.float16)
        expected = ((exact * exact) / exact).astype(np.float32)
    np.testing.assert_array_equal(got, expected)
    assert np.isinf(got[0])
    assert got[2] == 0


def test_onnxruntime_alone_would_not_round(tmp_path: Path) -> None:
    """Why there is a copy that does: the day this fails, the copy can go."""
    model = write_half(SQUARES.load(tmp_path), [f"{op}:{out}" for op, out in (("Mul", "a"), ("Div", "y"))])
    assert np.isfinite(run(ir.serialize(model), {"x": LARGE})["y"]).all()


def test_rounding_covers_casts_constants_and_fillings(tmp_path: Path) -> None:
    """Integers above 2048, a constant of many digits, and a ConstantOfShape."""
    network = Network(
        """net (int64[2] i) => (float[2] y, float[2] z) {
            f = Cast<to=1>(i) s = Shape(f) c = ConstantOfShape<value = float[1] {0.1}>(s) y = Add(f, c) z = Mul(w, c)
        }""",
        {"w": np.array([0.1, 0.3], np.float32)},
        opset=20,
    )
    model = network.load(tmp_path)
    write_half(model, [str(node.name) for node in model.graph if node.op_type != "Shape"])
    got = run(ir.serialize(rounded(model)), {"i": np.array([2049, 7])})
    tenth, weights = np.float16(0.1), np.array([0.1, 0.3], np.float16)
    np.testing.assert_array_equal(got["y"], (np.array([2049, 7], np.float16) + tenth).astype(np.float32))
    np.testing.assert_array_equal(got["z"], (weights * tenth).astype(np.float32))


def test_a_model_of_another_interface_is_run_as_it_is(tmp_path: Path) -> None:
    """FP16 inputs: nothing of it is rewritten."""
    model = Network("net (float16[2] x) => (float16[2] y) { y = Neg(x) }", opset=20).load(tmp_path)
    assert rounded(model) is model

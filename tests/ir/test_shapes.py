"""Shapes and dtypes: inferred through constants, branches and symbols, and never taken from the file."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from tests.onnx_text import load

Dims = tuple[int | str | None, ...] | None


def dims_of(text: str, name: str, folder: Path) -> Dims:
    """Inferred dimensions of a value anywhere in a model."""
    model = load(text, folder)
    values = [value for graph in model.graphs() for node in graph for value in node.outputs]
    values += [value for graph in model.graphs() for value in graph.inputs]
    return ir.dims(next(value for value in values if value.name == name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("m (float[N,3] x) => (float[A,B] y) { t = Relu(x)  y = Neg(t) }", ("N", 3), id="symbol"),
        pytest.param(
            "m (float[N,3,H,W] x, float[8,3,3,3] w) => (float[A,B,C,D] y) { t = Conv(x, w)  y = Neg(t) }",
            ("N", 8, None, None),
            id="unknown",
        ),
        pytest.param(
            "m (float[N,6] x) => (float[A,B] y) <int64[2] s = {-1, 2}> { t = Reshape(x, s)  y = Neg(t) }",
            (None, 2),
            id="small constant",
        ),
        pytest.param(
            "m (float[K] x, float[N,6] z) => (float[A,B] y) { s = Shape(z)  t = Reshape(x, s)  y = Neg(t) }",
            ("N", 6),
            id="computed shape",
        ),
        pytest.param(
            """m (float[N] x, bool p) => (float[A] y) {
                 y = If(p) <then_branch = g () => (float[B] a) { t = Relu(x)  a = Neg(t) },
                            else_branch = h () => (float[C] b) { b = Neg(x) }> }""",
            ("N",),
            id="branch",
        ),
    ],
)
def test_dimensions_are_inferred(text: str, expected: Dims, tmp_path: Path) -> None:
    """A size that follows from the input's stays a symbol, one that nobody knows has a made-up one or none."""
    found = dims_of(text, "t", tmp_path)
    assert found is not None
    known = tuple(None if isinstance(dim, str) and dim.startswith("unk__") else dim for dim in found)
    assert known == expected


def test_the_state_of_a_loop_has_the_shape_its_body_declares(tmp_path: Path) -> None:
    """Not that of the first turn, which it may outgrow."""
    text = """m (float[1] x, int64 n, bool go) => (float[M] y) {
        y = Loop(n, go, x) <body = l (int64 i, bool r, float[K] s) => (bool f, float[L] e) {
            f = Identity(r)  e = Concat<axis = 0>(s, s) }> }"""
    assert dims_of(text, "s", tmp_path) == ("K",)


def test_inputs_and_outputs_keep_what_the_file_declares(tmp_path: Path) -> None:
    """Even an output of which more is known."""
    model = load("m (float[2,3] x) => (float[A,B] y) { y = Relu(x) }", tmp_path)
    assert ir.interface(model).outputs[0].shape == ("A", "B")
    ir.infer_shapes(model, outputs=True)
    assert ir.interface(model).outputs[0].shape == (2, 3)


def test_large_weights_are_left_out_of_the_inference(tmp_path: Path) -> None:
    """Their dtype and shape are enough; 64 MiB of them are not copied."""
    model = load("m (float[N,4096] x, float[4096,4096] w) => (float[A,B] y) { t = MatMul(x, w)  y = Neg(t) }", tmp_path)
    model.graph.inputs.pop()
    weight = ir.constant_value("w", np.zeros((4096, 4096), np.float32))
    matmul = next(iter(model.graph))
    matmul.replace_input_with(1, weight)
    matmul.outputs[0].shape = None
    model.graph.register_initializer(weight)
    tracemalloc.start()
    ir.infer_shapes(model)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ir.dims(matmul.outputs[0]) == ("N", 4096)
    assert peak < 1 << 20


def test_long_vectors_cost_no_more_than_short_ones(tmp_path: Path) -> None:
    """A vector of a billion elements: onnx would otherwise make a dimension of each, and run out of memory."""
    text = """m (int64[1] i) => (float[1] y) <int64[1] s = {1000000000}> {
        a = ConstantOfShape<value = float[1] {3}>(s)  t = Gather(a, i)  y = Neg(t) }"""
    assert dims_of(text, "t", tmp_path) == (1,)


def test_shapes_in_numbers(tmp_path: Path) -> None:
    """Rank, elements and numpy dtype of fixed and of open values."""
    model = load("m (float16[2,3] x, float[N,3] z, int64 k) => (float16[2,3] y) { y = Relu(x) }", tmp_path)
    fixed, symbolic, scalar = model.graph.inputs
    assert [ir.dims(value) for value in (fixed, symbolic, scalar)] == [(2, 3), ("N", 3), ()]
    assert [ir.rank(value) for value in (fixed, symbolic, scalar, None)] == [2, 2, 0, None]
    assert [ir.elements(value) for value in (fixed, symbolic, scalar, None)] == [6, None, 1, None]
    assert [ir.numpy_dtype(value) for value in (fixed, scalar)] == [np.float16, np.int64]


def test_the_numpy_dtype_of_strings_and_of_nothing(tmp_path: Path) -> None:
    """Strings are objects; a value of unknown dtype has none."""
    model = load("m (string[2] x) => (string[2] y) { y = Identity(x) }", tmp_path)
    assert ir.numpy_dtype(model.graph.inputs[0]) == np.object_
    with pytest.raises(ValueError, match="the dtype of `v` is unknown"):
        ir.numpy_dtype(ir.Value(name="v"))

"""Evaluating a node on constants gives what onnxruntime gives, or nothing at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from tests.onnx_text import load


def results(text: str, folder: Path) -> list[np.ndarray] | None:
    """What the first node of a model gives."""
    model = load(text, folder)
    return ir.evaluate(next(iter(model.graph)), model.opset_imports)


def test_a_node_is_computed(tmp_path: Path) -> None:
    """With its attributes, in the dtype of its inputs."""
    text = """m (float[1] x) => (double[2,2] y)
        <double[2,2] a = {1, 2, 3, 4}, double[2,2] b = {1, 0, 0, 1}> { y = Gemm<alpha = 2.0, transA = 1>(a, b) }"""
    found = results(text, tmp_path)
    assert found is not None
    np.testing.assert_array_equal(found[0], np.array([[2, 6], [4, 8]], np.float64), strict=True)


def test_outputs_that_are_not_wanted_are_left_out(tmp_path: Path) -> None:
    """One array for each output that has a name."""
    text = """m (float[1] x) => (int64[2] i) <float[4] a = {1, 3, 1, 3}> { v, , i, c = Unique(a)  n = Add(v, v) }"""
    found = results(text, tmp_path)
    assert found is not None
    assert [array.tolist() for array in found] == [[1, 3], [0, 1, 0, 1], [2, 2]]


def test_empty_inputs_stay_empty(tmp_path: Path) -> None:
    """An optional input that is left out, between two that are there."""
    found = results(
        "m (float[1] x) => (float[2] y) <float[2] a = {1, 9}, float h = {3}> { y = Clip(a, , h) }", tmp_path
    )
    assert found is not None
    assert found[0].tolist() == [1, 3]


def test_one_constant_in_two_places(tmp_path: Path) -> None:
    """It is handed over once."""
    found = results("m (float[1] x) => (float[2] y) <float[2] a = {1, 9}> { y = Mul(a, a) }", tmp_path)
    assert found is not None
    assert found[0].tolist() == [1, 81]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("m (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { y = Add(x, a) }", id="an input"),
        pytest.param(
            "m (float[1] x) => (float[1] y) <float[2] a = {1, 2}, int64[1] i = {5}> { y = Gather(a, i) }", id="fails"
        ),
        pytest.param("m (float[1] x) => (float[2] y) <float[2] a = {1, 2}> { y = NoSuchOperator(a) }", id="unknown"),
        pytest.param("m (float[1] x) => (bfloat16[2] y) <float[2] a = {1, 2}> { y = Cast<to = 16>(a) }", id="bfloat16"),
        pytest.param("m (float[1] x) => (string[2] y) <float[2] a = {1, 2}> { y = Cast<to = 8>(a) }", id="to strings"),
        pytest.param('m (float[1] x) => (bool[1] y) <string[1] a = {"a"}> { y = Equal(a, a) }', id="of strings"),
        pytest.param(
            """m (float[1] x) => (float[1] y) <float[2] a = {1, 2}, int64 i = {0}> {
                 s = SplitToSequence(a)  y = SequenceAt(s, i) }""",
            id="a sequence",
        ),
    ],
)
def test_what_cannot_be_computed_gives_nothing(text: str, tmp_path: Path) -> None:
    """No exception of the runtime reaches the caller."""
    assert results(text, tmp_path) is None

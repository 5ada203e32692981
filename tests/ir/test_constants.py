"""Constants: what may be taken for one, and its content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from tests.onnx_text import load

TEXT = """m (float[2] x, float[1] d = {5}) => (float[2] y, string[1] s)
    <float[1,1] one = {3}, float[2] two = {1, 2}, bool yes = {1}, int64[1] whole = {7}, string[1] word = {"a"}> {
    t = Add(x, two)  u = Mul(t, d)  v = Mul(u, one)  y = Squeeze(v, whole)  s = Identity(word)  n = Not(yes) }"""


@pytest.fixture
def values(tmp_path: Path) -> dict[str, ir.Value]:
    """Initializers and inputs by name."""
    graph = load(TEXT, tmp_path).graph
    return {**graph.initializers, **{str(value.name): value for value in graph.inputs}}


def test_an_initializer_is_a_constant_unless_a_caller_may_replace_it(values: dict[str, ir.Value]) -> None:
    """Neither an input is one, nor an input with a default, nor nothing."""
    assert {name for name, value in values.items() if ir.is_constant(value)} == {"one", "two", "yes", "whole", "word"}
    assert not ir.is_constant(None)


def test_the_content_of_a_constant(values: dict[str, ir.Value]) -> None:
    """As an array, or None where there is none; `array` insists."""
    np.testing.assert_array_equal(ir.array(values["two"]), np.array([1, 2], np.float32))
    assert ir.constant(values["d"]) is None
    assert ir.constant(None) is None
    with pytest.raises(ValueError, match="`x` is not a constant"):
        ir.array(values["x"])


def test_a_scalar_is_the_only_element_whatever_the_rank(values: dict[str, ir.Value]) -> None:
    """Of its own kind; several elements, strings and values that are no constants give none."""
    found = {name: ir.scalar(value) for name, value in values.items()}
    assert found == {"one": 3.0, "two": None, "yes": True, "whole": 7, "word": None, "x": None, "d": None}
    assert ir.scalar(None) is None


def test_bytes_of_all_initializers(tmp_path: Path) -> None:
    """Those of branches and of defaults too; a string has as many as it has letters."""
    text = """m (float[N] x, bool p, double[2] d = {1, 2}) => (float[N] y)
        <int8[3] w = {1, 2, 3}, string[1] s = {"abcd"}> {
        y = If(p) <then_branch = g () => (float[N] t) <float16[5] c = {1, 2, 3, 4, 5}> { t = Relu(x) },
                   else_branch = h () => (float[N] e) { e = Neg(x) }> }"""
    assert ir.initializer_bytes(load(text, tmp_path)) == 16 + 3 + 4 + 10


def test_content_tells_tensors_apart() -> None:
    """Bit for bit, so negative zero is another number; strings by where they end."""
    zeros = [ir.tensor(np.array([number], np.float32)) for number in (0.0, -0.0)]
    words = [
        load_words(["a", "bc"]),
        load_words(["ab", "c"]),
    ]
    assert len({ir.content_bytes(tensor) for tensor in zeros}) == 2
    assert len({ir.content_bytes(tensor) for tensor in words}) == 2
    assert ir.content_bytes(zeros[0]) == bytes(4)


def load_words(words: list[str]) -> ir.TensorProtocol:
    """A tensor of strings."""
    return ir.tensor(words)

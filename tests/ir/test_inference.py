"""Inference of shapes: when there is something to infer, and whether it told anything new."""

from __future__ import annotations

from pathlib import Path

from infer_opt import ir
from tests.onnx_text import load

CHAIN = "m (float[N,4] x) => (float[N,4] y) { a = Relu(x) b = Neg(a) y = Abs(b) }"
OPEN = "m (float[N,4] x) => (float[K,4] y) { i = NonZero(x) y = Cast<to = 1>(i) }"


def test_nothing_is_open_where_every_dimension_is_a_number_or_of_the_file(tmp_path: Path) -> None:
    """A second inference has nothing to say then."""
    model = load(CHAIN, tmp_path)
    assert ir.shapes_known(model)
    assert not ir.infer_shapes(model)


def test_made_up_symbols_are_open(tmp_path: Path) -> None:
    """Inference had to invent one for the number of places that are not zero."""
    assert not ir.shapes_known(load(OPEN, tmp_path))


def test_a_lost_shape_is_open_and_found_again(tmp_path: Path) -> None:
    """And told to be new."""
    model = load(CHAIN, tmp_path)
    value = model.graph[1].outputs[0]
    value.shape = None
    assert not ir.shapes_known(model)
    assert ir.infer_shapes(model)
    assert ir.dims(value) == ("N", 4)


def test_the_model_itself_stays_as_it_is(tmp_path: Path) -> None:
    """Inference writes a copy; large constants, which it leaves out, are still there."""
    text = "m (float[N,600] x) => (float[N,600] y) { w = ConstantOfShape<value = float[1] {2}>(s) y = Mul(x, w) }"
    model = load(text.replace("{ w", "<int64[1] s = {600}> { w"), tmp_path)
    before = ir.text(model)
    ir.infer_shapes(model)
    assert ir.text(model) == before

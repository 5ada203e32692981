"""Which inputs and outputs of a node ONNX has in FP16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from tests.targets.networks import Network

CASES = {
    "MatMul": ("net (float[2,2] x) => (float[2,2] y) { y = MatMul(x, x) }", (0, 1), (0,)),
    # The scales of a Resize are float32 by the standard, its input is anything.
    "Resize": ("net (float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Resize(x, , s) }", (0,), (0,)),
    "Gather": ("net (float[4] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }", (0,), (0,)),
    "Concat": ("net (float[2] x, float[2] z) => (float[6] y) { y = Concat<axis=0>(x, z, x) }", (0, 1, 2), (0,)),
    "TopK": ("net (float[4] x, int64[1] k) => (float[2] y, int64[2] i) { y, i = TopK(x, k) }", (0,), (0,)),
    "Cast from integers": ("net (int64[4] x) => (float[4] y) { y = Cast<to=1>(x) }", (), (0,)),
    "Cast to integers": ("net (float[4] x) => (int64[4] y) { y = Cast<to=7>(x) }", (0,), ()),
    "Greater": ("net (float[4] x) => (bool[4] y) { y = Greater(x, x) }", (0, 1), ()),
    "Range": ("net (float x) => (float[N] y) { y = Range(x, x, x) }", (), ()),
    "Shape": ("net (float[4] x) => (int64[1] y) { y = Shape(x) }", (0,), ()),
    "integers": ("net (int64[4] x) => (int64[4] y) { y = Add(x, x) }", (), ()),
    "double": ("net (double[4] x) => (double[4] y) { y = Relu(x) }", (), ()),
    "random": ("net (float[4] x) => (float[4] y) { y = RandomNormalLike(x) }", (), ()),
    "quantizer": ("net (float[4] x, float s) => (uint8[4] y) { y = QuantizeLinear(x, s) }", (), ()),
    "another domain": ("net (float[4] x) => (float[4] y) { y = com.microsoft.Gelu(x) }", (), ()),
}


@pytest.mark.parametrize("case", CASES)
def test_the_standard_decides(tmp_path: Path, case: str) -> None:
    """By the type variables of the operator's schema."""
    text, inputs, outputs = CASES[case]
    (node,) = Network(text, opset=20).load(tmp_path).graph
    assert ir.half_ports(node, 20) == ir.HalfPorts(inputs, outputs)
    assert bool(ir.half_ports(node, 20)) == bool(inputs or outputs)


def test_bodies_are_left_alone(tmp_path: Path) -> None:
    """An If is not half, whatever its branches do."""
    text = """net (bool c, float[2] x) => (float[2] y) {
        y = If (c) <
            then_branch = g () => (float[2] a) { a = Relu(x) }, else_branch = h () => (float[2] b) { b = Neg(x) }
        >
    }"""
    (node,) = Network(text, opset=20).load(tmp_path).graph
    assert not ir.half_ports(node, 20)


def test_a_constant_of_no_stated_value_stays(tmp_path: Path) -> None:
    """ConstantOfShape without the attribute gives float32 by the standard."""
    plain = Network("net (int64[1] s) => (float[N] y) { y = ConstantOfShape(s) }", opset=20).load(tmp_path)
    assert not ir.half_ports(next(iter(plain.graph)), 20)
    stated = Network("net (int64[1] s) => (float[N] y) { y = ConstantOfShape<value = float[1] {0.25}>(s) }", opset=20)
    (node,) = stated.load(tmp_path).graph
    assert ir.half_ports(node, 20) == ir.HalfPorts((), (0,))
    assert np.isfinite(ir.attribute(node, "value").numpy()).all()

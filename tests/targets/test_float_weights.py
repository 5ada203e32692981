"""Weights that a plan keeps in float stay float in onnxruntime, whatever stands around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.calibrate.runner import Runner
from infer_opt.targets.float_weights import keep_float_weights
from tests.targets.networks import Network, normal

SCALES = {"s": np.float32(0.02), "z": np.uint8(128), "s2": np.float32(0.05)}
UNEVEN = normal(8, 1, 3, 3) * np.logspace(-3, 0, 8, dtype=np.float32).reshape(8, 1, 1, 1)
BODIES = {
    "Conv": ("Conv<group=8, pads=[1,1,1,1]>(d, w, b)", {"w": UNEVEN, "b": normal(8, scale=0.01)}),
    "Conv without a bias": ("Conv<group=8>(d, w)", {"w": UNEVEN}),
    "ConvTranspose": ("ConvTranspose<group=8>(d, w)", {"w": UNEVEN}),
}


def network(body: str, weights: dict[str, np.ndarray], shape: str = "1,8,8,8") -> Network:
    """A float operator between quantizers, as a plan leaves it that lowers its neighbours."""
    text = f"""net (float[{shape}] x) => (float[] y) {{
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) c = {body}
        r = QuantizeLinear(c, s2, z) y = DequantizeLinear(r, s2, z) }}"""
    return Network(text, {**SCALES, **weights})


def error(model: ir.Model, feed: dict[str, np.ndarray]) -> float:
    """Largest difference that onnxruntime's optimizations make."""
    exact = Runner(ir.serialize(model), "the model", optimized=False).run(feed)["y"]
    return float(np.abs(Runner(ir.serialize(model), "the model").run(feed)["y"] - exact).max())


@pytest.mark.parametrize("name", BODIES)
def test_float_weights_stay_float(tmp_path: Path, name: str) -> None:
    """At most one level of the output apart, and without optimizations the same graph to the last bit."""
    feed = {"x": normal(1, 8, 8, 8)}
    model = network(*BODIES[name]).load(tmp_path)
    ir.infer_shapes(model)
    kept = keep_float_weights(ir.clone(model))
    assert error(kept, feed) <= 0.051
    np.testing.assert_array_equal(
        Runner(ir.serialize(kept), "the model", optimized=False).run(feed)["y"],
        Runner(ir.serialize(model), "the model", optimized=False).run(feed)["y"],
    )


def test_a_gemm(tmp_path: Path) -> None:
    """Its columns are the channels."""
    body = "Gemm(d, w, b)"
    weights = {"w": normal(16, 4) * np.logspace(-3, 0, 4, dtype=np.float32), "b": normal(4, scale=0.01)}
    model = network(body, weights, "3,16").load(tmp_path)
    ir.infer_shapes(model)
    assert error(keep_float_weights(model), {"x": normal(3, 16)}) <= 0.051


def test_integer_weights_and_open_channels_are_left_alone(tmp_path: Path) -> None:
    """The first are meant to be integers, of the second nobody knows how many there are."""
    quantized = """net (float[1,8,8,8] x) => (float[] y) { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
        f = DequantizeLinear(w, s2) y = Conv<group=8>(d, f) }"""
    model = Network(quantized, {**SCALES, "w": np.ones((8, 1, 3, 3), np.int8)}).load(tmp_path)
    before = ir.text(model)
    assert ir.text(keep_float_weights(model)) == before
    unknown = network(*BODIES["Conv without a bias"], "1,C,8,8").load(tmp_path)
    before = ir.text(unknown)
    assert ir.text(keep_float_weights(unknown)) == before

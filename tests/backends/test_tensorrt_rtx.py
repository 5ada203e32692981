"""Typed graphs in the real TensorRT-RTX: parsed and built for GPUs that are not here. Run by `make test-backend`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir, targets
from infer_opt.calibrate.half import half_verdicts, with_half
from infer_opt.calibrate.planner import float_plan
from infer_opt.targets.rtx import rtx_verdict
from tests.conftest import BACKEND
from tests.targets.networks import Feeds, Network, int8_plan, normal, profile

pytestmark = pytest.mark.skipif(
    os.environ.get(BACKEND) != "tensorrt-rtx", reason="make test-backend BACKEND=tensorrt-rtx"
)

T4 = profile("t4")
NETWORK = Network(
    """net (float[1,16,32,32] x) => (float[] y) {
        [a] h = Conv<pads=[1,1,1,1]>(x, w, b) [s] i = HardSwish(h) [j] k = Concat<axis=1>(h, i)
        [c] m = Conv<pads=[1,1,1,1]>(k, u) [p] g = GlobalAveragePool(m) [f] l = Flatten(g)
        [q] z = MatMul(l, v) [t] y = Softmax(z) }""",
    {
        "w": normal(32, 16, 3, 3, scale=0.1),
        "b": normal(32),
        "u": normal(32, 64, 3, 3, seed=2, scale=0.1),
        "v": normal(32, 16, seed=3),
    },
    opset=20,
)


@pytest.mark.parametrize("name", ["t4", "a100", "a10g", "l4", "orin-nano"])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_typed_graphs_are_built(tmp_path: Path, name: str, precision: str) -> None:
    """For each GPU the builder knows, or the next lower one; the artifact says what was seen, and what was not."""
    device = profile(name)
    target, model = targets.create(device), NETWORK.load(tmp_path)
    regions = target.regions(model)
    plan = float_plan(regions)
    if precision == "int8":
        plan = replace(int8_plan(model, device, Feeds([{"x": normal(1, 16, 32, 32, seed=5)}])), regions=regions)
    plan = with_half(plan, half_verdicts(model, regions, None))
    artifact = target.emit(model, plan, tmp_path)
    assert artifact.checked == "built"
    [words] = [text for text in artifact.unchecked if text.startswith("TensorRT-RTX ")]
    assert "parsed and built it for SM" in words
    assert words.endswith("not the device's own engine")
    assert " HALF" in words
    assert (" INT8" in words) == (precision == "int8")


def test_open_sizes_are_built_at_1(tmp_path: Path) -> None:
    """And that is said."""
    network = Network("net (float[N,16] x) => (float[N,8] y) { y = MatMul(x, w) }", {"w": normal(16, 8)}, opset=20)
    target, model = targets.create(T4), network.load(tmp_path)
    regions = target.regions(model)
    artifact = target.emit(model, with_half(float_plan(regions), half_verdicts(model, regions, None)), tmp_path)
    assert artifact.checked == "built"
    assert any("with open sizes of 1 " in text for text in artifact.unchecked)


def test_what_the_parser_refuses_is_told(tmp_path: Path) -> None:
    """A zero point other than 0, which names and rules let pass."""
    text = "net (float[1,16] x) => (float[1,16] y) { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"
    network = Network(text, {"s": np.float32(0.1), "z": np.int8(3)}, opset=20)
    file = network.save(tmp_path)
    verdict = rtx_verdict(file, "7.5")
    assert verdict is not None
    assert verdict.checked == "rules"
    assert "does not parse it: " in verdict.words


def test_float32_products_do_not_build_for_turing(tmp_path: Path) -> None:
    """There is no such kernel for 7.5; for 8.0 there is."""
    network = Network("net (float[4,16] x) => (float[4,8] y) { y = MatMul(x, w) }", {"w": normal(16, 8)}, opset=20)
    file = tmp_path / "typed.onnx"
    ir.save(network.load(tmp_path), file)
    verdicts = [rtx_verdict(file, capability) for capability in ("7.5", "8.0")]
    assert [verdict.checked for verdict in verdicts if verdict] == ["rules", "built"]

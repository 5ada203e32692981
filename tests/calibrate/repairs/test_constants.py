"""Repaired constants in a graph: levels come back exactly, and biases appear where there were none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.calibrate.repairs.constants import bias_of, with_constants
from infer_opt.targets.qdq import write_qdq
from tests.targets.networks import Network, for_any_host, int8_plan, normal, run, sqnr, uniform_feeds

X86 = for_any_host("x86-avx512-vnni")
IMAGES = uniform_feeds(4, {"x": (1, 4, 6, 6)})
ROWS = uniform_feeds(4, {"x": (5, 8)})
CONSTANTS = {"w": normal(3, 4, 3, 3), "b": normal(3), "m": normal(8, 3), "s": np.float32([1])}


def test_levels_are_written_as_they_are(tmp_path: Path) -> None:
    """Every integer of the artifact's weight is the plan's."""
    network = Network("net (float[1,4,6,6] x) => (float[] y) { [c] y = Conv(x, w, b) }", CONSTANTS)
    model = network.load(tmp_path)
    plan = int8_plan(model, X86, IMAGES)
    lowest, highest = plan.weights["c", 1].format.limits()
    levels = np.random.default_rng(0).integers(lowest, highest + 1, (3, 4, 3, 3)).astype(np.int8)
    written = write_qdq(model, replace(plan, levels={("c", 1): levels}))
    arrays = [ir.array(value) for value in written.graph.initializers.values()]
    assert any(array.dtype == np.int8 and array.shape == levels.shape and (array == levels).all() for array in arrays)


@pytest.mark.parametrize(
    ("body", "feeds", "node"),
    [
        ("[c] y = Conv(x, w)", IMAGES, "c"),
        ("[c] y = Conv(x, w, b)", IMAGES, "c"),
        ("[g] y = Gemm(x, m)", ROWS, "g"),
        ("[g] y = Gemm(x, m, b)", ROWS, "g"),
        ("[m] p = MatMul(x, m) y = Add(p, b)", ROWS, "m"),
        ("[m] p = MatMul(x, m) y = Add(b, p)", ROWS, "m"),
    ],
)
def test_a_correction_is_added(body: str, feeds: object, node: str, tmp_path: Path) -> None:
    """By the float graph exactly, and by the INT8 artifact as well as INT8 does."""
    shape = "1,4,6,6" if feeds is IMAGES else "5,8"
    network = Network(f"net (float[{shape}] x) => (float[] y) {{ {body} }}", CONSTANTS)
    model = network.load(tmp_path)
    plan = int8_plan(model, X86, feeds)  # type: ignore[arg-type]
    corrected = replace(plan, biases={node: np.array([1.0, -2.0, 0.5])})
    feed = next(iter(feeds))  # type: ignore[call-overload]
    by_channel = np.reshape([1.0, -2.0, 0.5], (3, 1, 1) if feeds is IMAGES else (3,))
    expected = network.run(feed)["y"] + by_channel
    assert run(ir.serialize(with_constants(model, corrected)), feed)["y"] == pytest.approx(expected, abs=1e-5)
    wide = int8_plan(ir.clone(with_constants(model, corrected)), X86, feeds)  # type: ignore[arg-type]
    written = write_qdq(model, replace(corrected, activations=wide.activations))
    assert sqnr(expected, run(ir.serialize(written), feed)["y"]) > 25


@pytest.mark.parametrize(
    "body",
    ["[m] p = MatMul(x, m) y = Relu(p)", "[m] p = MatMul(x, m) y = Add(p, s)", "[m] y = MatMul(x, m) z = Add(y, b)"],
)
def test_no_place_for_a_correction(body: str, tmp_path: Path) -> None:
    """Nothing is added behind the product, no number a channel, or not all that read it would get it."""
    outputs = "float[] y, float[] z" if "z =" in body else "float[] y"
    network = Network(f"net (float[5,8] x) => ({outputs}) {{ {body} }}", CONSTANTS)
    assert bias_of(network.load(tmp_path).graph[0]) is None


def test_what_stays_float_is_left_alone(tmp_path: Path) -> None:
    """The repairs of regions that are not lowered are not written."""
    network = Network("net (float[1,4,6,6] x) => (float[] y) { [c] y = Conv(x, w, b) }", CONSTANTS)
    model = network.load(tmp_path)
    plan = int8_plan(model, X86, IMAGES)
    repaired = replace(plan, biases={"c": np.ones(3)})
    assert ir.serialize(write_qdq(model, repaired.only(()))) == ir.serialize(write_qdq(model, plan.only(())))
    assert ir.serialize(write_qdq(model, repaired)) != ir.serialize(write_qdq(model, plan))

"""Where factors of channels may move, and that a model computes the same to the bit when they have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.calibrate.repairs.channel_sites import find_sites, with_factors
from tests.targets.networks import Network, normal, run

FACTORS = np.exp2(np.arange(-4.0, 4.0))  # of eight channels
IMAGE = "net (float[2,3,9,9] x) => (float[] y)"
ROWS = "net (float[2,5,6] x) => (float[] y)"
TOKENS = "net (float[2,5,8] x) => (float[] y)"
W1, B1, W2, DEPTHWISE = normal(8, 3, 3, 3), normal(8, seed=1), normal(4, 8, 3, 3, seed=2), normal(8, 1, 3, 3, seed=3)
CONVS = {"w": W1, "b": B1, "v": W2}
MATRICES = {"w": normal(6, 8), "b": normal(8, seed=1), "v": normal(8, 4, seed=2)}

# By name: the graph, its constants, and between which nodes factors of which values move.
MOVES = {
    "convolutions": (f"{IMAGE} {{ [a] t = Conv(x, w, b) [c] y = Conv(t, v) }}", CONVS, ["t"]),
    "Relu": (f"{IMAGE} {{ [a] t = Conv(x, w, b) r = Relu(t) [c] y = Conv(r, v) }}", CONVS, ["t", "r"]),
    "LeakyRelu and pool": (
        f"{IMAGE} {{ [a] t = Conv(x, w, b) r = LeakyRelu(t) p = MaxPool<kernel_shape=[2,2]>(r) [c] y = Conv(p, v) }}",
        CONVS,
        ["t", "r", "p"],
    ),
    "pads": (f"{IMAGE} {{ [a] t = Conv(x, w, b) [c] y = Conv<pads=[1,1,1,1]>(t, v) }}", CONVS, ["t"]),
    "average over pads": (
        f"{IMAGE} {{ [a] t = Conv(x, w) p = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(t) [c] y = Conv(p, v) }}",
        {"w": W1, "v": W2},
        ["t", "p"],
    ),
    "two readers": (
        f"{IMAGE} {{ [a] t = Conv(x, w, b) [c] u = Conv(t, v) r = Relu(t) [d] s = Conv(r, v2) y = Add(u, s) }}",
        {**CONVS, "v2": W2 + 1},
        ["t", "r"],
    ),
    "depthwise reads": (
        f"{IMAGE} {{ [a] t = Conv(x, w, b) [c] y = Conv<group=8>(t, v) }}",
        {**CONVS, "v": DEPTHWISE},
        ["t"],
    ),
    "one factor and one summand": (
        f"{IMAGE} {{ h = Conv(x, w) s = HardSwish(h) m = Mul(s, k) t = Add(m, l) [c] y = Conv<pads=[1,1,1,1]>(t, v) }}",
        {"w": W1, "v": W2, "k": np.float32([1.5]), "l": np.full((1, 1, 1, 1), 0.25, np.float32)},
        ["t"],
    ),
    "a factor for each channel": (
        f"{IMAGE} {{ h = Conv(x, w) s = Sigmoid(h) t = Mul(k, s) [c] y = Conv(t, v) }}",
        {"w": W1, "v": W2, "k": normal(8, 1, 1, seed=5)},
        ["t"],
    ),
    "products": (
        f"{ROWS} {{ p = MatMul(x, w) t = Add(p, b) r = Relu(t) [c] y = MatMul(r, v) }}",
        MATRICES,
        ["t", "r"],
    ),
    "Gemm": (
        "net (float[5,6] x) => (float[] y) { t = Gemm(x, w, b) [c] y = Gemm<transB=1>(t, v) }",
        {**MATRICES, "v": MATRICES["v"].T.copy()},
        ["t"],
    ),
    "LayerNormalization": (
        f"{TOKENS} {{ t = LayerNormalization(x, g, b) [c] q = MatMul(t, v) [d] k = MatMul(t, v2) y = Add(q, k) }}",
        {"g": normal(8) + 2, "b": MATRICES["b"], "v": MATRICES["v"], "v2": MATRICES["v"] + 1},
        ["t"],
    ),
}

# By name: where nothing may move, and why.
STAYS = {
    "a graph output": (
        "net (float[2,3,9,9] x) => (float[] y, float[] t) { [a] t = Conv(x, w, b) [c] y = Conv(t, v) }",
        CONVS,
    ),
    "a reader without weight": (
        f"{IMAGE} {{ [a] t = Conv(x, w, b) [c] u = Conv(t, v) m = ReduceMean<keepdims=1>(t) y = Add(u, m) }}",
        CONVS,
    ),
    "a curve": (f"{IMAGE} {{ [a] t = Conv(x, w, b) s = Sigmoid(t) [c] y = Conv(s, v) }}", CONVS),
    "a Clip": (
        f"{IMAGE} {{ [a] t = Conv(x, w, b) s = Clip(t, lo, hi) [c] y = Conv(s, v) }}",
        {**CONVS, "lo": np.float32(0), "hi": np.float32(6)},
    ),
    "a shared weight": (
        f"{IMAGE} {{ t = Conv(x, w, b) u = Conv(t, v) r = Conv(x, w) m = ReduceMax<keepdims=0>(r) y = Add(u, m) }}",
        CONVS,
    ),
    "groups of several channels": (
        f"{IMAGE} {{ [a] t = Conv(x, w, b) [c] y = Conv<group=2>(t, v) }}",
        {**CONVS, "v": normal(4, 4, 3, 3)},
    ),
    "an input": ("net (float[2,8,9,9] x) => (float[] y) { [c] y = Conv(x, v) }", {"v": W2}),
    "a sum of two": (
        f"{IMAGE} {{ a = Conv(x, w, b) e = Conv(x, w3) t = Add(a, e) [c] y = Conv(t, v) }}",
        {**CONVS, "w3": W1 + 1},
    ),
    "another axis": (
        "net (float[2,3,8,8] x) => (float[] y) { [a] t = Conv(x, w, b) [c] y = MatMul(t, v) }",
        {"w": normal(8, 3, 1, 1), "b": B1, "v": MATRICES["v"]},
    ),
    "a summand read elsewhere": (
        f"{ROWS} {{ p = MatMul(x, w) t = Add(p, b) [c] u = MatMul(t, v) m = ReduceMean<keepdims=1>(p) y = Add(u, m) }}",
        MATRICES,
    ),
    "a constant on the left of a difference": (
        f"{ROWS} {{ p = MatMul(x, w) t = Sub(b, p) [c] y = MatMul(t, v) }}",
        MATRICES,
    ),
}


def feed(network: Network) -> dict[str, np.ndarray]:
    """A sample of the network's input."""
    dims = network.proto().graph.input[0].type.tensor_type.shape.dim
    return {"x": normal(*(each.dim_value for each in dims), seed=9)}


@pytest.mark.parametrize("name", sorted(MOVES))
def test_the_same_to_the_bit(name: str, tmp_path: Path) -> None:
    """Outputs stay, and the values of the site are divided by the factors."""
    text, constants, values = MOVES[name]
    network = Network(text, constants, opset=18)
    model = network.load(tmp_path)
    sites = find_sites(model)
    [site] = [site for site in sites if site.values[0] == values[0]]
    assert sorted(site.values) == sorted(values)
    assert site.channels == len(FACTORS)
    scaled = with_factors(model, {site: FACTORS})
    sample = feed(network)
    assert (run(ir.serialize(scaled), sample)["y"] == network.run(sample)["y"]).all()
    shape = FACTORS.reshape(-1, *[1] * (-1 - site.axis))
    inner = ir.with_outputs(scaled, set(values))
    before, after = network.every_value(sample), run(ir.serialize(inner), sample)
    for value in values:
        assert (after[value] * shape == before[value]).all(), value


@pytest.mark.parametrize("name", sorted(STAYS))
def test_nothing_moves(name: str, tmp_path: Path) -> None:
    """No site, where one end cannot take the factors."""
    text, constants = STAYS[name]
    sites = find_sites(Network(text, constants).load(tmp_path))
    assert [site.values for site in sites if "t" in site.values] == []


def test_text_before_and_after(tmp_path: Path) -> None:
    """Only constants change, the old ones are gone, and the model given stays as it is."""
    text, constants, _ = MOVES["Relu"]
    model = Network(text, constants).load(tmp_path)
    before = ir.text(model)
    [site] = find_sites(model)
    scaled = with_factors(model, {site: FACTORS})
    assert ir.text(model) == before
    assert set(scaled.graph.initializers) == {"w_scaled", "b_scaled", "v_scaled"}
    weights = {name: ir.array(value) for name, value in scaled.graph.initializers.items()}
    assert (weights["w_scaled"] == W1 / FACTORS.astype(np.float32)[:, None, None, None]).all()
    assert (weights["b_scaled"] == B1 / FACTORS.astype(np.float32)).all()
    assert (weights["v_scaled"] == W2 * FACTORS.astype(np.float32)[:, None, None]).all()


def test_a_layer_between_two_sites_takes_both(tmp_path: Path) -> None:
    """A depthwise convolution reads one value and writes another."""
    text = f"{IMAGE} {{ [a] t = Conv(x, w, b) [d] u = Conv<group=8>(t, z) [c] y = Conv(u, v) }}"
    network = Network(text, {**CONVS, "z": DEPTHWISE})
    sites = find_sites(network.load(tmp_path))
    assert [site.values for site in sites] == [("t",), ("u",)]
    scaled = with_factors(network.load(tmp_path), {sites[0]: FACTORS, sites[1]: FACTORS[::-1].copy()})
    sample = feed(network)
    assert (run(ir.serialize(scaled), sample)["y"] == network.run(sample)["y"]).all()

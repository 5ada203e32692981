"""Moments of what weights meet: those of the windows of a convolution, and of the rows of a matrix product."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt.calibrate.plan import Plan
from infer_opt.calibrate.repairs.reads import Moments, as_rows, blocks, from_rows, gather
from tests.targets.networks import Feeds, Network, for_any_host, int8_plan, normal

X86 = for_any_host("x86-avx512-vnni")


def sites(plan: Plan) -> list:
    """Of all weights of a plan."""
    return [site for _, scheme in plan.lowered() for site in scheme.weights]


def moments(network: Network, feed: dict[str, np.ndarray], folder: Path) -> dict[str, Moments]:
    """Of all weights, over one feed."""
    model = network.load(folder)
    plan = int8_plan(model, X86, Feeds([feed]))
    return gather(model, sites(plan), [feed], 1, 0)


@pytest.mark.parametrize(
    ("attributes", "kernel"),
    [
        ("pads=[1,1,1,1]", (6, 4, 3, 3)),
        ("strides=[2,2], pads=[1,1,1,1]", (6, 4, 3, 3)),
        ("dilations=[2,1]", (6, 4, 2, 3)),
        ('auto_pad="SAME_UPPER", strides=[2,2]', (6, 4, 3, 3)),
        ('auto_pad="SAME_LOWER"', (6, 4, 2, 2)),
        ("group=2", (6, 2, 3, 3)),
        ("group=4", (8, 1, 3, 3)),
    ],
)
def test_mean_of_a_convolution(attributes: str, kernel: tuple[int, ...], tmp_path: Path) -> None:
    """Weights times the mean of the windows are the mean of the output, by onnxruntime, where all are drawn."""
    weight = normal(*kernel)
    network = Network(f"net (float[1,4,9,9] x) => (float[] y) {{ [c] y = Conv<{attributes}>(x, w) }}", {"w": weight})
    feed = {"x": normal(1, 4, 9, 9, seed=1) + 2}
    found = moments(network, feed, tmp_path)["c"]
    rows = as_rows(network.load(tmp_path).graph[0], weight)
    assert rows is not None
    got = np.einsum("goi,gi->go", rows, found.mean()).reshape(-1)
    assert got == pytest.approx(network.run(feed)["y"].mean((0, 2, 3)), abs=1e-5)


@pytest.mark.parametrize("node", ["MatMul(x, w)", "Gemm(x, w)", "Gemm<transB=1>(x, w)"])
def test_moments_of_a_product(node: str, tmp_path: Path) -> None:
    """Means, and second moments about the mean or about 0, of the rows."""
    network = Network(f"net (float[40,20] x) => (float[] y) {{ [m] y = {node} }}", {"w": normal(20, 20)})
    feed = {"x": normal(40, 20, seed=1) + 1}
    found = moments(network, feed, tmp_path)["m"]
    assert blocks(20) == (2, 10)
    assert found.mean()[0] == pytest.approx(feed["x"].mean(0), abs=1e-6)
    for place, block in enumerate((feed["x"][:, :10], feed["x"][:, 10:])):
        assert found.second(centred=True)[0, place] == pytest.approx(np.cov(block.T, bias=True), abs=1e-5)
        assert found.second(centred=False)[0, place] == pytest.approx(block.T @ block / 40, abs=1e-5)


def test_blocks_are_padded_with_zeros() -> None:
    """17 inputs are 2 blocks of 9, the last of which holds one input that is always 0."""
    found = Moments(1, 17)
    found.add(normal(1, 30, 17))
    assert blocks(17) == (2, 9)
    assert found.mean().shape == (1, 17)
    assert not found.second(centred=False)[0, 1, -1].any()


@pytest.mark.parametrize("node", ["Conv<group=2>(x, w)", "MatMul(m, w)", "Gemm<transB=1>(m, w)"])
def test_rows_turn_back(node: str, tmp_path: Path) -> None:
    """A weight is what its rows say."""
    weight = normal(4, 2, 1, 1) if node.startswith("Conv") else normal(6, 6)
    network = Network(f"net (float[1,4,3,3] x, float[5,6] m) => (float[] y) {{ y = {node} }}", {"w": weight})
    made = network.load(tmp_path).graph[0]
    rows = as_rows(made, weight)
    assert rows is not None
    assert (from_rows(made, rows, weight.shape) == weight).all()


@pytest.mark.parametrize("node", ["Gemm<transA=1>(x, w)", "Gemm<alpha=2.0>(x, w)", "MatMul(x, v)"])
def test_other_forms_have_no_rows(node: str, tmp_path: Path) -> None:
    """A turned or scaled product, and a stack of matrices."""
    constants = {"w": normal(6, 6), "v": normal(2, 6, 6)}
    network = Network(f"net (float[6,6] x) => (float[] y) {{ y = {node} }}", constants)
    made = network.load(tmp_path).graph[0]
    assert as_rows(made, constants["v" if "v" in node else "w"]) is None

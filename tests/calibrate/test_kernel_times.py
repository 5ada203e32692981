"""Times of regions: onnxruntime's kernels find back to the nodes they were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.calibrate.kernel_times import RegionTimes, _owner, _owners, region_times, without_overhead
from infer_opt.calibrate.plan import Plan
from infer_opt.calibrate.planner import dynamic_plan, float_plan
from infer_opt.calibrate.runner import Runner
from infer_opt.targets.dynamic import write_dynamic
from infer_opt.targets.qdq import write_qdq
from tests.targets.early_exit import EARLY_EXIT, samples, takes_early
from tests.targets.networks import Network, for_any_host, int8_plan, normal, uniform_feeds

X86 = for_any_host("x86-avx512-vnni")
IMAGES = uniform_feeds(2, {"x": (1, 16, 32, 32)})
NETWORK = Network(
    """net (float[1,16,32,32] x) => (float[] y) {
        [one] a = Conv<pads=[1,1,1,1]>(x, w1) [act] b = Relu(a)
        [two] c = Conv<pads=[1,1,1,1]>(b, w2) [sum] d = Add(b, c) [soft] y = Softmax<axis=1>(d) }""",
    {name: normal(16, 16, 3, 3, seed=seed, scale=0.1) for seed, name in enumerate(("w1", "w2"))},
)


def timed(model: ir.Model, plan: Plan) -> RegionTimes:
    """What the plan's kernels take on one of the images."""
    return region_times(model, plan, write_qdq(model, plan), list(IMAGES))


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_every_region_has_its_kernels(tmp_path: Path, precision: str) -> None:
    """In float, where onnxruntime changes the layout and fuses activations, and in integers."""
    model = NETWORK.load(tmp_path)
    plan = int8_plan(model, X86, IMAGES)
    found = timed(model, plan if precision == "int8" else float_plan(plan.regions))
    assert {"one", "two", "soft"} <= set(found.regions) <= {region.name for region in plan.regions}
    assert all(0 < seconds < 1 for seconds in found.regions.values())
    assert found.other < 0.5 * sum(found.regions.values())


@pytest.mark.parametrize(
    ("kernels", "whole", "expected"),
    [
        ([5.0, 7.0, 9.0], 15.0, [3.0, 5.0, 7.0]),
        ([0.5, 7.0, 9.0], 12.0, [0.0, 5.0, 7.0]),
        ([0.5, 0.25, 9.0], 7.5, [0.0, 0.0, 7.5]),
        ([5.0, 7.0, 9.0], 24.0, [5.0, 7.0, 9.0]),
        ([5.0, 7.0], 0.0, [0.0, 0.0]),
        ([], 1.0, []),
    ],
)
def test_what_the_profiler_adds_is_taken_off(kernels: list[float], whole: float, expected: list[float]) -> None:
    """The same of each kernel, but no more than it took; they sum up to the run without profiler, or to less."""
    names = [f"kernel {index}" for index in range(len(kernels))]
    found = without_overhead(dict(zip(names, kernels, strict=True)), whole)
    assert found == pytest.approx(dict(zip(names, expected, strict=True)))


PRODUCTS = Network(
    """net (float[64,128] x) => (float[] y) {
        [norm] n = LayerNormalization<axis=-1>(x, g) [one] a = MatMul(n, w1) [two] b = MatMul(n, w2)
        [sum] c = Add(a, b) [soft] y = Softmax(c) }""",
    {"g": np.ones(128, np.float32), "w1": normal(128, 128, seed=1), "w2": normal(128, 128, seed=2)},
)
MATRICES = uniform_feeds(2, {"x": (64, 128)})


def test_products_that_find_their_range_have_their_kernels(tmp_path: Path) -> None:
    """And the first of those that read a value has its quantizer."""
    model = PRODUCTS.load(tmp_path)
    plan = dynamic_plan(model, int8_plan(model, X86, MATRICES).regions)
    rehearsed = write_dynamic(write_qdq(model, plan), plan)
    kernels = Runner.of_model(rehearsed, "the model", mode="profiled").kernel_seconds(next(iter(MATRICES)), 3)
    assert set(kernels) == {"norm", "one_quantized_node", "one", "two", "sum", "soft"}
    found = region_times(model, plan, rehearsed, list(MATRICES))
    assert set(found.regions) == {"norm", "one", "two", "sum", "soft"}
    assert found.other == 0


def test_a_quantizer_counts_for_whom_it_works(tmp_path: Path) -> None:
    """Of a value that is float where it is made, for the first that reads it in integers, and not for its maker."""
    model = PRODUCTS.load(tmp_path)
    plan = int8_plan(model, X86, MATRICES)
    owners = _owners(model, plan)
    assert _owner("n_quantized_node", owners) == "one"
    assert _owner("norm", owners) == _owner("n_nchwc", owners) == "norm"
    network = NETWORK.load(tmp_path)
    owners = _owners(network, int8_plan(network, X86, IMAGES))
    assert _owner("b_quantized_node", owners) == "one"


def test_a_convolution_outweighs_a_sum(tmp_path: Path) -> None:
    """By far: 2.4 million multiply-adds against 16 thousand additions."""
    model = NETWORK.load(tmp_path)
    found = timed(model, float_plan(int8_plan(model, X86, IMAGES).regions))
    assert found.regions["two"] > found.regions.get("sum", 0.0)


def test_branches_have_the_mean_time_over_all_samples(tmp_path: Path) -> None:
    """Also the branch that the first sample does not take; one that none takes has none."""
    feeds = samples(2, 2)
    model = EARLY_EXIT.load(tmp_path)
    plan = int8_plan(model, X86, feeds)
    written = write_qdq(model, plan)
    both = region_times(model, plan, written, list(feeds))
    assert {"trunk", "early_conv", "late_conv", "deeper"} <= both.regions.keys()
    early = region_times(model, plan, written, [feed for feed in feeds if takes_early(feed)])
    assert early.regions["early_conv"] > 0
    assert not {"late_conv", "deeper"} & early.regions.keys()

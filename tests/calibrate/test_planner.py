"""Plans: which values share a scale, what ranges become, and what keeps a region in float."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infer_opt.calibrate.plan import Plan
from infer_opt.calibrate.planner import float_plan, integer_plan, watched_values
from infer_opt.calibrate.quantization import Quantization, from_range
from infer_opt.calibrate.ranges import Percentile
from infer_opt.calibrate.sketch import Sketch
from infer_opt.profiles import Profile
from infer_opt.targets.regions import find_regions
from tests.targets.networks import Feed, Feeds, Network, for_any_host, int8, int8_plan, normal, run, sqnr, uniform_feeds

X86, ARM = for_any_host("x86-avx512-vnni"), for_any_host("arm-a78")
WEIGHTS = {"w": normal(8, 8, 3, 3, scale=0.2), "b": normal(8, seed=1, scale=0.3)}
IMAGES = uniform_feeds(4, {"x": (1, 8, 8, 8)})
MOVERS = {
    "MaxPool<kernel_shape=[2,2]>(c)": {},
    "Reshape(c, shape)": {"shape": np.array([1, -1])},
    "Transpose<perm=[0,2,3,1]>(c)": {},
    "Flatten(c)": {},
}


def conv_then(rest: str, output: str = "y", **constants: np.ndarray) -> Network:
    """A Conv that writes `c`, and whatever follows."""
    return Network(f"net (float[1,8,8,8] x) => (float[] {output}) {{ c = Conv(x, w, b) {rest} }}", WEIGHTS | constants)


def range_of(found: Quantization) -> tuple[float, float]:
    """The reals of the lowest and the highest level."""
    levels = np.array(found.format.limits())
    low, high = ((levels - int(found.zero_point)) * float(found.scale)).tolist()
    return low, high


@pytest.mark.parametrize("op", MOVERS)
def test_an_operator_that_moves_numbers_has_one_scale_on_both_sides(tmp_path: Path, op: str) -> None:
    """Scale and zero point of what it reads, which needs statistics, and of what it writes, which needs none."""
    model = conv_then(f"y = {op}", **MOVERS[op]).load(tmp_path)
    plan = int8_plan(model, X86, IMAGES)
    assert plan.activations["y"] == plan.activations["c"]
    assert watched_values(model, plan.regions) == ["x", "c"]


def test_a_chain_of_movers_has_one_scale_from_end_to_end(tmp_path: Path) -> None:
    """Reached also where a branch leaves the chain in the middle."""
    rest = "m = MaxPool<kernel_shape=[2,2]>(c) t = Transpose<perm=[0,2,3,1]>(m) f = Flatten(t) y = Flatten(f)"
    rest += " a = Add(m, m) more = Flatten(a)"
    plan = int8_plan(conv_then(rest, "y, float[] more").load(tmp_path), X86, IMAGES)
    assert {plan.activations[name] for name in ("m", "t", "f", "y")} == {plan.activations["c"]}
    assert plan.activations["a"] != plan.activations["c"]


@pytest.mark.parametrize(("device", "zero"), [(X86, 0), (ARM, -128)])
def test_a_relu_starts_its_range_at_the_lowest_level(tmp_path: Path, device: Profile, zero: int) -> None:
    """0 is the lowest level exactly, so that the kernel's saturation is the Relu."""
    model = conv_then("y = Relu(c)").load(tmp_path)
    plan = int8_plan(model, device, IMAGES)
    found = plan.activations["y"]
    assert "c" not in plan.activations
    assert int(found.zero_point) == zero
    assert range_of(found)[0] == 0.0


CEILINGS = [6.0, 1.0, 0.1, 15.979344, 63.908806, *np.random.default_rng(0).uniform(0.01, 100, 20).round(4).tolist()]


@pytest.mark.parametrize("ceiling", CEILINGS)
def test_a_clip_from_0_has_no_level_above_its_ceiling(tmp_path: Path, ceiling: float) -> None:
    """Exactly, in float64: a scale that was rounded up would keep onnxruntime from absorbing the Clip."""
    network = conv_then("y = Clip(c, low, high)", low=np.float32(0), high=np.float32(ceiling))
    scaled = Feeds([{"x": feed["x"] * np.float32(ceiling * 9)} for feed in IMAGES.feed])
    low, high = range_of(int8_plan(network.load(tmp_path), X86, scaled).activations["y"])
    assert low == 0.0
    assert ceiling * (1 - 1e-6) < high <= float(np.float32(ceiling))


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (-3, 3), (-0.5, 2), (-1, 0), (-7.3, 0.9)])
@pytest.mark.parametrize("device", [X86, ARM], ids=["u8", "s8"])
def test_a_clip_on_both_sides_of_0_has_no_level_outside(
    tmp_path: Path, device: Profile, low: float, high: float
) -> None:
    """The zero point is a whole level, which alone would push one end out by up to half a step."""
    network = conv_then("y = Clip(c, low, high)", low=np.float32(low), high=np.float32(high))
    scaled = Feeds([{"x": feed["x"] * np.float32(60)} for feed in IMAGES.feed])
    found = int8_plan(network.load(tmp_path), device, scaled).activations["y"]
    lowest, highest = range_of(found)
    assert float(np.float32(low)) <= lowest <= low + float(found.scale)
    assert high - float(found.scale) <= highest <= float(np.float32(high))


def test_a_range_that_ends_inside_the_clip_is_the_datas(tmp_path: Path) -> None:
    """The window only cuts; it never widens."""
    network = conv_then("y = Clip(c, low, high)", low=np.float32(-1000), high=np.float32(1000))
    found = int8_plan(network.load(tmp_path), X86, IMAGES).activations["y"]
    data = np.concatenate([network.run(feed)["y"].ravel() for feed in IMAGES.feed])
    assert found == from_range(float(data.min()), float(data.max()), found.format)


def test_the_range_method_is_asked(tmp_path: Path) -> None:
    """A percentile clips an outlier that min-max keeps."""
    feeds: list[Feed] = [{"x": feed["x"].copy()} for feed in IMAGES.feed]
    feeds[0]["x"][0, 0, 0, 0] = 50.0
    model = conv_then("y = Relu(c)").load(tmp_path)
    narrow = range_of(int8_plan(model, X86, Feeds(feeds), Percentile(99.0)).activations["x"])
    wide = range_of(int8_plan(model, X86, Feeds(feeds)).activations["x"])
    assert wide[1] == pytest.approx(50.0, rel=0.01)
    assert narrow[1] < 1.1


def test_a_sigmoid_needs_no_statistics(tmp_path: Path) -> None:
    """Its range is [0, 1] by definition, whatever the samples reach."""
    model = conv_then("y = Sigmoid(c)").load(tmp_path)
    plan = int8_plan(model, X86, IMAGES)
    assert watched_values(model, plan.regions) == ["x", "c"]
    assert range_of(plan.activations["y"]) == pytest.approx((0.0, 1.0))


def test_constants_are_their_own_statistics(tmp_path: Path) -> None:
    """The range of a constant operand is that of its elements."""
    constant = np.linspace(-0.5, 2.0, 8, dtype=np.float32).reshape(1, 8, 1, 1)
    plan = int8_plan(conv_then("y = Add(c, k)", k=constant).load(tmp_path), X86, IMAGES)
    assert range_of(plan.activations["k"]) == pytest.approx((-0.5, 2.0), abs=0.01)


def planned(network: Network, samples: Feeds, folder: Path) -> Plan:
    """An INT8 plan for x86."""
    return int8_plan(network.load(folder), X86, samples)


def test_a_value_with_infinities_keeps_its_region_in_float(tmp_path: Path) -> None:
    """The reason names the value; a region that does not touch it is quantized all the same."""
    network = Network(
        """net (float[1,4,9,9] x, float[1,4,9,9] z) => (float[1,4,8,8] a, float[1,4,7,7] b) {
            p = Reciprocal(z)  q = Conv(p, w)  m = MaxPool<kernel_shape=[2,2]>(q)
            n = IsInf(m)  a1 = Cast<to=1>(n)  s = Shape(a1)  a = Expand(one, s)  b = Conv(x, w)
        }""",
        {"w": np.abs(normal(4, 4, 3, 3)), "one": np.ones((1, 1, 1, 1), np.float32)},
    )
    feeds = uniform_feeds(2, {"x": (1, 4, 9, 9), "z": (1, 4, 9, 9)})
    feeds.feed[1]["z"][0, 0, 0, 0] = 0.0
    plan = planned(network, feeds, tmp_path)
    assert plan.choices["Conv:q"].precision == "fp32"
    assert plan.choices["Conv:q"].reason == "`p` holds NaN or infinite values"
    assert plan.choices["MaxPool:m"].reason == "`q` holds NaN or infinite values"
    assert plan.choices["Conv:b"].precision == "int8"
    assert set(plan.activations) == {"x", "b"}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("op", "inputs", "culprit"),
    [
        ("Gemm", "x, v, u", "v"),
        ("Gemm", "x, v, u", "u"),
        ("MatMul", "x, v", "v"),
        ("Conv", "i, v, u", "v"),
        ("Conv", "i, v, u", "u"),
    ],
)
def test_a_weight_that_is_no_number_keeps_its_region_in_float(
    tmp_path: Path, op: str, inputs: str, culprit: str, bad: float
) -> None:
    """One element of a weight or a bias is enough, also where nothing watches the output; others are quantized."""
    constants = {
        "v": normal(16, 8, 1, 1) if op == "Conv" else normal(8, 16),
        "u": normal(16, seed=1),
        "w": normal(8, 4),
    }
    constants[culprit].flat[3] = bad
    network = Network(
        f"net (float[5,8] x, float[1,8,4,4] i) => (float[] y, float[5,4] z) {{ y = {op}({inputs}) z = MatMul(x, w) }}",
        constants,
    )
    plan = planned(network, uniform_feeds(2, {"x": (5, 8), "i": (1, 8, 4, 4)}), tmp_path)
    choice = plan.choices[f"{op}:y"]
    assert (choice.precision, choice.reason) == ("fp32", f"weight `{culprit}` holds NaN or infinite values")
    assert plan.choices["MatMul:z"].precision == "int8"


@pytest.mark.parametrize("elements", [[np.nan], [np.inf, 1.0]])
def test_a_constant_operand_that_is_no_number_keeps_its_region_in_float(tmp_path: Path, elements: list[float]) -> None:
    """Whether all of it is, or a part."""
    constant = np.array(elements * 8, np.float32)[:8].reshape(1, 8, 1, 1)
    plan = planned(conv_then("y = Add(c, k)", k=constant), IMAGES, tmp_path)
    assert plan.choices["Add:y"].reason == "`k` holds NaN or infinite values"
    assert plan.choices["Conv:c"].precision == "int8"


def test_a_value_that_was_never_seen_keeps_its_region_in_float(tmp_path: Path) -> None:
    """An empty tensor in every sample has no range to stand on."""
    network = Network(
        "net (float[N,4] x) => (float[M,3] y) { e = Slice(x, zero, zero, zero) y = MatMul(e, w) }",
        {"w": normal(4, 3), "zero": np.array([0])},
    )
    plan = planned(network, uniform_feeds(2, {"x": (5, 4)}), tmp_path)
    assert plan.choices["MatMul:y"].precision == "fp32"
    assert plan.choices["MatMul:y"].reason == "`e` was never seen with a finite element"
    assert (dict(plan.activations), dict(plan.weights)) == ({}, {})


def test_a_value_that_is_always_0_is_quantized(tmp_path: Path) -> None:
    """Dead channels are no reason to stop: 0 is exact at any scale."""
    network = conv_then("d = Mul(c, k) y = Add(d, c)", k=np.zeros(1, np.float32))
    made = int8(network, X86, IMAGES, tmp_path)
    assert made.plan.choices["Mul:d"].precision == "int8"
    feed = IMAGES.feed[0]
    assert sqnr(network.run(feed)["y"], run(made.data, feed)["y"]) > 30


@pytest.mark.parametrize("share", [1, 20, 100, 126, 140, 1e4])
def test_a_large_bias_beside_tiny_weights_does_not_overflow(tmp_path: Path, share: float) -> None:
    """The bias, and its sum with all products, stay in int32: the result is that of float within one level.

    Weights are `share` times the smallest scale at which the bias alone still fits.
    """
    bias = 3.0
    smallest = bias / ((2**31 - 1) * (2 / 255))
    weight = np.full((2, 8, 3, 3), smallest * share, np.float32)
    weight[1] = normal(8, 3, 3)
    network = Network(
        "net (float[1,8,8,8] x) => (float[1,2,6,6] y) { y = Conv(x, w, b) }",
        {"w": weight, "b": np.array([bias, 0.1], np.float32)},
    )
    # Every element at the top of the range, where all products of the first channel have the sign of its bias.
    samples = Feeds([{"x": np.ones((1, 8, 8, 8), np.float32)}, {"x": -np.ones((1, 8, 8, 8), np.float32)}])
    made = int8(network, X86, samples, tmp_path)
    assert made.plan.choices["Conv:y"].precision == "int8"
    expected, got = network.run(samples.feed[0])["y"][0, 0], run(made.data, samples.feed[0])["y"][0, 0]
    np.testing.assert_allclose(got, expected, atol=float(made.plan.activations["y"].scale))


def test_a_per_tensor_weight_makes_room_for_the_largest_bias(tmp_path: Path) -> None:
    """One scale for all channels has to hold every bias."""
    assert X86.dialect is not None
    device = replace(X86, dialect=replace(X86.dialect, weight_per_channel=False))
    weights = {"w": np.full((2, 4, 3, 3), 1e-9, np.float32), "b": np.array([1e-6, -2.0], np.float32)}
    network = Network("net (float[1,4,8,8] x) => (float[1,2,6,6] y) { y = Conv(x, w, b) }", weights)
    made = int8(network, device, uniform_feeds(2, {"x": (1, 4, 8, 8)}), tmp_path)
    feed = {"x": np.zeros((1, 4, 8, 8), np.float32)}
    np.testing.assert_allclose(run(made.data, feed)["y"][0, 1], -2.0, rtol=0.01)


def test_the_float_plan_leaves_everything_as_it_is(tmp_path: Path) -> None:
    """Every region at the original's precision, nothing quantized."""
    assert X86.dialect is not None
    regions = find_regions(conv_then("y = Relu(c)").load(tmp_path), X86.dialect, int8=True)
    plan = float_plan(regions)
    assert plan.name == "fp32"
    assert {choice.precision for choice in plan.choices.values()} == {"fp32"}
    assert plan.lowered() == ()
    assert not plan.activations


def test_a_plan_without_regions_has_a_name(tmp_path: Path) -> None:
    """A target without a dialect finds no regions; its plan is that of the float model."""
    model = conv_then("y = Relu(c)").load(tmp_path)
    assert float_plan(()).name == "fp32"
    assert integer_plan(model, (), {}, Percentile()).choices == {}


def test_missing_statistics_are_as_good_as_none(tmp_path: Path) -> None:
    """A region whose value was not watched stays in float, and says so."""
    assert X86.dialect is not None
    model = conv_then("y = Relu(c)").load(tmp_path)
    regions = find_regions(model, X86.dialect, int8=True)
    seen = Sketch()
    seen.observe(np.array([-1.0, 1.0]), -1.0, 1.0)
    plan = integer_plan(model, regions, {"x": seen, "y": Sketch()}, Percentile())
    assert plan.choices["Conv:c"].reason == "`y` was never seen with a finite element"

"""Verdicts on FP16: what overflows, is lost or has to be exact stays in float32, and why that is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infer_opt import targets
from infer_opt.calibrate.half import half_values, half_verdicts, with_half
from infer_opt.calibrate.plan import Choice, Plan
from infer_opt.calibrate.planner import float_plan, integer_plan, watched_values
from infer_opt.calibrate.ranges import MinMax
from infer_opt.calibrate.sample_set import Feed
from infer_opt.calibrate.statistics import collect
from infer_opt.ir import Model
from tests.targets.networks import Feeds, Network, normal, profile

T4 = targets.create(profile("t4"))
W = normal(4, 4)


def verdicts(network: Network, folder: Path, *feeds: Feed) -> dict[str, Choice]:
    """Of every region, by the name of its first node's output; measured where there are feeds."""
    model = network.load(folder)
    return judged(model, feeds)[1]


def judged(model: Model, feeds: tuple[Feed, ...]) -> tuple[Plan, dict[str, Choice]]:
    """The plan in float, and the verdicts by output."""
    regions = T4.regions(model)
    sketches = collect(model, half_values(model, regions), Feeds(feeds)).sketches if feeds else None
    outputs = {str(node.name): str(node.outputs[0].name) for node in model.graph}
    found = half_verdicts(model, regions, sketches)
    return float_plan(regions), {outputs[name]: choice for name, choice in found.items()}


def kept(found: dict[str, Choice]) -> dict[str, str]:
    """Reasons of what stays in float32."""
    return {name: choice.reason for name, choice in found.items() if choice.precision == "fp32"}


def test_what_fits_is_half_and_says_how_it_is_known(tmp_path: Path) -> None:
    """By its weights alone, or by samples."""
    network = Network("net (float[2,4] x) => (float[2,4] y) { a = MatMul(x, w) y = Neg(a) }", {"w": W}, opset=20)
    assert verdicts(network, tmp_path) == {
        name: Choice("fp16", "weights fit, and no rule speaks against it; not measured") for name in ("a", "y")
    }
    measured = verdicts(network, tmp_path, {"x": normal(2, 4)})
    assert measured == dict.fromkeys(("a", "y"), Choice("fp16", "ranges fit (measured)"))


# Each with the values that stay in float32 where nothing was measured, and the words for the first of them.
STATIC = {
    "a constant that overflows, until the Softmax behind it": (
        "a = MatMul(x, w) b = Mul(a, large) c = Softmax(b) y = MatMul(c, w)",
        ("b", "c"),
        "constant `large` reaches 2e+05, FP16 ends at 65504",
    ),
    "a gain that is taken back": (
        "a = MatMul(x, w) b = Mul(a, large) c = Mul(b, small) y = MatMul(c, w)",
        ("b", "c"),
        "constant `large` reaches 2e+05, FP16 ends at 65504",
    ),
    "a floor that rounds to zero, until the division": (
        "a = MatMul(x, w) n = ReduceMax<keepdims=1>(a, axes) b = Max(n, floor) c = Div(a, b) y = MatMul(c, w)",
        ("b", "c"),
        "constant `floor` (up to 1e-12) loses 1 of its energy in FP16",
    ),
    "a matrix of tiny numbers": (
        "a = MatMul(x, w) b = MatMul(a, tiny) y = Relu(a)",
        ("b",),
        "constant `tiny` (up to 2.3e-08) loses 1 of its energy in FP16",
    ),
    "squares by Pow": (
        "a = MatMul(x, w) b = Pow(a, two) y = Relu(a)",
        ("b",),
        "its powers may overflow FP16 (not measured)",
    ),
    "squares by Mul": (
        "a = MatMul(x, w) b = Mul(a, a) y = Relu(a)",
        ("b",),
        "its squares may overflow FP16 (not measured)",
    ),
    "normalisation": (
        "a = MatMul(x, w) b = LayerNormalization(a, ones) y = MatMul(b, w)",
        ("b",),
        "it squares what it reads, which may overflow FP16 (not measured)",
    ),
    "a sum of unknown length": (
        "a = MatMul(x, w) b = ReduceSum<keepdims=1>(a, k) y = Relu(a)",
        ("b",),
        "it adds up an unknown number of numbers, which may overflow FP16 (not measured)",
    ),
    "an exponential": (
        "a = MatMul(x, w) b = Exp(a) y = Relu(a)",
        ("b",),
        "it may overflow FP16 (not measured)",
    ),
    "an index": (
        "a = MatMul(x, w) p = MatMul(x, whole) q = Floor(p) i = Cast<to=7>(q) y = Relu(a)",
        ("p", "q", "i"),
        "`Cast:i` makes integers of it, which FP16 holds only up to 2048 (not measured)",
    ),
    "what a logarithm reads": (
        "a = MatMul(x, w) b = Abs(a) c = Log(b) y = MatMul(c, w)",
        ("b", "c"),
        "`Log:c` takes its logarithm, and small numbers lose their digits in FP16 (not measured)",
    ),
    "integers as numbers": (
        "a = MatMul(x, w) b = Cast<to=1>(k) c = Add(a, b) y = MatMul(c, w)",
        ("b",),
        "FP16 holds integers exactly only up to 2048 (not measured)",
    ),
}
CONSTANTS = {
    "w": W,
    "large": np.float32([2e5]),
    "small": np.float32([5e-6]),
    "floor": np.float32([1e-12]),
    "tiny": W * np.float32(1e-8),
    "whole": np.float32([[71, 1, 1, 1]] * 4),
    "two": np.float32(2),
    "ones": np.ones(4, np.float32),
    "axes": np.array([1]),
}


def network_of(body: str) -> Network:
    """The operators on x, with the constants that they name; every value that nobody reads is an output."""
    words = set(body.replace("(", " ").replace(")", " ").replace(",", " ").split())
    made = {name: array for name, array in CONSTANTS.items() if name in words}
    reads = body.replace("(", " ").replace(")", " ").replace(",", " ").split()
    extra = [name for name in ("b", "i") if f"{name} =" in body and reads.count(name) == 1]
    outputs = ", ".join(["float[2,4] y", *(f"int64[2,4] {n}" if n == "i" else f"float[2,n] {n}" for n in extra)])
    return Network(f"net (float[2,4] x, int64[1] k) => ({outputs}) {{ {body} }}", made, opset=20)


@pytest.mark.parametrize("case", STATIC)
def test_static_rules(tmp_path: Path, case: str) -> None:
    """What stays in float32 without samples; the rest of each net is FP16."""
    body, names, reason = STATIC[case]
    found = kept(verdicts(network_of(body), tmp_path))
    assert tuple(found) == names
    assert found[names[0]] == reason


def test_what_may_be_out_of_range_names_the_value(tmp_path: Path) -> None:
    """The reader of a value that overflows is told of that value."""
    body, names, _ = STATIC["a gain that is taken back"]
    assert kept(verdicts(network_of(body), tmp_path))[names[1]] == "`b` may be out of FP16's range (not measured)"


X = np.array([[1, 2, 3, 4], [-1, -2, -3, -4]], np.float32)
MEASURED = {
    "squares that fit": ("a = MatMul(x, w) b = Pow(a, two) y = Relu(a)", 1.0, ()),
    "squares that do not": ("a = MatMul(x, w) b = Pow(a, two) y = Relu(a)", 100.0, ("b",)),
    "a normalisation that fits": ("b = LayerNormalization(x, ones) y = MatMul(b, w)", 31.0, ()),
    "a normalisation that does not": ("b = LayerNormalization(x, ones) y = MatMul(b, w)", 32.0, ("b",)),
    "values too large": ("a = MatMul(x, w) y = Relu(a)", 3e4, ("a",)),
    "values too small": ("a = MatMul(x, w) y = Relu(a)", 1e-6, ("a",)),
    "an index that stays small": ("a = MatMul(x, w) p = MatMul(x, whole) i = Cast<to=7>(p) y = Relu(a)", 1.0, ()),
    "an index that does not": ("a = MatMul(x, w) p = MatMul(x, whole) i = Cast<to=7>(p) y = Relu(a)", 9.0, ("p", "i")),
}


@pytest.mark.parametrize("case", MEASURED)
def test_measured_ranges_decide_where_there_are_samples(tmp_path: Path, case: str) -> None:
    """By a factor on the same sample: 65504 is the end, with 2 to spare; integers are exact up to 2048."""
    body, factor, names = MEASURED[case]
    feed = {"x": X * np.float32(factor), "k": np.array([1])}
    found = kept(verdicts(network_of(body), tmp_path, feed))
    assert tuple(found) == names
    assert all("(measured" in reason for reason in found.values())


def test_a_mask_is_kept_whatever_was_measured(tmp_path: Path) -> None:
    """No sample masks anything, and the next one may: -3e38 stays beside the scores until the Softmax."""
    network = Network(
        """net (float[2,4] x, bool[2,4] m) => (float[2,4] y) {
            a = MatMul(x, w) f = Cast<to=1>(m) p = Mul(f, lowest) s = Add(a, p) t = Softmax(s) y = MatMul(t, w)
        }""",
        {"w": W, "lowest": np.float32(-3.4e38)},
        opset=20,
    )
    feed = {"x": X, "m": np.zeros((2, 4), bool)}
    assert tuple(kept(verdicts(network, tmp_path, feed))) == ("f", "p", "s", "t")


def test_what_is_cheaper_than_its_casts_stays_between_float_neighbours(tmp_path: Path) -> None:
    """A Relu between two exponentials; a MatMul there is worth it."""
    body = "net (float[2,4] x) => (float[2,4] y) { a = Exp(x) b = Relu(a) y = Exp(b) }"
    found = kept(verdicts(Network(body, opset=20), tmp_path))
    assert "b" in found
    body = "net (float[2,4] x) => (float[2,4] y) { a = Abs(x) y = MatMul(a, w) }"
    assert kept(verdicts(Network(body, {"w": W}, opset=20), tmp_path)) == {}


CONV = Network(
    """net (float[1,16,8,8] x) => (float[1,16,8,8] y) {
        c = Conv<pads=[1,1,1,1]>(x, v, bias) r = Relu(c) s = Conv<pads=[1,1,1,1]>(r, u) y = Exp(s)
    }""",
    {"v": normal(16, 16, 3, 3, scale=0.1), "bias": normal(16), "u": normal(16, 16, 3, 3, seed=1, scale=1e-4)},
    opset=20,
)


def test_int8_keeps_its_floats_in_half_and_scales_that_half_holds(tmp_path: Path) -> None:
    """Scales are FP16 numbers, never under those of the range; the rest is FP16 where it may be."""
    model = CONV.load(tmp_path)
    regions = T4.regions(model)
    samples = Feeds([{"x": normal(1, 16, 8, 8, seed=3)}])
    sketches = collect(model, [*watched_values(model, regions), *half_values(model, regions)], samples).sketches
    plan = integer_plan(model, regions, sketches, MinMax())
    typed = with_half(plan, half_verdicts(model, regions, sketches))
    assert typed.name == "int8"
    assert [typed.choices[name].precision for name in ("Conv:c", "Conv:s", "Exp:y")] == ["int8", "int8", "fp16"]
    assert typed.half == {"Conv:c", "Conv:s", "Exp:y"}
    assert typed.choices["Exp:y"].reason == "ranges fit (measured); not INT8: no INT8 kernel for Exp that gains"
    for before, after in ((plan.activations, typed.activations), (plan.weights, typed.weights)):
        for key, found in after.items():
            old = before[key].scale
            assert (found.scale == found.scale.astype(np.float16)).all()
            assert (found.scale >= old).all()
            assert (found.scale <= np.maximum(old * (1 + 2.0**-10), old + 2.0**-24)).all()


def test_a_scale_that_half_cannot_hold_stays_above_zero(tmp_path: Path) -> None:
    """A channel of weights of 1e-10 beside others."""
    weights = normal(16, 16, 3, 3)
    weights[3] *= np.float32(1e-10)
    model = replace(CONV, constants={**CONV.constants, "v": weights}).load(tmp_path)
    regions = T4.regions(model)
    sketches = collect(model, watched_values(model, regions), Feeds([{"x": normal(1, 16, 8, 8)}])).sketches
    typed = with_half(integer_plan(model, regions, sketches, MinMax()), half_verdicts(model, regions, None))
    scale = typed.weights["Conv:c", 1].scale
    assert scale[3] == np.float32(2.0**-24)
    assert (scale.astype(np.float16) > 0).all()


def test_a_plan_in_float_becomes_one_in_half(tmp_path: Path) -> None:
    """Named after what it is; where nothing may be FP16, it stays what it was."""
    model = CONV.load(tmp_path)
    plan, _ = judged(model, ())
    typed = with_half(plan, half_verdicts(model, plan.regions, None))
    assert (typed.name, typed.half) == ("fp16", {"Conv:c", "Conv:s"})
    alone = Network("net (float[2] x) => (float[2] y) { y = Exp(x) }", opset=20).load(tmp_path)
    plan, _ = judged(alone, ())
    assert with_half(plan, half_verdicts(alone, plan.regions, None)).name == "fp32"

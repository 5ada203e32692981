"""Weights repaired: less noise on samples that took no part, and nothing kept that does not lower it."""

from __future__ import annotations

from pathlib import Path

from infer_opt import ir
from infer_opt.calibrate.repairs import repair_weights
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.targets.qdq import write_qdq
from tests.targets.networks import Feeds, Network, for_any_host, int8_plan, normal

X86 = for_any_host("x86-avx512-vnni")
# Inputs far from 0: what rounding does to a weight is then mostly a constant error of the output.
NETWORK = Network(
    "net (float[1,8,8,8] x) => (float[] y) { [c] y = Conv<pads=[1,1,1,1]>(x, w, b) }",
    {"w": normal(8, 8, 3, 3), "b": normal(8)},
)


def images(first: int, count: int = 8, mean: float = 5.0) -> Feeds:
    """Samples about a mean."""
    return Feeds([{"x": mean + normal(1, 8, 8, 8, seed=seed, scale=0.1)} for seed in range(first, first + count)])


def sqnr(model: ir.Model, written: ir.Model, feeds: Feeds) -> float:
    """Of the one output."""
    [error] = Trial.of(model, list(feeds), {}).errors(written)
    return error.sqnr


def test_noise_falls_where_inputs_are_far_from_0(tmp_path: Path) -> None:
    """In the artifact, on samples that took no part."""
    model, samples = NETWORK.load(tmp_path), images(0)
    plan = int8_plan(model, X86, samples)
    repaired = repair_weights(model, plan, samples, Trial.of_samples(model, samples, 1))
    [repair] = repaired.repairs
    assert repair.regions == ("c",)
    assert repair.after > repair.before + 10
    before, after = (write_qdq(model, each) for each in (plan, repaired))
    assert sqnr(model, after, images(100)) > sqnr(model, before, images(100)) + 3


def test_two_runs_give_the_same(tmp_path: Path) -> None:
    """By the seed."""
    model, samples = NETWORK.load(tmp_path), images(0)
    plan, trial = int8_plan(model, X86, samples), Trial.of_samples(model, samples, 1)
    first, second = (repair_weights(model, plan, samples, trial, 3) for _ in range(2))
    assert (first.levels["c", 1] == second.levels["c", 1]).all()
    assert (first.biases["c"] == second.biases["c"]).all()


def test_a_repair_that_does_not_help_is_declined(tmp_path: Path) -> None:
    """What weights meet on the samples that repair is not what they meet on those that judge."""
    model, samples = NETWORK.load(tmp_path), images(0)
    plan = int8_plan(model, X86, samples)
    assert repair_weights(model, plan, samples, Trial.of_samples(model, images(50, mean=-5.0), 1)) is plan


def test_a_weight_of_two_nodes_is_left_alone(tmp_path: Path) -> None:
    """It would have to be stored twice."""
    text = "net (float[1,8,8,8] x) => (float[] y) { a = Conv(x, w) b = Conv(x, w) y = Add(a, b) }"
    model, samples = Network(text, {"w": normal(8, 8, 3, 3)}).load(tmp_path), images(0)
    plan = int8_plan(model, X86, samples)
    assert repair_weights(model, plan, samples, Trial.of_samples(model, samples, 1)) is plan

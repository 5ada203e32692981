"""Sensitivity: what one group alone costs, what groups are, and that noise adds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir, targets
from infer_opt.calibrate import sensitivity
from infer_opt.calibrate.grouping import Alternative, alternatives
from infer_opt.calibrate.plan import Plan
from infer_opt.calibrate.sensitivity import Sensitivity, Trial, measure
from infer_opt.calibrate.tails import Tails
from infer_opt.targets.qdq import write_qdq
from tests.targets.networks import Network, for_any_host, int8_plan, normal, uniform_feeds

X86 = for_any_host("x86-avx512-vnni")
IMAGES = uniform_feeds(6, {"x": (1, 8, 8, 8)})
WEIGHTS = {name: normal(8, 8, 3, 3, seed=seed, scale=0.1) for seed, name in enumerate(("w1", "w2", "w3"))}
THREE = Network(
    """net (float[1,8,8,8] x) => (float[] y) {
        [one] a = Conv<pads=[1,1,1,1]>(x, w1) [r] b = Relu(a) [s] c = Sigmoid(b) [m] d = Mul(b, c)
        [two] e = Conv<pads=[1,1,1,1]>(d, w2) [sum] f = Add(d, e)
        [three] g = Conv<pads=[1,1,1,1]>(f, w3) [scores] h = Sigmoid(g) [join] y = Concat<axis=1>(g, h) }""",
    WEIGHTS,
)


def sensed(model: ir.Model, plan: Plan) -> Sensitivity:
    """Every group of a plan, alone."""
    trial = Trial.of(model, list(IMAGES), ir.output_parts(model))
    tails = Tails(model, trial, plan.regions)
    return measure(tails, alternatives([plan]), lambda part, way: write_qdq(part, plan.only(way.regions)))


def test_only_one_group_is_lowered_at_a_time(tmp_path: Path) -> None:
    """The rest of the plan stays in float, and what was measured alone is what that artifact shows."""
    model = THREE.load(tmp_path)
    plan = int8_plan(model, X86, IMAGES)
    alone = plan.only(("two",))
    assert [region.name for region, _ in alone.lowered()] == ["two"]
    found = next(noise for noise in sensed(model, plan).noises if noise.alternative.group.name == "two")
    trial = Trial.of(model, list(IMAGES), ir.output_parts(model))
    real = {error.name: error.noise for error in trial.errors(write_qdq(model, alone))}
    assert found.powers == pytest.approx(real, rel=1e-4)  # from a cut on, where float kernels may fuse otherwise


def test_noise_adds(tmp_path: Path) -> None:
    """The error of all groups together is predicted to 3 dB, the parts of the joined output apart."""
    model = THREE.load(tmp_path)
    plan = int8_plan(model, X86, IMAGES)
    found = sensed(model, plan)
    predicted = found.sqnr([noise.alternative for noise in found.noises])
    real = Trial.of(model, list(IMAGES), ir.output_parts(model)).errors(write_qdq(model, plan))
    assert set(predicted) == {"y", "y[0:8]", "y[8:16]"}
    assert predicted == pytest.approx({error.name: error.sqnr for error in real}, abs=3.0)


def test_nothing_lowered_costs_nothing(tmp_path: Path) -> None:
    """And each group more costs more: the prediction is monotone."""
    model = THREE.load(tmp_path)
    found = sensed(model, int8_plan(model, X86, IMAGES))
    chosen: list[Alternative] = []
    before = found.sqnr(chosen)
    assert set(before.values()) == {200.0}
    for noise in found.noises:
        chosen.append(noise.alternative)
        now = found.sqnr(chosen)
        assert all(now[part] <= before[part] for part in now)
        before = now


def test_a_layer_whose_range_is_ruined_by_one_weight_stands_out(tmp_path: Path) -> None:
    """The group with an outlier is the costliest by far."""
    outlier = {**WEIGHTS, "w2": WEIGHTS["w2"].copy()}
    outlier["w2"][:, 0, 0, 0] = 40.0
    model = Network(THREE.text, outlier).load(tmp_path)
    found = sensed(model, int8_plan(model, X86, IMAGES))
    relative = {noise.alternative.group.name: noise.powers["y"] / found.signals["y"] for noise in found.noises}
    assert max(relative, key=lambda name: relative[name]) in {"two", "one"}
    assert np.isfinite(list(relative.values())).all()


def test_the_samples_that_are_run_hold_the_power_of_every_part(tmp_path: Path) -> None:
    """A part that shows in one sample of many is measured there: elsewhere its error says nothing."""
    dark, bright = np.zeros((1, 4), np.float32), np.full((1, 4), 5.0, np.float32)
    text = "net (float[1,4] x) => (float[] y) { a = Add(x, ten) b = Relu(x) y = Concat<axis=1>(a, b) }"
    model = Network(text, {"ten": np.full(4, 10.0, np.float32)}).load(tmp_path)
    feeds = [{"x": bright if index in {5, 11} else dark} for index in range(16)]
    few = Trial.of(model, feeds, ir.output_parts(model)).strongest(3)
    assert [float(feed["x"].max()) for feed in few.feeds] == [0.0, 5.0, 5.0]
    assert [float(outputs["y"].max()) for outputs in few.outputs] == [10.0, 15.0, 15.0]


def test_few_samples_are_all_run(tmp_path: Path) -> None:
    """In their order."""
    trial = Trial.of(THREE.load(tmp_path), list(IMAGES), {})
    assert trial.strongest(8) == trial


def test_what_is_kept_of_samples_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many or large samples, some from all over the set, and never fewer than eight."""
    many = uniform_feeds(60, {"x": (1, 8, 8, 8)})
    model = THREE.load(tmp_path)
    assert len(Trial.of_samples(model, many, 1).feeds) == 48
    monkeypatch.setattr(sensitivity, "_MOST_BYTES", 12 * (2048 + 4096))
    trial = Trial.of_samples(model, many, 1)
    assert len(trial.feeds) == 12
    assert np.array_equal(trial.feeds[1]["x"], list(many)[5]["x"])
    monkeypatch.setattr(sensitivity, "_MOST_BYTES", 1)
    assert len(Trial.of_samples(model, many, 1).feeds) == 8


@pytest.mark.parametrize("name", ["x86-avx512-vnni", "t4"])
def test_a_copy_that_was_tried_lets_go_of_its_constants_and_of_no_others(tmp_path: Path, name: str) -> None:
    """Of every backend, with all in integers and with nothing lowered: the model runs on as before."""
    target = targets.create(for_any_host(name))
    model = THREE.load(tmp_path)
    everything = int8_plan(model, target.profile, IMAGES)
    trial = Trial.of(model, list(IMAGES), ir.output_parts(model))
    for plan in (everything, everything.only(())):
        copy = target.rehearse(model, plan)
        expected = [error.noise for error in trial.errors(copy)]
        assert [error.noise for error in trial.last_errors(copy)] == expected
        assert all(value.const_value is None for value in copy.graph.initializers.values())
        assert all(value.const_value is not None for value in model.graph.initializers.values())
    assert {error.noise for error in trial.errors(model)} == {0.0}

"""Ranges chosen by noise at the outputs: an outlier that does not matter is clipped, one that does is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_opt import ir, targets
from infer_opt.calibrate.plan import INT8, Plan
from infer_opt.calibrate.planner import ValueRanges, integer_plan, watched_values
from infer_opt.calibrate.progress import Silent, Stages
from infer_opt.calibrate.ranges import MeanSquaredError, MinMax, Percentile, RangeMethod
from infer_opt.calibrate.repairs import choose_ranges
from infer_opt.calibrate.sensing import Sensed, sense_plans
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.statistics import collect
from tests.targets.networks import Feeds, Network, for_any_host, normal

TARGET = targets.create(for_any_host("x86-avx512-vnni"))
WEIGHTS = {"w": normal(8, 8, 1, 1, scale=0.4)}
# A Sigmoid forgets how large a number was; a sum does not.
SATURATED = Network("net (float[1,8,16,16] x) => (float[] y) { [c] a = Conv(x, w) y = Sigmoid(a) }", WEIGHTS)
LINEAR = Network("net (float[1,8,16,16] x) => (float[] y) { [c] y = Conv(x, w) }", WEIGHTS)


def samples(first: int, outlier: float) -> Feeds:
    """Each with one pixel that is far out."""
    feeds = [{"x": normal(1, 8, 16, 16, seed=seed)} for seed in range(first, first + 8)]
    for feed in feeds:
        feed["x"][0, :, 3, 3] *= outlier
    return Feeds(feeds)


def chosen(
    network: Network, outlier: float, method: RangeMethod, folder: Path
) -> tuple[ir.Model, Plan, Sensed, Sensed]:
    """The plan by one method, what was sensed of it, and of what was made of it."""
    model, feeds = network.load(folder), samples(0, outlier)
    regions = TARGET.regions(model)
    sketches = collect(model, watched_values(model, regions), feeds).sketches
    plan = integer_plan(model, regions, sketches, method)
    trial = Trial.of_samples(model, feeds, 1)
    before = sense_plans(TARGET, model, [plan], trial, Stages(Silent()))
    ranges = ValueRanges.of(model, regions, sketches, method)
    return model, plan, before, choose_ranges(TARGET, model, before, ranges, trial, trial, Stages(Silent()))


def sqnr(model: ir.Model, plan: Plan, outlier: float) -> float:
    """Of the one output, on samples that took no part."""
    [error] = Trial.of(model, list(samples(100, outlier)), {}).errors(TARGET.rehearse(model, plan))
    return error.sqnr


def test_an_outlier_that_does_not_matter_is_clipped(tmp_path: Path) -> None:
    """Before a Sigmoid, min-max loses to a tighter range."""
    model, plan, before, after = chosen(SATURATED, 40.0, MinMax(), tmp_path)
    found = after.plans[INT8]
    assert float(found.activations["a"].scale) < 0.6 * float(plan.activations["a"].scale)
    assert sqnr(model, found, 40.0) > sqnr(model, plan, 40.0) + 3
    [repair] = found.repairs
    assert (repair.regions, repair.after > repair.before) == (("c",), True)
    assert before.plans[INT8] is plan


def test_an_outlier_that_matters_is_kept(tmp_path: Path) -> None:
    """Where the output is as large as it, clipping loses to min-max."""
    model, plan, _, after = chosen(LINEAR, 40.0, Percentile(99.0), tmp_path)
    found = after.plans[INT8]
    assert float(found.activations["y"].scale) > float(plan.activations["y"].scale) * 2
    assert sqnr(model, found, 40.0) > sqnr(model, plan, 40.0) + 8


def test_the_sensitivity_is_that_of_the_repaired_plan(tmp_path: Path) -> None:
    """Measured anew, it is the same."""
    model, _, _, after = chosen(SATURATED, 40.0, MinMax(), tmp_path)
    trial = Trial.of_samples(model, samples(0, 40.0), 1)
    again = sense_plans(TARGET, model, [after.plans[INT8]], trial, Stages(Silent()))
    assert [noise.powers for noise in again.sensitivity.noises] == [
        pytest.approx(noise.powers) for noise in after.sensitivity.noises
    ]


def test_what_is_best_already_stays(tmp_path: Path) -> None:
    """Without outliers all methods are alike: nothing is changed by chance, and nothing is claimed."""
    _, _, before, after = chosen(LINEAR, 1.0, MeanSquaredError(), tmp_path)
    assert after is before

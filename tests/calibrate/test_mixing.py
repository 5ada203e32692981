"""Mixed plans: what is kept in float, at which error, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infer_opt import targets
from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.front import LEVELS, pareto_front
from infer_opt.calibrate.mixing import mixed_levels, mixed_plans
from infer_opt.calibrate.plan import Plan
from infer_opt.calibrate.planner import dynamic_plan
from infer_opt.calibrate.progress import Silent, Stages
from infer_opt.calibrate.sensing import Sensed, sense_plans
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.profiles import Profile
from tests.targets.networks import Feeds, Network, int8_plan, normal, profile, uniform_feeds

X86, ARM = profile("x86-avx512-vnni"), profile("arm-a78")
IMAGES = uniform_feeds(6, {"x": (1, 64, 24, 24)})
WEIGHTS = {name: normal(64, 64, 3, 3, seed=seed, scale=0.05) for seed, name in enumerate(("w1", "w2", "w3"))}
WEIGHTS["w2"][0] *= 300.0  # what it writes has one scale, and all channels but the first vanish in it
TEXT = """net (float[1,64,24,24] x) => (float[] y) {
    [one] a = Conv<pads=[1,1,1,1]>(x, w1) [r1] b = Relu(a)
    [two] c = Conv<pads=[1,1,1,1]>(b, w2) [r2] d = Relu(c) e = Mul(d, even)
    [three] y = Conv<pads=[1,1,1,1]>(e, w3) }"""
EVEN = np.ones((1, 64, 1, 1), np.float32)
EVEN[0, 0] = 1 / 300


def planned(folder: Path, device: Profile, budget: Budget) -> tuple[Sensed, Trial, list[Plan]]:
    """What each group of the network costs, the samples, and the plans between."""
    model = Network(TEXT, {**WEIGHTS, "even": EVEN}).load(folder)
    plan = int8_plan(model, device, IMAGES)
    trial, target, stages = Trial.of_samples(model, IMAGES, 1), targets.create(device), Stages(Silent())
    found = sense_plans(target, model, [plan], trial, stages)
    front = pareto_front(target, model, found, trial, stages, mixed_levels(budget))
    return found, trial, mixed_plans(found, front, budget)


@pytest.mark.parametrize("device", [X86, ARM], ids=["timed or not", "not timed"])
def test_what_ruins_the_output_stays_in_float(tmp_path: Path, device: Profile) -> None:
    """Each plan keeps the error in its name; the reason names error and gain."""
    found, trial, plans = planned(tmp_path, device, Budget())
    model = Network(TEXT, {**WEIGHTS, "even": EVEN}).load(tmp_path)
    levels = {plan.name: float(plan.name[6:-2]) for plan in plans if plan.name != "mixed"}
    for plan in plans:
        [error] = trial.errors(targets.create(device).rehearse(model, plan))
        assert error.sqnr >= levels.get(plan.name, -200.0) - 3
    kept = next(plan for plan in plans if levels.get(plan.name, 0.0) >= 20.0).choices["two"]
    assert kept.precision == "fp32"
    assert kept.reason.startswith("INT8 alone leaves ")
    assert ("us (measured)" in kept.reason) == (found.unmeasured is None)


def test_where_everything_is_quiet_there_is_nothing_between(tmp_path: Path) -> None:
    """Without times, every group gains; with errors that fit, all are lowered, and that plan is there already."""
    model = Network(TEXT, {**WEIGHTS, "even": EVEN}).load(tmp_path)
    trial, target, stages = Trial.of_samples(model, IMAGES, 1), targets.create(ARM), Stages(Silent())
    found = sense_plans(target, model, [int8_plan(model, ARM, IMAGES)], trial, stages)
    silent = replace(found, sensitivity=replace(found.sensitivity, signals={"y": 1e12}))
    front = pareto_front(target, model, silent, trial, stages)
    assert [len(point.lowered) for point in front] == [0, len(found.sensitivity.noises)]
    assert mixed_plans(silent, front, Budget()) == []


def test_a_stated_limit_has_a_level_of_its_own() -> None:
    """Some spare above it, and no plan that missed it in rehearsal."""
    assert mixed_levels(Budget(max_drop=0.01)) == LEVELS
    assert mixed_levels(Budget(min_sqnr=30)) == (*LEVELS, 32.0)


def test_the_fastest_plan_comes_first(tmp_path: Path) -> None:
    """And with a limit, none that misses it."""
    found, trial, plans = planned(tmp_path, ARM, Budget())
    model = Network(TEXT, {**WEIGHTS, "even": EVEN}).load(tmp_path)
    kept = [min(error.sqnr for error in trial.errors(targets.create(ARM).rehearse(model, plan))) for plan in plans]
    assert kept == sorted(kept)
    front = pareto_front(targets.create(ARM), model, found, trial, Stages(Silent()))
    limit = (kept[0] + kept[-1]) / 2
    stated = mixed_plans(found, front, Budget(min_sqnr=limit))
    assert [plan.name for plan in stated] == [
        plan.name for plan, decibels in zip(plans, kept, strict=True) if decibels >= limit
    ]


def test_a_region_goes_the_way_that_its_error_allows(tmp_path: Path) -> None:
    """Where one loud sample spoils the range of the others, the product finds its range itself; the rest has theirs."""
    text = """net (float[4,64] x) => (float[] y) {
        [one] a = MatMul(x, w) [act] b = Sigmoid(a) [turn] t = Transpose(b) [two] y = MatMul(b, t) }"""
    model = Network(text, {"w": normal(64, 64, scale=0.2)}).load(tmp_path)
    quiet = uniform_feeds(8, {"x": (4, 64)})
    loud = Feeds([*quiet.feed, {"x": quiet.feed[0]["x"] * np.float32(100)}])
    static = int8_plan(model, ARM, loud)
    plans = [static, dynamic_plan(model, static.regions)]
    trial = Trial.of_samples(model, quiet, 1)
    found = sense_plans(targets.create(ARM), model, plans, trial, Stages(Silent()))
    budget = Budget(min_sqnr=34)
    front = pareto_front(targets.create(ARM), model, found, trial, Stages(Silent()), mixed_levels(budget))
    plan, *_ = mixed_plans(found, front, budget)
    assert {name: choice.precision for name, choice in plan.choices.items()} == {
        "one": "int8-dynamic",
        "act": "fp32",
        "turn": "fp32",
        "two": "int8",
    }
    [error] = trial.errors(targets.create(ARM).rehearse(model, plan))
    assert error.sqnr > 34
    [worse] = trial.errors(targets.create(ARM).rehearse(model, static))
    assert worse.sqnr < 34

"""Mixed plans: what is kept in float, at which error, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir, targets
from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.mixing import mixed_plans
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


def sensed(folder: Path, device: Profile, scale: float = 1.0) -> tuple[ir.Model, Sensed]:
    """The network, and what each of its groups costs."""
    model = Network(TEXT, {**WEIGHTS, "even": EVEN * np.float32(scale)}).load(folder)
    plan = int8_plan(model, device, IMAGES)
    trial = Trial.of_samples(model, IMAGES, 1)
    return model, sense_plans(targets.create(device), model, [plan], trial, Stages(Silent()))


@pytest.mark.parametrize("device", [X86, ARM], ids=["timed or not", "not timed"])
def test_what_ruins_the_output_stays_in_float(tmp_path: Path, device: Profile) -> None:
    """Each plan keeps, by the prediction and for real, the error in its name; the reason names error and gain."""
    model, found = sensed(tmp_path, device)
    plans = mixed_plans(model, found, Budget())
    kept_db = []
    for plan in (plan for plan in plans if plan.name != "mixed"):
        wanted = float(plan.name.removeprefix("mixed-").removesuffix("db"))
        [error] = Trial.of_samples(model, IMAGES, 1).errors(targets.create(device).rehearse(model, plan))
        assert error.sqnr > wanted - 3
        kept_db.append(wanted)
    assert kept_db
    assert kept_db == sorted(set(kept_db))  # the fastest, which keep least, first
    kept = next(plan for plan in plans if plan.name == f"mixed-{kept_db[0]:g}db").choices["two"]
    assert kept.precision == "fp32"
    assert kept.reason.startswith("INT8 alone leaves ")
    assert ("us (measured)" in kept.reason) == (found.unmeasured is None)


def test_where_everything_is_quiet_there_is_nothing_between(tmp_path: Path) -> None:
    """Without times, every group gains; with errors that fit, all are lowered, and that plan is there already."""
    model, found = sensed(tmp_path, ARM)
    silent = replace(found, sensitivity=replace(found.sensitivity, signals={"y": 1e12}))
    assert mixed_plans(model, silent, Budget(min_sqnr=20)) == []


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
    plan, *_ = mixed_plans(model, found, Budget(min_sqnr=34))
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

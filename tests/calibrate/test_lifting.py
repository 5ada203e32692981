"""An ordered INT8 gives up what makes an output collapse, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir, targets
from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.exploring import Explorer
from infer_opt.calibrate.lifting import Lifting, lifted
from infer_opt.calibrate.metrics import TOLD
from infer_opt.calibrate.metrics.numbers import COLLAPSE_DB
from infer_opt.calibrate.plan import Plan
from infer_opt.calibrate.planner import integer_plan, watched_values
from infer_opt.calibrate.progress import Silent, Stages
from infer_opt.calibrate.ranges import MinMax
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.statistics import collect
from tests.targets.networks import Feeds, Network, normal, profile

TARGET = targets.create(profile("t4"))
# The first reads one number that is a thousand times all others; the second has nothing of the kind.
NETWORK = Network(
    """net (float[8,16] x) => (float[8,16] y) {
        a = MatMul(x, v) b = Clip(a, low, high) y = MatMul(b, w)
    }""",
    {"v": normal(16, 16), "w": normal(16, 16, seed=1), "low": np.float32(-3), "high": np.float32(3)},
    opset=20,
)


def heavy(count: int, outlier: float) -> Feeds:
    """Samples of which one element is far out."""
    feeds = [{"x": normal(8, 16, seed=seed)} for seed in range(count)]
    for feed in feeds:
        feed["x"][0, 0] = outlier
    return Feeds(feeds)


def lift(
    folder: Path, outlier: float, budget: Budget, finished: Callable[[Plan], Plan] = lambda plan: plan
) -> tuple[ir.Model, Trial, Plan, list[str]]:
    """The plan that an order of INT8 comes to."""
    model, samples = NETWORK.load(folder), heavy(4, outlier)
    regions = TARGET.regions(model)
    sketches = collect(model, watched_values(model, regions), samples).sketches
    plan = integer_plan(model, regions, sketches, MinMax())
    trial, proof = Trial.of_samples(model, samples, 1), Trial.of_samples(model, heavy(6, outlier), 1)
    explorer = Explorer(TARGET, model, samples, trial, None, Stages(Silent()))
    return (model, trial, *lifted(explorer, plan, Lifting(budget, TOLD, finished, proof)))


def test_what_makes_it_collapse_is_lifted_alone(tmp_path: Path) -> None:
    """The product that reads the outlier; the other keeps INT8, and both are told of."""
    model, trial, plan, notes = lift(tmp_path, 1e3, Budget())
    assert plan.name == "int8"
    assert [region.name for region in plan.at("int8")] == ["MatMul:y"]
    assert "INT8 alone leaves" in plan.choices["MatMul:a"].reason
    assert all(error.sqnr > COLLAPSE_DB for error in trial.errors(TARGET.rehearse(model, plan)))
    (note,) = notes
    assert note.startswith("1 of 2 regions were lifted from int8: with them, output `y` collapsed: ")


def test_nothing_is_lifted_where_nothing_collapses(tmp_path: Path) -> None:
    """The order stands."""
    _, _, plan, notes = lift(tmp_path, 1.0, Budget())
    assert len(plan.at("int8")) == 2
    assert notes == []


def test_a_stated_limit_takes_the_place_of_the_collapse(tmp_path: Path) -> None:
    """Who allows 0 dB gets what was ordered."""
    _, _, plan, notes = lift(tmp_path, 1e3, Budget(min_sqnr=0.001))
    assert len(plan.at("int8")) == 2
    assert notes == []


@pytest.mark.parametrize("outlier", [1e3])
def test_plans_are_judged_as_they_are_written(tmp_path: Path, outlier: float) -> None:
    """`finished` sees each plan before it is run."""
    seen: list[str] = []

    def finished(plan: Plan) -> Plan:
        seen.append(plan.name)
        return plan

    lift(tmp_path, outlier, Budget(), finished)
    assert seen[0] == "int8"
    assert seen[1].startswith("mixed-")

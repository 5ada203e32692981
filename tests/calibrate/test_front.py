"""The Pareto front: monotone, and as exact as it says, on samples that took no part in it too."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from infer_opt import targets
from infer_opt.calibrate.front import Point, _undominated, pareto_front
from infer_opt.calibrate.grouping import Alternative, Group
from infer_opt.calibrate.progress import Silent, Stages
from infer_opt.calibrate.sensing import sense_plans
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.profiles import Profile
from tests.targets.networks import Network, int8_plan, normal, profile, uniform_feeds

X86, ARM = profile("x86-avx512-vnni"), profile("arm-a78")
IMAGES = uniform_feeds(24, {"x": (1, 64, 16, 16)})
WEIGHTS = {name: normal(64, 64, 3, 3, seed=seed, scale=0.05) for seed, name in enumerate(("w1", "w2", "w3"))}
WEIGHTS["w2"][0] *= 30.0
WEIGHTS["b3"] = np.full(64, -6.0, np.float32)
# Boxes, and scores that are next to nothing but in few places of few samples.
DETECTOR = Network(
    """net (float[1,64,16,16] x) => (float[] y) {
        [one] a = Conv<pads=[1,1,1,1]>(x, w1) [r1] b = Relu(a)
        [two] c = Conv<pads=[1,1,1,1]>(b, w2) [r2] d = Relu(c)
        [three] e = Conv<pads=[1,1,1,1]>(d, w3, b3) [scores] f = Sigmoid(e) [join] y = Concat<axis=1>(c, f) }""",
    WEIGHTS,
)


def front_of(folder: Path, device: Profile) -> tuple[tuple[Point, ...], dict[str, dict[str, float]]]:
    """The front by 18 samples, and of each point the errors of what is built, on the 6 others."""
    model, target, stages = DETECTOR.load(folder), targets.create(device), Stages(Silent())
    feeds = list(IMAGES)
    plan = int8_plan(model, device, IMAGES)
    trial = Trial.of(model, feeds[:18], Trial.of_samples(model, IMAGES, 1).parts)
    sensed = sense_plans(target, model, [plan], trial, stages)
    front = pareto_front(target, model, sensed, trial, stages)
    held_out = Trial.of(model, feeds[18:], trial.parts)
    real = {}
    for point in front:
        lowered = plan.only([region for way in point.lowered for region in way.regions])
        real[point.words] = {error.name: error.sqnr for error in held_out.errors(target.rehearse(model, lowered))}
    return front, real


@pytest.mark.parametrize("device", [X86, ARM], ids=["timed or not", "not timed"])
def test_fewer_decibels_buy_time(tmp_path: Path, device: Profile) -> None:
    """From all in float on, each choice is worse than the one before, and faster; figures are there or not."""
    front, _ = front_of(tmp_path, device)
    assert front[0].words == "all in float"
    assert front[0].lowered == ()
    assert set(front[0].sqnr.values()) == {200.0}
    assert len(front) > 1
    assert all(before.weakest > after.weakest for before, after in itertools.pairwise(front))
    assert all(before.gain < after.gain for before, after in itertools.pairwise(front))
    timed = targets.create(device).timed_here() is None
    for point in front:
        assert (point.seconds is None, point.speedup is None) == (not timed, not timed)
        if point.seconds is not None and point.speedup is not None:
            assert point.seconds * point.speedup == pytest.approx(front[0].seconds)


def test_the_error_is_that_of_samples_that_took_no_part(tmp_path: Path) -> None:
    """Within 3 dB, boxes and scores apart."""
    front, real = front_of(tmp_path, ARM)
    assert set(front[0].sqnr) == {"y", "y[0:64]", "y[64:128]"}
    for point in front:
        assert point.sqnr == pytest.approx(real[point.words], abs=3.0)


def test_what_another_choice_beats_in_both_is_left_out() -> None:
    """Slower and worse, as slow and worse, or as exact and slower."""

    def point(name: str, decibels: float, gain: float) -> Point:
        return Point(20.0, (Alternative(Group((name,)), "int8", (name,)),), {"y": decibels}, gain, None, None)

    made = [point("a", 50, 1), point("b", 40, 3), point("c", 39, 2), point("d", 30, 3), point("e", 40, 2.5)]
    assert [kept.lowered[0].group.name for kept in _undominated(made)] == ["a", "b"]


def test_a_point_is_named_by_its_level() -> None:
    """For people, and as the candidate that is built of it."""
    points = [Point(level, (), {}, 0.0, None, None) for level in (math.inf, 32.0, -math.inf)]
    assert [point.words for point in points] == ["all in float", "32 dB", "no limit"]
    assert [point.name for point in points[1:]] == ["mixed-32db", "mixed"]

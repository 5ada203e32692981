"""The choice of groups: against every subset, counted out by hand."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

import numpy as np
import pytest

from infer_opt.calibrate.grouping import Group
from infer_opt.calibrate.selection import Boundary, select
from infer_opt.calibrate.sensitivity import Noise, Sensitivity

GROUPS = [Group((f"g{index}",)) for index in range(9)]


def sensitivity(powers: np.ndarray, signals: Sequence[float]) -> Sensitivity:
    """Noise powers [groups, parts]."""
    parts = [f"part {index}" for index in range(len(signals))]
    noises = [Noise(group, dict(zip(parts, row, strict=True))) for group, row in zip(GROUPS, powers, strict=False)]
    return Sensitivity(dict(zip(parts, signals, strict=True)), tuple(noises))


def seconds(chosen: Sequence[Group], gains: dict[Group, float], boundaries: Sequence[Boundary]) -> float:
    """What a choice saves."""
    crossed = sum(edge.seconds for edge in boundaries if (edge.before in chosen) != (edge.after in chosen))
    return sum(gains[group] for group in chosen) - crossed


@pytest.mark.parametrize("seed", range(12))
def test_no_other_choice_inside_the_budget_is_faster(seed: int) -> None:
    """Of all 512, with random gains, losses, boundaries and noises."""
    random = np.random.default_rng(seed)
    gains = dict(zip(GROUPS, random.normal(0.5, 1, len(GROUPS)) * 1e-3, strict=True))
    pairs = [(a, b) for a, b in itertools.pairwise(GROUPS)] + [(GROUPS[0], GROUPS[5]), (GROUPS[2], GROUPS[7])]
    boundaries = [Boundary(a, b, float(random.uniform(0, 1e-3))) for a, b in pairs]
    found = sensitivity(random.uniform(0, 1, (len(GROUPS), 2)) ** 4, [100.0, 30.0])
    subsets = [subset for count in range(len(GROUPS) + 1) for subset in itertools.combinations(GROUPS, count)]
    inside = [subset for subset in subsets if min(found.sqnr(subset).values()) >= 20.0]
    best = max(seconds(subset, gains, boundaries) for subset in inside)
    chosen = select(found, gains, boundaries, 20.0)
    assert min(found.sqnr(chosen).values()) >= 20.0 - 1e-6
    assert seconds(chosen, gains, boundaries) == pytest.approx(best, abs=1e-9)


def test_without_a_limit_what_loses_stays_in_float_unless_its_neighbours_need_it() -> None:
    """A group that loses a little between two that gain is lowered where the boundaries would cost more."""
    gains = {GROUPS[0]: 1e-3, GROUPS[1]: -1e-4, GROUPS[2]: 1e-3}
    found = sensitivity(np.ones((3, 1)), [1.0])
    edges = [Boundary(GROUPS[0], GROUPS[1], 8e-5), Boundary(GROUPS[1], GROUPS[2], 8e-5)]
    assert select(found, gains, edges, None) == tuple(GROUPS[:3])
    assert select(found, gains, [], None) == (GROUPS[0], GROUPS[2])


def test_a_limit_that_nothing_meets_leaves_all_in_float() -> None:
    """And so does a group whose output is not finite."""
    gains = dict.fromkeys(GROUPS[:2], 1e-3)
    assert select(sensitivity(np.ones((2, 1)), [1.0]), gains, [], 20.0) == ()
    broken = sensitivity(np.array([[np.inf], [1e-6]]), [1.0])
    assert select(broken, gains, [], 20.0) == (GROUPS[1],)


def test_the_solver_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Not even below Python: stdout is for the answer. It works again afterwards."""
    random = np.random.default_rng(0)
    gains = dict(zip(GROUPS, random.uniform(0, 1, len(GROUPS)), strict=True))
    select(sensitivity(random.uniform(0, 1, (len(GROUPS), 3)), [10.0] * 3), gains, [], 10.0)
    assert capfd.readouterr() == ("", "")
    os.write(1, b"still there")
    assert capfd.readouterr().out == "still there"

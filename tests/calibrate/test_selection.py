"""The choice of groups: against every subset, counted out by hand."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from infer_opt.calibrate.boundaries import Boundary
from infer_opt.calibrate.grouping import Alternative, Group
from infer_opt.calibrate.selection import select
from infer_opt.calibrate.sensitivity import Noise, Sensitivity

WAYS = [Alternative(Group((f"g{index}",)), "int8", (f"g{index}",)) for index in range(9)]


def sensitivity(powers: np.ndarray, signals: Sequence[float], ways: Sequence[Alternative] = WAYS) -> Sensitivity:
    """Noise powers [alternatives, parts]."""
    parts = [f"part {index}" for index in range(len(signals))]
    noises = [Noise(way, dict(zip(parts, row, strict=True))) for way, row in zip(ways, powers, strict=False)]
    return Sensitivity(dict(zip(parts, signals, strict=True)), tuple(noises))


def seconds(chosen: Sequence[Alternative], gains: dict[Alternative, float], boundaries: Sequence[Boundary]) -> float:
    """What a choice saves."""
    return sum(gains[way] for way in chosen) - sum(each.cost(chosen) for each in boundaries)


def between(one: Alternative, other: Alternative, cost: float, back: float | None = None) -> Boundary:
    """A value that one group hands on to another; turned back at the same cost unless told."""
    return Boundary(cost if back is None else back, cost, (one,), ((other,),), always_float=False)


def test_a_value_is_turned_once_for_all_that_read_it() -> None:
    """Whoever writes or reads it so; nothing where somebody reads it in float whatever is lowered."""
    a, b, c = WAYS[:3]
    value = Boundary(1.0, 1.0, (a,), ((b,), (c,)), always_float=False)
    costs = {(a,): 1.0, (a, b): 1.0, (a, b, c): 0.0, (): 0.0, (b,): 1.0, (b, c): 1.0}
    assert {chosen: value.cost(chosen) for chosen in costs} == costs
    shared = replace(value, always_float=True)
    assert {chosen: shared.cost(chosen) for chosen in costs} == costs | {(a,): 0.0, (a, b): 0.0}
    written_as_wanted = replace(value, to_float=0.0)
    assert {chosen: written_as_wanted.cost(chosen) for chosen in costs} == costs | {(a,): 0.0, (a, b): 0.0}
    from_outside = replace(value, writers=())
    assert [from_outside.cost(chosen) for chosen in ((), (b,), (b, c))] == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("seed", range(12))
def test_no_other_choice_inside_the_budget_is_faster(seed: int) -> None:
    """Of all 512, with random gains, losses, boundaries and noises."""
    random = np.random.default_rng(seed)
    gains = dict(zip(WAYS, random.normal(0.5, 1, len(WAYS)) * 1e-3, strict=True))
    pairs = [(a, b) for a, b in itertools.pairwise(WAYS)] + [(WAYS[0], WAYS[5]), (WAYS[2], WAYS[7])]
    boundaries = [between(a, b, float(random.uniform(0, 1e-3))) for a, b in pairs]
    back, there = random.uniform(0, 1e-3, 2)
    boundaries += [
        Boundary(float(back), float(there), (WAYS[3],), ((WAYS[4],), (WAYS[6],), (WAYS[8],)), seed % 2 == 0),
        between(WAYS[1], WAYS[6], float(there), back=0.0),
        Boundary(0.0, float(back), (), ((WAYS[0],), (WAYS[4],)), always_float=False),
    ]
    found = sensitivity(random.uniform(0, 1, (len(WAYS), 2)) ** 4, [100.0, 30.0])
    subsets = [subset for count in range(len(WAYS) + 1) for subset in itertools.combinations(WAYS, count)]
    inside = [subset for subset in subsets if min(found.sqnr(subset).values()) >= 20.0]
    best = max(seconds(subset, gains, boundaries) for subset in inside)
    chosen = select(found, gains, boundaries, 20.0)
    assert min(found.sqnr(chosen).values()) >= 20.0 - 1e-6
    assert seconds(chosen, gains, boundaries) == pytest.approx(best, abs=1e-9)


def test_without_a_limit_what_loses_stays_in_float_unless_its_neighbours_need_it() -> None:
    """A group that loses a little between two that gain is lowered where the boundaries would cost more."""
    gains = {WAYS[0]: 1e-3, WAYS[1]: -1e-4, WAYS[2]: 1e-3}
    found = sensitivity(np.ones((3, 1)), [1.0])
    edges = [between(WAYS[0], WAYS[1], 8e-5), between(WAYS[1], WAYS[2], 8e-5)]
    assert select(found, gains, edges, None) == tuple(WAYS[:3])
    assert select(found, gains, [], None) == (WAYS[0], WAYS[2])


@pytest.mark.parametrize("seed", range(12))
def test_of_several_ways_to_lower_a_group_the_choice_is_the_fastest_together(seed: int) -> None:
    """Of all 243 for five groups that stay in float or go one of two ways; only the first hands on integers."""
    random = np.random.default_rng(seed)
    rivals = [replace(way, plan="int8-dynamic") for way in WAYS[:5]]
    ways = [way for pair in zip(WAYS, rivals, strict=False) for way in pair]
    gains = dict(zip(ways, random.normal(0.5, 1, len(ways)) * 1e-3, strict=True))
    pairs = list(itertools.pairwise(WAYS[:5]))
    boundaries = [between(a, b, float(random.uniform(0, 1e-3))) for a, b in pairs]
    found = sensitivity(random.uniform(0, 1, (len(ways), 2)) ** 4, [60.0, 20.0], ways)
    every = itertools.product(*((None, *pair) for pair in zip(WAYS, rivals, strict=False)))
    subsets = [tuple(way for way in choice if way is not None) for choice in every]
    inside = [subset for subset in subsets if min(found.sqnr(subset).values()) >= 20.0]
    best = max(seconds(subset, gains, boundaries) for subset in inside)
    chosen = select(found, gains, boundaries, 20.0)
    assert len({way.group for way in chosen}) == len(chosen)
    assert min(found.sqnr(chosen).values()) >= 20.0 - 1e-6
    assert seconds(chosen, gains, boundaries) == pytest.approx(best, abs=1e-9)


def test_a_group_is_lowered_once_though_every_way_gains() -> None:
    """The faster way where the error allows it, else the quieter one."""
    static, dynamic = WAYS[0], replace(WAYS[0], plan="int8-dynamic")
    gains = {static: 2e-3, dynamic: 1e-3}
    found = sensitivity(np.array([[1e-2], [1e-4]]), [1.0], [static, dynamic])
    assert select(found, gains, [], None) == (static,)
    assert select(found, gains, [], 19.0) == (static,)
    assert select(found, gains, [], 21.0) == (dynamic,)


def test_a_limit_that_nothing_meets_leaves_all_in_float() -> None:
    """And so does a group whose output is not finite."""
    gains = dict.fromkeys(WAYS[:2], 1e-3)
    assert select(sensitivity(np.ones((2, 1)), [1.0]), gains, [], 20.0) == ()
    broken = sensitivity(np.array([[np.inf], [1e-6]]), [1.0])
    assert select(broken, gains, [], 20.0) == (WAYS[1],)


def test_the_solver_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Not even below Python: stdout is for the answer. It works again afterwards."""
    random = np.random.default_rng(0)
    gains = dict(zip(WAYS, random.uniform(0, 1, len(WAYS)), strict=True))
    select(sensitivity(random.uniform(0, 1, (len(WAYS), 3)), [10.0] * 3), gains, [], 10.0)
    assert capfd.readouterr() == ("", "")
    os.write(1, b"still there")
    assert capfd.readouterr().out == "still there"

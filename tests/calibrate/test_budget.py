"""Budgets: what misses a limit, in which words, and what the defaults refuse."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.metrics import Numbers, OutputError
from tests.calibrate.metrics.made_errors import (
    broken,
    classes,
    error_of,
    floats,
    integers,
    mask,
    reshaped,
    unit,
    with_sqnr,
)


def with_weakest(decibels: float) -> OutputError:
    """Boxes of 640 pixels beside scores around 1, of which so many dB are left: far more all together."""
    noise = 10 ** (-decibels / 20)
    got = np.array([[640, 1 + noise], [640, -1 - noise]], np.float32)
    error = error_of(np.array([[640, 1], [640, -1]], np.float32), got, "boxes")
    assert error.sqnr > 50
    return error


def found(hits: int) -> OutputError:
    """A mask of 100 places, of which so many are found."""
    return error_of(mask(100, 400), mask(hits, 400), "mask")


def turned(cosine: float) -> OutputError:
    """Vectors that keep such a cosine."""
    first, second = np.zeros((2, 1, 1, 64), np.float32)
    sine = (1 - cosine**2) ** 0.5
    first[..., :2], second[..., :2] = (1, -1), (cosine + sine, sine - cosine)
    return error_of(first, second, "vectors")


def unjudged(**flags: bool) -> OutputError:
    """A whole whose parts are judged, or a state; next to nothing of it is left."""
    return OutputError("y", elements=100, kinds=(), numbers=Numbers(signal=1.0, noise=1.0), **flags)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (with_sqnr(32.01), None),
        (with_sqnr(31.9), "output `boxes` keeps 31.9 dB, under 32 dB"),
        (classes(90, 100), None),
        (classes(100, 100, decibels=10.1), None),
        (classes(89, 100), "top class of `logits` agrees on 89.0% of samples, under 90%"),
        (classes(3, 4), "top class of `logits` agrees on 75.0% of samples, under 90%"),
        (classes(100, 100, divergence=0.06), "scores of `logits` diverge by 0.060 nats, over 0.05"),
        (classes(100, 100, decibels=9.5), "output `logits` keeps 9.5 dB, under 10 dB"),
        (found(91), None),
        (found(90), "what `mask` says yes to (over 0.5) has F1 0.947, under 0.95"),
        (turned(0.991), None),
        (turned(0.98), "vectors of `vectors` keep a cosine of 0.980, under 0.99"),
        (unjudged(joined=True), None),
        (unjudged(state=True), None),
        (integers(0), None),
        (integers(3), "3 of 50 elements of output `top` differ"),
        (with_weakest(20.1), None),
        (with_weakest(19.9), "output `boxes` keeps 19.9 dB at axis 1, index 1, under 20 dB"),
        (reshaped(), "output `boxes` has another shape than the original's"),
        (broken(), "output `logits` has NaN or Inf in other places than the original"),
    ],
)
def test_the_defaults_refuse(error: OutputError, reason: str | None) -> None:
    """Where no limit is stated."""
    assert Budget().refuses([with_sqnr(60), error]) == reason


def test_stated_limits_take_the_place_of_the_defaults() -> None:
    """25 dB are too few by default and enough for --min-sqnr 20; 95 % are enough for --max-drop 0.1."""
    assert Budget(min_sqnr=20).refuses([with_sqnr(25)]) is None
    assert Budget(min_sqnr=50).refuses([with_sqnr(45)]) == "output `boxes` keeps 45.0 dB of --min-sqnr 50"
    assert Budget(max_drop=0.1).refuses([classes(95, 100)]) is None
    assert Budget(max_drop=0.01).refuses([classes(95, 100)]) == "output `logits` loses 0.050 of --max-drop 0.01"
    assert Budget(min_sqnr=20).refuses([classes(50, 100, decibels=25)]) is None
    assert Budget(min_sqnr=50).refuses([with_weakest(0)]) is None


def test_a_drop_is_in_the_unit_of_the_kind() -> None:
    """80 of 100 places: F1 is 160 / 180, the drop 1 / 9; a cosine of 0.9 has dropped 0.1."""
    assert Budget(max_drop=0.1).refuses([found(80)]) == "output `mask` loses 0.111 of --max-drop 0.1"
    assert Budget(max_drop=0.12).refuses([found(80)]) is None
    assert Budget(max_drop=0.09).refuses([turned(0.9)]) == "output `vectors` loses 0.100 of --max-drop 0.09"
    assert Budget(max_drop=0.11).refuses([turned(0.9)]) is None


@pytest.mark.parametrize("error", [with_sqnr(5), with_weakest(5), integers(1), reshaped(), broken()])
def test_an_output_that_no_limit_speaks_of_is_judged_by_the_defaults(error: OutputError) -> None:
    """A drop in accuracy says nothing of boxes, integers, shapes and NaN: they must not pass unjudged."""
    assert Budget(max_drop=0.5).refuses([classes(100, 100), error]) is not None
    assert Budget(max_drop=0.5).refuses([classes(100, 100)]) is None


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (with_sqnr(20.1), None),
        (with_sqnr(19.9), "output `boxes` collapsed: it keeps 19.9 dB, under 20 dB"),
        (classes(50, 100), None),
        (classes(49, 100), "output `logits` collapsed: its top class agrees on 49.0% of samples, under 50%"),
        (classes(100, 100, decibels=10.1), None),
        (classes(100, 100, decibels=9.9), "output `logits` collapsed: it keeps 9.9 dB, under 10 dB"),
        (found(67), None),
        (found(66), "output `mask` collapsed: it overlaps the original's by 0.795, under 0.8"),
        (turned(0.91), None),
        (turned(0.89), "output `vectors` collapsed: its vectors keep a cosine of 0.890, under 0.9"),
        (unjudged(joined=True), None),
        (unjudged(state=True), None),
        (integers(50), None),
        (reshaped(), "output `boxes` has another shape than the original's"),
        (broken(), "output `logits` has NaN or Inf in other places than the original"),
    ],
)
def test_a_collapse_is_told_without_any_limit(error: OutputError, words: str | None) -> None:
    """Far below what the defaults refuse, since no order of a precision covers it."""
    assert Budget().collapses([with_sqnr(60), error]) == ([] if words is None else [words])
    assert Budget(min_speedup=2).collapses([error]) == ([] if words is None else [words])


def test_a_stated_limit_takes_the_place_of_the_collapse() -> None:
    """Whoever states 10 dB has said what is of use; --max-drop still says nothing of boxes."""
    assert Budget(min_sqnr=10).collapses([with_sqnr(15), classes(40, 100, decibels=15)]) == []
    assert Budget(max_drop=0.7).collapses([classes(40, 100)]) == []
    assert len(Budget(max_drop=0.7).collapses([classes(40, 100), with_sqnr(15)])) == 1


@pytest.mark.parametrize("error", [reshaped(), broken()])
def test_no_stated_limit_allows_what_is_broken(error: OutputError) -> None:
    """However loose it is."""
    loose = Budget(max_drop=1.0, min_sqnr=-300)
    assert loose.collapses([error]) == [f"output `{error.name}` {error.broken}"]
    assert loose.refuses([error]) == f"output `{error.name}` {error.broken}"


@pytest.mark.parametrize(
    ("budget", "stated"),
    [
        (Budget(), False),
        (Budget(min_speedup=2), False),
        (Budget(max_drop=0.0), True),
        (Budget(min_sqnr=0.0), True),
    ],
)
def test_a_limit_on_errors_may_be_stated(budget: Budget, *, stated: bool) -> None:
    """A speed-up is none, and 0 is one."""
    assert budget.stated == stated


def test_an_integer_output_is_not_judged_by_its_noise() -> None:
    """--min-sqnr is about floats; unequal integers are refused all the same."""
    assert Budget(min_sqnr=1).faults([integers(3)], None) == []
    assert Budget(min_sqnr=1).refuses([integers(3)]) == "3 of 50 elements of output `top` differ"


def test_a_state_is_judged_by_what_comes_of_it() -> None:
    """Whatever limit is stated; a whole has to keep a stated SQNR as its parts have to, and has no drop of its own."""
    both = Budget(max_drop=0.0, min_sqnr=60)
    assert both.faults([unjudged(state=True)], None) == []
    assert both.refuses([unjudged(state=True)]) is None
    assert both.faults([unjudged(joined=True)], None) == ["output `y` keeps 0.0 dB of --min-sqnr 60"]


@pytest.mark.parametrize(
    ("rows", "agreeing", "drop"), [(100, 99, 0.01), (1000, 993, 0.007), (10, 9, 0.1), (3, 2, 1 / 3)]
)
def test_a_drop_of_exactly_the_limit_is_inside(rows: int, agreeing: int, drop: float) -> None:
    """1 - 99 / 100 is more than 0.01 in floating point, and must not count as more."""
    assert Budget(max_drop=drop).faults([classes(agreeing, rows)], None) == []
    assert len(Budget(max_drop=drop).faults([classes(agreeing - 1, rows)], None)) == 1


def test_faults_name_every_miss() -> None:
    """One line each, in the order of the outputs, latency last."""
    budget = Budget(max_drop=0.02, min_sqnr=35, min_speedup=2)
    faults = budget.faults([with_sqnr(20), classes(90, 100), with_sqnr(36, "fine")], 1.234)
    assert faults == [
        "output `boxes` keeps 20.0 dB of --min-sqnr 35",
        "output `logits` loses 0.100 of --max-drop 0.02",
        "speed-up 1.23x (measured) misses --min-speedup 2",
    ]


def test_no_limits_have_no_faults() -> None:
    """Defaults refuse a candidate; they are no budget that an order could miss."""
    assert Budget().faults([with_sqnr(-5), classes(0, 10), integers(50)], 0.1) == []


def test_a_limit_that_speaks_of_nothing_compared_is_told() -> None:
    """Of no output at all where nothing was verified; of none that has floats, or a kind with a drop."""
    both = Budget(max_drop=0.1, min_sqnr=30)
    sqnr = "--min-sqnr cannot be checked: no float output was compared"
    drop = "--max-drop cannot be checked: no output of classes, shares or vectors was compared"
    assert both.unchecked([]) == [sqnr, drop]
    assert both.unchecked([integers(0)]) == [sqnr, drop]
    assert both.unchecked([integers(0), unjudged(state=True)]) == [sqnr, drop]
    assert both.unchecked([with_sqnr(40)]) == [drop]
    assert both.unchecked([unjudged(joined=True)]) == [drop]
    for error in (classes(9, 10), found(100), error_of(unit(4, 64), unit(4, 64))):
        assert both.unchecked([with_sqnr(40), error]) == []
    assert both.unchecked([error_of(floats(0, 1), floats(0, 1))]) == []
    assert Budget(min_speedup=2).unchecked([]) == []


@pytest.mark.parametrize(("speedup", "faults"), [(2.0, 0), (1.99, 1), (None, 0)])
def test_a_speed_up_that_was_not_measured_is_no_fault_here(speedup: float | None, faults: int) -> None:
    """Whoever could not measure says so; see compile."""
    assert len(Budget(min_speedup=2).faults([], speedup)) == faults

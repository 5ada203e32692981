"""Budgets: what misses a limit, in which words, and what the defaults refuse."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.metrics import OutputError


def with_sqnr(decibels: float, name: str = "boxes") -> OutputError:
    """A float output that keeps so many dB."""
    return OutputError(name, signal=10 ** (decibels / 10), noise=1.0, elements=100)


def classes(agreeing: int, rows: int, *, decibels: float = 40.0, divergence: float = 0.0) -> OutputError:
    """Class scores of which so many rows agree; the divergence is that of a row."""
    error = with_sqnr(decibels, "logits")
    error.rows, error.agreeing, error.divergence, error.peaks = rows, agreeing, divergence * rows, rows
    return error


def with_weakest(decibels: float) -> OutputError:
    """Boxes of 640 pixels beside scores around 1, of which so many dB are left: far more all together."""
    error = OutputError("boxes")
    noise = 10 ** (-decibels / 20)
    error.add(np.array([[640, 1], [640, -1]], np.float32), np.array([[640, 1 + noise], [640, -1 - noise]], np.float32))
    assert error.sqnr > 50
    return error


def broken() -> OutputError:
    """Class scores with a NaN, of which the largest is the original's all the same."""
    error = OutputError("logits")
    error.add(np.array([[0.9, 0.1]], np.float32), np.array([[np.nan, 0.1]], np.float32))
    assert error.agreement == 1.0
    return error


def integers(unequal: int) -> OutputError:
    """An integer output with unequal elements."""
    return OutputError("top", floats=False, elements=50, unequal=unequal)


def reshaped() -> OutputError:
    """An output of another shape."""
    error = OutputError("boxes")
    error.add(np.ones((1, 2, 3), np.float32), np.ones((1, 3, 2), np.float32))
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (with_sqnr(30.01), None),
        (with_sqnr(29.9), "output `boxes` keeps 29.9 dB, under 30 dB"),
        (classes(99, 100), None),
        (classes(100, 100, decibels=10.1), None),
        (classes(98, 100), "top class of `logits` agrees on 98.0% of samples, under 99%"),
        (classes(3, 4), "top class of `logits` agrees on 75.0% of samples, under 99%"),
        (classes(100, 100, divergence=0.06), "scores of `logits` diverge by 0.060 nats, over 0.05"),
        (classes(100, 100, decibels=9.5), "output `logits` keeps 9.5 dB, under 10 dB"),
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
    """Of no output at all where nothing was verified; of none that has floats, or classes."""
    both = Budget(max_drop=0.1, min_sqnr=30)
    sqnr = "--min-sqnr cannot be checked: no float output was compared"
    drop = "--max-drop cannot be checked: no output with class scores was compared"
    assert both.unchecked([]) == [sqnr, drop]
    assert both.unchecked([integers(0)]) == [sqnr, drop]
    assert both.unchecked([with_sqnr(40)]) == [drop]
    assert both.unchecked([with_sqnr(40), classes(9, 10)]) == []
    assert Budget(min_speedup=2).unchecked([]) == []


@pytest.mark.parametrize(("speedup", "faults"), [(2.0, 0), (1.99, 1), (None, 0)])
def test_a_speed_up_that_was_not_measured_is_no_fault_here(speedup: float | None, faults: int) -> None:
    """Whoever could not measure says so; see compile."""
    assert len(Budget(min_speedup=2).faults([], speedup)) == faults

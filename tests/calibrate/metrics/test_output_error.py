"""The error of an output: which kind judges it, and what no kind allows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from infer_opt.calibrate.metrics import EXACT_DB, OutputError
from tests.calibrate.metrics.made_errors import (
    broken,
    classes,
    error_of,
    floats,
    integers,
    logits,
    mask,
    reshaped,
    softmax,
    uniform,
    unit,
    with_sqnr,
)
from tests.targets.networks import normal


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (softmax(normal(4, 10)), "class scores"),
        (softmax(normal(1, 4, 10)), "class scores"),
        (logits(4, 100), "class scores"),
        (mask(40, 400), "shares"),
        (mask(40, 400).reshape(1, 1, 20, 20), "shares"),
        (unit(4, 128), "directions"),
        (normal(1, 7, 64), "directions"),
        (uniform(16, 4), "numbers"),
        (uniform(16, 4) * 640, "numbers"),
        (normal(1, 3, 8, 8), "numbers"),
        (normal(5), "numbers"),
        (np.ones((0, 4), np.float32), "numbers"),
    ],
)
def test_the_kind_is_told_by_what_the_original_gives(output: np.ndarray, kind: str) -> None:
    """Whatever the candidate makes of it."""
    assert error_of(output, output).kind.name == kind
    assert error_of(output, np.zeros_like(output)).kind.name == kind


def test_the_kind_has_to_fit_all_samples() -> None:
    """A mask, then one that adds up to 1 like probabilities; a mask, then numbers."""
    error = error_of(floats(1, 1, 0, 0), floats(1, 1, 0, 0))
    assert error.kind.name == "shares"
    error.add(floats(1, 0, 0, 0), floats(1, 0, 0, 0))
    assert error.kind.name == "shares"
    error.add(floats(7, 0, 0, 0), floats(7, 0, 0, 0))
    assert error.kind.name == "numbers"


def test_powers_alone_cost_no_kinds() -> None:
    """For those who compare SQNR and nothing else."""
    error = OutputError("y", kinds=())
    error.add(softmax(normal(4, 10)), softmax(normal(4, 10)))
    assert (error.kind.name, error.drop) == ("numbers", None)


@pytest.mark.parametrize("flags", [{"joined": True}, {"state": True}])
def test_what_is_judged_elsewhere_is_told_and_not_judged(flags: dict[str, bool]) -> None:
    """A whole whose parts are judged, and a state; both may still be broken."""
    error = OutputError("y", **flags)
    error.add(floats(0.9, 0.1), floats(0.1, 0.9))
    assert (error.judged, error.drop, error.refusal(), error.collapse()) == (False, None, None, None)
    assert error.sqnr < 1
    error.add(floats(0.9, 0.1), floats(np.nan, 0.1))
    message = "output `y` has NaN or Inf in other places than the original"
    assert (error.refusal(), error.collapse()) == (message, message)


def test_class_scores_that_are_noise_are_refused_whatever_agrees() -> None:
    """10 dB, at least; numbers have limits of their own."""
    assert classes(10, 10, decibels=10.1).refusal() is None
    assert classes(10, 10, decibels=9.9).refusal() == "output `logits` keeps 9.9 dB, under 10 dB"
    assert classes(10, 10, decibels=9.9).collapse() == "output `logits` collapsed: it keeps 9.9 dB, under 10 dB"
    assert with_sqnr(9.9).refusal() == "output `boxes` keeps 9.9 dB, under 32 dB"


def test_integers_are_judged_by_equality() -> None:
    """They have no kind, and never collapse."""
    assert (integers(0).refusal(), integers(0).collapse(), integers(0).judged) == (None, None, False)
    assert integers(3).refusal() == "3 of 50 elements of output `top` differ"
    assert integers(3).collapse() is None
    assert integers(3).drop is None


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_integers_are_equal_or_not(dtype: type[np.generic]) -> None:
    """Unequal elements are counted; one is enough to lose."""
    reference = np.array([1, 0, 1, 1], dtype)
    error = error_of(reference, reference)
    assert (error.floats, error.unequal, error.sqnr) == (False, 0, EXACT_DB)
    error.add(reference, np.array([0, 0, 1, 0], dtype))
    assert (error.unequal, error.elements, error.sqnr) == (2, 8, -EXACT_DB)


def test_strings_are_compared_too() -> None:
    """Outputs of text models are object arrays."""
    assert error_of(np.array(["a", "b"], object), np.array(["a", "c"], object)).unequal == 1


def test_another_shape_is_an_error_beyond_measure() -> None:
    """Also where the elements are the same."""
    error = reshaped()
    assert error.shape_differs
    assert error.sqnr == -EXACT_DB
    assert error.broken == "has another shape than the original's"
    assert error.refusal() == error.collapse() == "output `boxes` has another shape than the original's"


@pytest.mark.parametrize(
    ("reference", "got", "sqnr"),
    [
        ((np.nan, 1, 2), (np.nan, 1, 2), EXACT_DB),
        ((np.inf, 1, 2), (np.inf, 1, 2), EXACT_DB),
        ((-np.inf, 3, 4), (-np.inf, 3, 3.5), 20.0),
        ((np.inf, 1, 2), (-np.inf, 1, 2), -EXACT_DB),
        ((np.nan, 1, 2), (0, 1, 2), -EXACT_DB),
        ((0, 1, 2), (np.nan, 1, 2), -EXACT_DB),
        ((0, 1, 2), (np.inf, 1, 2), -EXACT_DB),
        ((np.inf, 1, 2), (np.nan, 1, 2), -EXACT_DB),
    ],
)
def test_nan_and_infinities_have_to_stand_where_the_original_has_them(
    reference: tuple[float, ...], got: tuple[float, ...], sqnr: float
) -> None:
    """Then only the finite elements count; anywhere else they are an error beyond measure."""
    error = error_of(np.array(reference, np.float32), np.array(got, np.float32))
    assert error.sqnr == pytest.approx(sqnr)
    assert error.broken == ("has NaN or Inf in other places than the original" if sqnr < 0 else None)


def test_a_nan_is_broken_though_the_class_is_right() -> None:
    """Its largest is the original's all the same."""
    assert broken().drop == 0.0
    assert broken().refusal() == "output `logits` has NaN or Inf in other places than the original"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_largest_error_of_a_broken_output_is_infinite(bad: float) -> None:
    """A NaN must not read as no error."""
    assert error_of(floats(1, 2), floats(1, bad)).largest == math.inf


def test_the_largest_error_is_that_of_all_samples() -> None:
    """Of the elements where both are finite."""
    error = error_of(floats(1, 2), floats(1, 2.5))
    error.add(floats(np.inf, 5), floats(np.inf, 4.25))
    error.add(floats(1, 2), floats(1, 2))
    assert (error.largest, error.elements) == (0.75, 6)


def test_half_precision_is_measured_without_overflow() -> None:
    """Powers are summed in float64: 60,000 squared is beyond float16."""
    error = error_of(np.full(10, 60000, np.float16), np.full(10, 59968, np.float16))
    assert error.sqnr == pytest.approx(20 * math.log10(60000 / 32))


def test_an_empty_output_is_exact() -> None:
    """Nothing in it can differ."""
    error = error_of(np.ones((0, 4), np.float32), np.ones((0, 4), np.float32))
    assert (error.sqnr, error.largest, error.elements, error.drop) == (EXACT_DB, 0.0, 0, None)
    assert error.refusal() is None

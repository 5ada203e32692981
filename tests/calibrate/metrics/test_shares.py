"""Shares: overlap and F1, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.metrics import Shares
from tests.calibrate.metrics.made_errors import error_of, floats, mask, uniform
from tests.targets.networks import normal


def shares_of(reference: np.ndarray, got: np.ndarray) -> Shares:
    """The shares of one sample."""
    shares = Shares()
    shares.add(reference, got)
    return shares


@pytest.mark.parametrize(
    ("got", "overlap"),
    [
        ((1, 0, 0), 1.0),
        ((0.5, 0, 0), 2 * 0.5 / 1.5),
        ((0.5, 0.5, 0), 2 * 0.5 / 2),
        ((0, 0, 1), 0.0),
        ((1, 1, 1), 2 * 1 / 4),
    ],
)
def test_the_overlap_is_dices_coefficient(got: tuple[float, ...], overlap: float) -> None:
    """2 sum(min(a, b)) / sum(a + b) against (1, 0, 0); what is said yes to in excess counts like what is missed."""
    shares = shares_of(floats(1, 0, 0), floats(*got))
    assert shares.overlap == pytest.approx(overlap)
    assert shares.error == pytest.approx(1 - overlap)
    assert (shares.f1, shares.drop) == (None, pytest.approx(1 - overlap, abs=1e-6))
    assert shares.words() == f"overlap {overlap:.3f}"


def test_f1_counts_places_over_a_half() -> None:
    """Of 32 places 24 are found, and 4 others: 2 x 24 / (32 + 28) = 0.8; pooled with 32 of 32: 112 / 124."""
    reference, got = mask(32, 400), mask(28, 400)
    got[0, 24:28], got[0, 100:104] = 0, 0.51
    shares = shares_of(reference, got)
    assert (shares.yes, shares.got, shares.hits) == (32, 28, 24)
    assert (shares.f1, shares.drop) == (pytest.approx(0.8), pytest.approx(0.2))
    assert shares.words() == "F1 0.800"
    assert shares.refusal("mask") == "what `mask` says yes to (over 0.5) has F1 0.800, under 0.95"
    shares.add(reference, reference)
    assert shares.f1 == pytest.approx(112 / 124)


def test_hits_on_hard_numbers_are_the_overlap() -> None:
    """Where all numbers are 0 or 1, both are the same."""
    rng = np.random.default_rng(0)
    reference, got = ((rng.random((1, 1, 20, 20)) < 0.3).astype(np.float32) for _ in range(2))
    shares = shares_of(reference, got)
    assert shares.f1 == pytest.approx(shares.overlap)


def test_a_drop_of_exactly_the_limit_is_the_limit() -> None:
    """F1 of 0.95 and 0.93: 1 - 0.95 is more than 0.05 in floating point."""
    for lost in (5, 7):
        got = mask(100, 1000)
        got[0, 100 - lost : 100], got[0, 500 : 500 + lost] = 0, 1
        assert shares_of(mask(100, 1000), got).drop == lost / 100


@pytest.mark.parametrize(("found", "words"), [(32, "has F1 0.000, under 0.95"), (20, "by 0.000, under 0.95")])
def test_a_detector_that_finds_nothing_is_refused(found: int, words: str) -> None:
    """Though it agrees with the original at 99 % of all places and more."""
    reference = mask(found, 3200) * np.float32(0.95)
    nothing = np.zeros_like(reference)
    assert ((reference > 0.5) == (nothing > 0.5)).mean() >= 0.99
    error = error_of(reference, nothing, "scores")
    assert error.kind.name == "shares"
    assert error.drop == 1.0
    refusal, collapse = error.refusal(), error.collapse()
    assert refusal is not None
    assert refusal.endswith(words)
    assert collapse == "output `scores` collapsed: it overlaps the original's by 0.000, under 0.8"


def test_few_places_are_no_f1() -> None:
    """With 31 of them one place is 3 %: the overlap decides."""
    assert shares_of(mask(31, 400), mask(31, 400)).f1 is None
    assert shares_of(mask(32, 400), mask(32, 400)).f1 == 1.0


def test_the_overlap_is_judged_beside_f1() -> None:
    """All over 0.5 still, and less of it: 2 x 0.7 / 1.7 = 0.824, and 2 x 0.6 / 1.6 = 0.75."""
    shares = shares_of(mask(40, 400), mask(40, 400) * np.float32(0.7))
    assert shares.f1 == 1.0
    assert shares.refusal("mask") == "output `mask` overlaps the original's by 0.824, under 0.95"
    assert shares.collapse("mask") is None
    less = shares_of(mask(40, 400), mask(40, 400) * np.float32(0.6))
    assert less.collapse("mask") == "output `mask` collapsed: it overlaps the original's by 0.750, under 0.8"
    assert shares.matters
    assert not shares_of(mask(40, 400), mask(40, 400) * np.float32(0.95)).matters


@pytest.mark.parametrize(
    "numbers",
    [
        uniform(16, 4),
        uniform(1, 136),
        np.full((1, 8), 0.5, np.float32),
        floats(0, 1, 1.01),
        floats(-0.01, 0, 1),
        floats(0, np.nan, 1),
        np.zeros((1, 4), np.float32),
        np.ones((0, 4), np.float32),
        normal(1, 64),
    ],
    ids=["boxes", "landmarks", "halves", "over 1", "under 0", "nan", "nothing", "no rows", "embedding"],
)
def test_normalised_coordinates_and_others_are_no_shares(numbers: np.ndarray) -> None:
    """Shares lie in [0, 1], and two thirds of them close to an end."""
    assert not shares_of(numbers, numbers).fits


def test_two_thirds_have_to_be_sure() -> None:
    """Over all samples: one of them may be unsure."""
    assert shares_of(floats(0.05, 0.95, 0.5), floats(0.05, 0.95, 0.5)).fits
    shares = shares_of(floats(0.5, 0.5), floats(0.5, 0.5))
    assert not shares.fits
    for _ in range(2):
        shares.add(floats(0, 1), floats(0, 1))
    assert shares.fits
    shares.add(floats(2, 0), floats(2, 0))
    assert not shares.fits
    shares.add(floats(0, 1), floats(0, 1))
    assert not shares.fits


def test_a_rounding_beyond_an_end_is_none() -> None:
    """A sigmoid in another order of sums may give 1.0000001."""
    numbers = np.array([[0, 1, np.nextafter(np.float32(1), np.float32(2))]])
    assert shares_of(numbers, numbers).fits


@pytest.mark.parametrize(("bad", "overlap"), [(np.nan, 2 / 3), (np.inf, 1.0), (-np.inf, 2 / 3), (-1.0, 0.0)])
def test_numbers_that_are_no_shares_overlap_less(bad: float, overlap: float) -> None:
    """NaN and below say no, Inf says yes; a number under 0 takes off: 2 (1 - 1) / (2 + 2)."""
    assert shares_of(floats(1, 1, 0), floats(1, bad, 0)).overlap == pytest.approx(overlap)

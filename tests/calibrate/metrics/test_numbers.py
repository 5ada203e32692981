"""Numbers: signal against noise, pooled and for the weakest index, against the formula on all samples at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from infer_opt.calibrate.metrics import EXACT_DB, Numbers
from tests.calibrate.metrics.made_errors import floats
from tests.targets.networks import normal


def numbers_of(reference: np.ndarray, got: np.ndarray) -> Numbers:
    """The numbers of one sample, in float64 as `OutputError` hands them on."""
    numbers = Numbers()
    numbers.add(reference.astype(np.float64), got.astype(np.float64))
    return numbers


def test_sqnr_pools_the_powers_of_all_samples() -> None:
    """Samples of different sizes and loudness, added one by one, give the formula over all their elements."""
    rng = np.random.default_rng(0)
    samples = [rng.normal(0, 10.0**index, (index + 1, 3, 5)) for index in range(4)]
    noisy = [sample + rng.normal(0, 0.1, sample.shape) for sample in samples]
    numbers = Numbers()
    for reference, got in zip(samples, noisy, strict=True):
        numbers.add(reference, got)
    signal = sum(np.square(sample).sum() for sample in samples)
    noise = sum(np.square(a - b).sum() for a, b in zip(samples, noisy, strict=True))
    assert numbers.sqnr == pytest.approx(10 * np.log10(signal / noise), abs=1e-9)
    assert numbers.error == pytest.approx(math.sqrt(noise / signal))
    assert numbers.drop is None


def test_noise_without_signal_is_an_error_too() -> None:
    """Its amplitude, since there is nothing to divide it by."""
    assert numbers_of(floats(0, 0), floats(3, 4)).error == 5.0


def test_limits_by_hand() -> None:
    """32 dB all together, and 20 dB at each index: a noise of 1 in 40 is 32.04 dB, of 1 in 39 is 31.8 dB."""
    assert numbers_of(floats(40), floats(41)).refusal("y") is None
    assert numbers_of(floats(39), floats(40)).refusal("y") == "output `y` keeps 31.8 dB, under 32 dB"
    assert numbers_of(floats(31), floats(32)).matters
    assert numbers_of(floats(10), floats(11)).collapse("y") is None
    assert numbers_of(floats(9), floats(10)).collapse("y") == "output `y` collapsed: it keeps 19.1 dB, under 20 dB"
    index = "output `y` keeps 19.1 dB at axis 1, index 1, under 20 dB"
    assert numbers_of(floats(1000, 9), floats(1000, 10)).refusal("y") == index
    assert numbers_of(floats(1000, 10), floats(1000, 11)).refusal("y") is None


def loud_and_quiet(axis: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Two indices along an axis, hundreds and ones, three elsewhere; the ones are lost."""
    shape = [3] * rank
    shape[axis] = 2
    sizes = np.array([100, 1], np.float32).reshape([-1 if other == axis else 1 for other in range(rank)])
    reference = np.ones(shape, np.float32) * sizes
    return reference, np.where(reference > 1, reference, np.float32(0))


@pytest.mark.parametrize(("axis", "rank"), [(1, 2), (1, 3), (2, 3), (1, 4), (3, 4), (1, 5), (4, 5)])
def test_the_weakest_index_is_that_of_the_lost_numbers(axis: int, rank: int) -> None:
    """Along axis 1 and the last one; all together they keep 40 dB."""
    numbers = numbers_of(*loud_and_quiet(axis, rank))
    assert numbers.sqnr == pytest.approx(10 * math.log10(10001), abs=1e-6)
    assert numbers.weakest == (pytest.approx(0.0, abs=1e-9), f"axis {axis}, index 1")


@pytest.mark.parametrize(("axis", "rank"), [(0, 1), (0, 2), (0, 3), (2, 4), (2, 5)])
def test_other_axes_join_nothing(axis: int, rank: int) -> None:
    """The batch, and rows of pictures: their indices are alike."""
    weakest = numbers_of(*loud_and_quiet(axis, rank)).weakest
    assert weakest is None if rank == 1 else weakest is not None and weakest[0] > 40


def test_the_weakest_index_pools_all_samples() -> None:
    """(3, 1) against (3, 0.5), and (4, 2) against (3, 2): 25 to 1 and 5 to 0.25."""
    numbers = numbers_of(floats(3, 1), floats(3, 0.5))
    assert numbers.weakest == (pytest.approx(10 * math.log10(4)), "axis 1, index 1")
    numbers.add(floats(4, 2), floats(3, 2))
    assert numbers.weakest == (pytest.approx(10 * math.log10(5 / 0.25)), "axis 1, index 1")
    numbers.add(floats(0, 0), floats(2, 0))
    assert numbers.weakest == (pytest.approx(10 * math.log10(25 / 5)), "axis 1, index 0")


@pytest.mark.parametrize(("length", "judged"), [(1, False), (2, True), (256, True), (257, False)])
def test_only_short_axes_have_a_weakest_index(length: int, *, judged: bool) -> None:
    """A long one holds places, and one index of it is too few numbers to judge."""
    ones = np.ones((1, length), np.float32)
    assert (numbers_of(ones, ones).weakest is not None) == judged


@pytest.mark.parametrize(("quiet", "lost"), [(-1e-5, True), (-1e-7, False), (0, False)])
def test_an_index_that_is_next_to_nothing_counts_as_empty(quiet: float, *, lost: bool) -> None:
    """A millionth of the strongest is nothing that could be lost."""
    found = numbers_of(floats(1, quiet), floats(1, 0)).weakest
    assert found == ((pytest.approx(0.0, abs=1e-6), "axis 1, index 1") if lost else (EXACT_DB, "axis 1, index 0"))


@pytest.mark.parametrize(
    ("scores", "judged"),
    [((0, 0.2), False), ((0.1, 0.24), False), ((0.1, 0.25), True), ((-0.1, 0.2), True), ((0.2, 0.9), True)],
)
def test_scores_of_a_class_that_no_sample_shows_are_not_judged(scores: tuple[float, float], *, judged: bool) -> None:
    """From 0 to under 0.25 in every sample: noise in the original too. Boxes beside them are."""
    numbers = Numbers()
    for score in scores:
        numbers.add(floats(320, score), floats(320, 0))
    weakest = numbers.weakest
    assert weakest is not None
    assert weakest[1] == f"axis 1, index {int(judged)}"
    assert (numbers.refusal("y") is not None) == judged


def test_samples_of_another_size_leave_the_indices_alone() -> None:
    """A dynamic axis has no indices that could be pooled: the first sample's size counts."""
    numbers = numbers_of(floats(1, 1), floats(1, 1))
    numbers.add(floats(1, 1, 1), floats(0, 0, 0))
    numbers.add(floats(1, 1), floats(1, 0.5))
    assert numbers.weakest == (pytest.approx(10 * math.log10(2 / 0.25)), "axis 1, index 1")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_weakest_index_of_a_broken_output_is_the_broken_one(bad: float) -> None:
    """Where the original has NaN or Inf too, nothing is lost."""
    assert numbers_of(floats(1, 2, 3), floats(1, bad, 3)).weakest == (-EXACT_DB, "axis 1, index 1")
    both = numbers_of(floats(1, bad, 3), floats(1, bad, 2))
    assert both.weakest == (pytest.approx(10 * math.log10(9)), "axis 1, index 2")


def test_a_sample_without_elements_adds_nothing() -> None:
    """Before and after others."""
    numbers = numbers_of(np.ones((0, 4), np.float32), np.ones((0, 4), np.float32))
    assert (numbers.sqnr, numbers.weakest, numbers.error) == (EXACT_DB, None, 0.0)
    row = normal(1, 4)
    numbers.add(row, row)
    assert numbers.weakest is not None

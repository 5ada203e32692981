"""Error metrics, against numbers worked out by hand and against their formulas on all samples at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from infer_opt.calibrate.metrics import EXACT_DB, OutputError, kl_divergence, sqnr_db


def floats(*values: float) -> np.ndarray:
    """A row of float32."""
    return np.array([values], np.float32)


def error_of(reference: np.ndarray, got: np.ndarray) -> OutputError:
    """The error of one sample."""
    error = OutputError("y")
    error.add(reference, got)
    return error


@pytest.mark.parametrize(
    ("signal", "noise", "expected"),
    [
        (100.0, 1.0, 20.0),
        (1.0, 2.0, -3.0103),
        (1.0, 0.0, EXACT_DB),
        (0.0, 0.0, EXACT_DB),
        (0.0, 1.0, -EXACT_DB),
        (1.0, math.inf, -EXACT_DB),
        (1.0, math.nan, -EXACT_DB),
        (1e300, 1e-300, EXACT_DB),
    ],
)
def test_sqnr_is_ten_times_the_logarithm_of_the_powers(signal: float, noise: float, expected: float) -> None:
    """10 log10(signal / noise), and its ends where one of the two is nothing or not a number."""
    assert sqnr_db(signal, noise) == pytest.approx(expected, abs=1e-4)


def test_kl_divergence_of_two_classes_by_hand() -> None:
    """Logits (0, 0) against (ln 3, 0): 0.5 ln(0.5 / 0.75) + 0.5 ln(0.5 / 0.25) = 0.1438 nats."""
    assert kl_divergence(floats(0, 0), floats(math.log(3), 0)) == pytest.approx(0.143841, abs=1e-6)


def test_kl_divergence_of_probabilities_takes_them_as_they_are() -> None:
    """(0.5, 0.5) against (0.75, 0.25) is the same number, not that of their softmax."""
    assert kl_divergence(floats(0.5, 0.5), floats(0.75, 0.25)) == pytest.approx(0.143841, abs=1e-6)
    assert kl_divergence(floats(1, 0), floats(0, 1)) == pytest.approx(math.log(1e12), rel=1e-6)
    assert kl_divergence(floats(0.2, 0.8), floats(0.2, 0.8)) == 0.0


def test_kl_divergence_is_the_mean_over_samples_and_ignores_a_shift() -> None:
    """Logits are determined up to a constant; large ones do not overflow."""
    reference, got = np.array([[0, 0], [5, 1]], np.float32), np.array([[math.log(3), 0], [5, 1]], np.float32)
    assert kl_divergence(reference, got) == pytest.approx(0.143841 / 2, abs=1e-6)
    assert kl_divergence(reference + np.float32(1000), got - np.float32(500)) == pytest.approx(0.143841 / 2, abs=1e-4)


def test_sqnr_pools_the_powers_of_all_samples() -> None:
    """Samples of different sizes and loudness, added one by one, give the formula over all their elements."""
    rng = np.random.default_rng(0)
    samples = [rng.normal(0, 10.0**index, (index + 1, 3, 5)).astype(np.float32) for index in range(4)]
    noisy = [sample + rng.normal(0, 0.1, sample.shape).astype(np.float32) for sample in samples]
    error = OutputError("y")
    for reference, got in zip(samples, noisy, strict=True):
        error.add(reference, got)
    signal = sum(np.square(sample, dtype=np.float64).sum() for sample in samples)
    noise = sum(np.square(a.astype(np.float64) - b).sum() for a, b in zip(samples, noisy, strict=True))
    assert error.sqnr == pytest.approx(10 * np.log10(signal / noise), abs=1e-9)
    assert error.elements == sum(sample.size for sample in samples)
    largest = max(np.abs(a.astype(np.float64) - b).max() for a, b in zip(samples, noisy, strict=True))
    assert error.largest == pytest.approx(largest)
    assert error.agreement is None


def test_agreement_counts_rows_with_the_same_largest_class() -> None:
    """Three of four rows, over two samples; divergence is weighted by rows."""
    error = OutputError("y")
    error.add(np.array([[1, 2], [3, 1], [0, 5]], np.float32), np.array([[1, 2], [1, 3], [0, 5]], np.float32))
    error.add(floats(7, 1), floats(7, 1))
    assert error.agreement == 0.75
    assert (error.rows, error.agreeing) == (4, 3)
    expected = kl_divergence(floats(3, 1), floats(1, 3)) / 4
    assert error.divergence / error.rows == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(3, 1), (4,), (2, 3, 4), ()])
def test_other_ranks_are_no_class_scores(shape: tuple[int, ...]) -> None:
    """Only rank 2 with two columns or more has classes; a part of an output never has."""
    assert error_of(np.ones(shape, np.float32), np.ones(shape, np.float32)).agreement is None
    part = OutputError("y[0:2]", part=True)
    part.add(floats(1, 2), floats(2, 1))
    assert part.agreement is None
    assert part.sqnr == pytest.approx(10 * math.log10(5 / 2))


def test_another_shape_is_an_error_beyond_measure() -> None:
    """Also where the elements are the same."""
    error = error_of(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))
    assert error.shape_differs
    assert error.sqnr == -EXACT_DB


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


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_largest_error_of_a_broken_output_is_infinite(bad: float) -> None:
    """A NaN must not read as no error."""
    assert error_of(floats(1, 2), floats(1, bad)).largest == math.inf


def test_half_precision_is_measured_without_overflow() -> None:
    """Powers are summed in float64: 60,000 squared is beyond float16."""
    error = error_of(np.full(10, 60000, np.float16), np.full(10, 59968, np.float16))
    assert error.sqnr == pytest.approx(20 * math.log10(60000 / 32))


def test_an_empty_output_is_exact() -> None:
    """Nothing in it can differ."""
    error = error_of(np.ones((0, 4), np.float32), np.ones((0, 4), np.float32))
    assert (error.sqnr, error.largest, error.elements, error.agreement) == (EXACT_DB, 0.0, 0, None)

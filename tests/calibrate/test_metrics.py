"""Error metrics, against numbers worked out by hand and against their formulas on all samples at once."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from infer_opt.calibrate.metrics import EXACT_DB, OutputError, kl_divergence, sqnr_db
from tests.targets.networks import normal

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


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
    error.add(
        np.array([[0.2, 0.8], [0.75, 0.25], [0.1, 0.9]], np.float32),
        np.array([[0.2, 0.8], [0.25, 0.75], [0.1, 0.9]], np.float32),
    )
    error.add(floats(0.75, 0.25), floats(0.75, 0.25))
    assert error.agreement == 0.75
    assert (error.rows, error.agreeing) == (4, 3)
    assert error.divergence / error.rows == pytest.approx(0.5 * math.log(3) / 4)  # 0.75 ln 3 - 0.25 ln 3, in one row


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of float32 logits."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def logits(rows: int, columns: int) -> np.ndarray:
    """As a trained classifier gives them: noise of both signs, and one class ahead."""
    noise = normal(rows, columns, scale=1.5)
    noise[np.arange(rows), np.arange(rows) * 7 % columns] += 8
    return noise


def share(*shape: int) -> np.ndarray:
    """Uniform float32 numbers in [0, 1)."""
    return np.random.default_rng(0).random(shape, np.float32)


def unit(rows: int, columns: int) -> np.ndarray:
    """Embeddings of length 1."""
    vectors = normal(rows, columns)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "scores",
    [
        softmax(normal(1, 2)),
        softmax(normal(5, 3, scale=0.01)),
        softmax(normal(5, 1000)),
        softmax(normal(5, 1000)).astype(np.float16),
        floats(0, 1),
        logits(1, 10),
        logits(8, 1000),
        logits(8, 1000).astype(np.float16),
    ],
)
def test_probabilities_and_unmistakable_logits_are_class_scores(scores: np.ndarray) -> None:
    """Of any number of rows; of a softmax, also two classes, and ones of which none is ahead."""
    assert error_of(scores, scores).agreement == 1.0
    assert error_of(scores, np.roll(scores, 1, axis=1)).agreement == 0.0


def test_the_logits_of_a_real_classifier_are_class_scores() -> None:
    """Those of the demo's, one digit a sample, as `compile` adds them."""
    session = onnxruntime.InferenceSession(DIGITS / "digits.onnx", providers=["CPUExecutionProvider"])
    error = OutputError("logits")
    for image in np.load(DIGITS / "calib.npz")["image"][-16:]:
        [scores] = session.run(None, {"image": image.reshape(1, 1, 32, 32)})
        error.add(scores, scores)
    assert (error.agreement, error.rows) == (1.0, 16)


@pytest.mark.parametrize(
    "numbers",
    [
        share(16, 4),
        share(16, 4) * 640,
        normal(16, 4, scale=3),
        share(16, 136),
        share(16, 136) * 112,
        share(1, 136),
        normal(16, 136, scale=30),
        unit(16, 128),
        unit(1, 512),
        normal(16, 10, scale=0.1),
        share(16, 80) * 0.9,
        logits(16, 9),
        np.abs(logits(16, 10)),
        -np.abs(logits(16, 10)),
        floats(0.3, 0.6),
        floats(-0.5, 1.5),
    ],
    ids=[
        "boxes",
        "boxes in pixels",
        "offsets of boxes",
        "landmarks",
        "landmarks in pixels",
        "landmarks of one face",
        "landmarks in pixels from the centre",
        "embeddings",
        "one embedding",
        "no column ahead",
        "sigmoid scores",
        "nine logits",
        "logits above 0",
        "logits below 0",
        "no probabilities",
        "sum 1, one below 0",
    ],
)
def test_regressions_and_embeddings_are_no_class_scores(numbers: np.ndarray) -> None:
    """Their largest column stays the largest long after the numbers are of no use."""
    assert error_of(numbers, numbers).agreement is None


def test_a_classifier_may_be_unsure_of_one_sample() -> None:
    """That one class is ahead has to show over all samples, in whatever order they come."""
    sure, unsure = logits(3, 1000), normal(1, 1000)
    assert error_of(unsure, unsure).agreement is None
    for samples in ([sure, unsure], [unsure, sure], [unsure, *np.split(sure, 3)]):
        error = OutputError("y")
        for sample in samples:
            error.add(sample, sample)
        assert (error.agreement, error.rows) == (1.0, 4)
    error = error_of(sure, sure)
    for _ in range(20):
        error.add(unsure, unsure)
    assert error.agreement is None


@pytest.mark.parametrize("first", [True, False])
def test_one_sample_that_is_no_class_scores_settles_it(*, first: bool) -> None:
    """Numbers that add up to 1 by chance are none, before and after a sample that shows it."""
    samples = [floats(0.25, 0.75), floats(0.25, 0.7)]
    error = OutputError("y")
    for sample in samples if first else reversed(samples):
        error.add(sample, sample)
    error.add(floats(0.5, 0.5), floats(0.5, 0.5))
    assert error.agreement is None


def test_a_sample_without_rows_settles_nothing() -> None:
    """A detector may find nothing."""
    error = error_of(np.ones((0, 2), np.float32), np.ones((0, 2), np.float32))
    error.add(floats(0.25, 0.75), floats(0.25, 0.75))
    assert error.agreement == 1.0


@pytest.mark.parametrize("shape", [(3, 1), (4,), (2, 3, 4), ()])
def test_other_ranks_are_no_class_scores(shape: tuple[int, ...]) -> None:
    """Only rank 2 with two columns or more has classes, whatever adds up to 1; a part of an output never has."""
    even = np.full(shape, 1 / (shape[-1] if shape else 1), np.float32)
    assert error_of(even, even).agreement is None
    part = OutputError("y[0:2]", part=True)
    part.add(floats(0.25, 0.75), floats(0.75, 0.25))
    assert part.agreement is None
    assert part.sqnr == pytest.approx(10 * math.log10(0.625 / 0.5))


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
    error = error_of(*loud_and_quiet(axis, rank))
    assert error.sqnr == pytest.approx(10 * math.log10(10001), abs=1e-6)
    assert error.weakest == (pytest.approx(0.0, abs=1e-9), f"axis {axis}, index 1")


@pytest.mark.parametrize(("axis", "rank"), [(0, 1), (0, 2), (0, 3), (2, 4), (2, 5)])
def test_other_axes_join_nothing(axis: int, rank: int) -> None:
    """The batch, and rows of pictures: their indices are alike."""
    weakest = error_of(*loud_and_quiet(axis, rank)).weakest
    assert weakest is None if rank == 1 else weakest is not None and weakest[0] > 40


def test_the_weakest_index_pools_all_samples() -> None:
    """(3, 1) against (3, 0.5), and (4, 2) against (3, 2): 25 to 1 and 5 to 0.25."""
    error = error_of(floats(3, 1), floats(3, 0.5))
    assert error.weakest == (pytest.approx(10 * math.log10(4)), "axis 1, index 1")
    error.add(floats(4, 2), floats(3, 2))
    assert error.weakest == (pytest.approx(10 * math.log10(5 / 0.25)), "axis 1, index 1")
    error.add(floats(0, 0), floats(2, 0))
    assert error.weakest == (pytest.approx(10 * math.log10(25 / 5)), "axis 1, index 0")


@pytest.mark.parametrize(("length", "judged"), [(1, False), (2, True), (256, True), (257, False)])
def test_only_short_axes_have_a_weakest_index(length: int, *, judged: bool) -> None:
    """A long one holds places, and one index of it is too few numbers to judge."""
    ones = np.ones((1, length), np.float32)
    assert (error_of(ones, ones).weakest is not None) == judged


@pytest.mark.parametrize(("quiet", "lost"), [(1e-5, True), (1e-7, False), (0, False)])
def test_an_index_that_is_next_to_nothing_counts_as_empty(quiet: float, *, lost: bool) -> None:
    """A millionth of the strongest is nothing that could be lost."""
    found = error_of(floats(1, quiet), floats(1, 0)).weakest
    assert found == ((pytest.approx(0.0, abs=1e-6), "axis 1, index 1") if lost else (EXACT_DB, "axis 1, index 0"))


def test_samples_of_another_size_leave_the_indices_alone() -> None:
    """A dynamic axis has no indices that could be pooled: the first sample's size counts."""
    error = error_of(floats(1, 1), floats(1, 1))
    error.add(floats(1, 1, 1), floats(0, 0, 0))
    error.add(floats(1, 1), floats(1, 0.5))
    assert error.weakest == (pytest.approx(10 * math.log10(2 / 0.25)), "axis 1, index 1")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_weakest_index_of_a_broken_output_is_the_broken_one(bad: float) -> None:
    """Where the original has NaN or Inf too, nothing is lost."""
    assert error_of(floats(1, 2, 3), floats(1, bad, 3)).weakest == (-EXACT_DB, "axis 1, index 1")
    both = error_of(floats(1, bad, 3), floats(1, bad, 2))
    assert both.weakest == (pytest.approx(10 * math.log10(9)), "axis 1, index 2")


def test_integers_have_no_weakest_index() -> None:
    """They are equal or not."""
    assert error_of(np.array([[1, 2]]), np.array([[1, 3]])).weakest is None


def test_another_shape_is_an_error_beyond_measure() -> None:
    """Also where the elements are the same."""
    error = error_of(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))
    assert error.shape_differs
    assert error.sqnr == -EXACT_DB
    assert error.broken == "has another shape than the original's"


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
    broken = "has NaN or Inf in other places than the original" if sqnr < 0 else None
    assert error.broken == broken


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

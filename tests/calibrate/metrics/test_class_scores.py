"""Class scores: which outputs are some, and how far they are from the original's, worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from infer_opt.calibrate.metrics import ClassScores, OutputError
from tests.calibrate.metrics.made_errors import classes, error_of, floats, logits, softmax, uniform, unit
from tests.targets.networks import normal

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def scores_of(reference: np.ndarray, got: np.ndarray) -> ClassScores:
    """The scores of one sample."""
    scores = ClassScores()
    scores.add(reference, got)
    return scores


def test_agreement_counts_rows_with_the_same_largest_class() -> None:
    """Three of four rows, over two samples; divergence is summed over rows."""
    scores = ClassScores()
    scores.add(
        np.array([[0.2, 0.8], [0.75, 0.25], [0.1, 0.9]], np.float32),
        np.array([[0.2, 0.8], [0.25, 0.75], [0.1, 0.9]], np.float32),
    )
    scores.add(floats(0.75, 0.25), floats(0.75, 0.25))
    assert scores.fits
    assert (scores.rows, scores.agreeing, scores.agreement, scores.drop) == (4, 3, 0.75, 0.25)
    assert scores.divergence == pytest.approx(0.5 * math.log(3))  # 0.75 ln 3 - 0.25 ln 3, in one row
    assert scores.words() == "top class agrees on 75.0%"


def test_another_class_costs_what_the_original_finds_it_less_likely() -> None:
    """0.6 - 0.3 in one row, nothing in another, 0.51 - 0.49 in a third that was near a tie."""
    scores = scores_of(floats(0.1, 0.6, 0.3), floats(0.1, 0.3, 0.6))
    assert scores.lost == pytest.approx(0.3, rel=1e-6)
    scores.add(floats(0.1, 0.6, 0.3), floats(0.2, 0.5, 0.3))
    assert scores.lost == pytest.approx(0.3, rel=1e-6)
    scores.add(floats(0.51, 0.49), floats(0.49, 0.51))
    assert scores.lost == pytest.approx(0.32, rel=1e-6)
    row = np.log(floats(*[0.5, 0.3] + [0.2 / 8] * 8)) + np.float32(3)
    swapped = row[:, [1, 0, *range(2, 10)]]
    assert scores_of(row, swapped).lost == pytest.approx(0.2, rel=1e-5)


def test_rows_near_a_tie_refuse_nothing_and_sure_ones_do() -> None:
    """Two of twenty with another class ahead: lost 0.2 % of accuracy, or 8 %."""
    for tie, words in ((0.51, None), (0.9, "`y` loses 8.0% of accuracy by the original's own scores, over 1%")):
        scores = scores_of(np.tile(floats(0.9, 0.1), (18, 1)), np.tile(floats(0.9, 0.1), (18, 1)))
        scores.add(np.tile(floats(tie, 1 - tie), (2, 1)), np.tile(floats(0.499, 0.501), (2, 1)))
        found = scores.refusal("y")
        assert (found is None) == (words is None)
        assert words is None or (found is not None and found.startswith(words))


def test_the_error_is_that_of_the_log_odds() -> None:
    """Of the two classes that the original has ahead: ln(0.6 / 0.3) against ln(0.3 / 0.6), and one row without."""
    scores = scores_of(floats(0.1, 0.6, 0.3), floats(0.1, 0.3, 0.6))
    assert scores.error == pytest.approx(2 * math.log(2), rel=1e-6)
    scores.add(floats(0.1, 0.6, 0.3), floats(0.1, 0.6, 0.3))
    assert scores.error == pytest.approx(2 * math.log(2) / math.sqrt(2), rel=1e-6)


def test_the_odds_show_what_sure_probabilities_hide() -> None:
    """0.9999 against 0.999: nothing of a difference of probabilities, 2.3 of the log odds; logits show the same."""
    scores = scores_of(floats(0.9999, 0.0001), floats(0.999, 0.001))
    expected = math.log(0.9999 / 0.0001) - math.log(0.999 / 0.001)
    assert scores.error == pytest.approx(expected, rel=1e-3)
    assert scores.matters
    row = logits(1, 10)
    moved = row.copy()
    moved[0, row[0].argmax()] -= 0.3
    assert scores_of(row, moved).error == pytest.approx(0.3, rel=1e-5)
    assert not scores_of(row, row + np.float32(0.5)).matters


def test_a_class_without_any_probability_is_not_infinitely_far() -> None:
    """It counts as 1e-12."""
    assert scores_of(floats(1, 0), floats(0, 1)).divergence == pytest.approx(math.log(1e12), rel=1e-6)


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_probabilities_have_any_rank(rank: int) -> None:
    """[n, classes], [n, positions, classes], and [n, classes, height, width], whose classes are on axis 1."""
    rows = softmax(normal(6, 5, scale=2))
    changed = rows.copy()
    changed[2] = np.roll(changed[2], 1)
    shapes = {2: (6, 5), 3: (2, 3, 5), 4: (1, 2, 3, 5)}

    def shaped(array: np.ndarray) -> np.ndarray:
        array = array.reshape(shapes[rank])
        return np.moveaxis(array, -1, 1) if rank == 4 else array

    found, flat = scores_of(shaped(rows), shaped(changed)), scores_of(rows, changed)
    assert (found.rows, found.agreeing, found.fits) == (6, 5, True)
    assert found.divergence == pytest.approx(flat.divergence)
    assert found.error == pytest.approx(flat.error)


@pytest.mark.parametrize(
    "scores",
    [
        softmax(normal(1, 2)),
        softmax(normal(5, 3, scale=0.01)),
        softmax(normal(5, 1000)),
        softmax(normal(5, 1000)).astype(np.float16),
        softmax(normal(1, 4, 4)),
        floats(0, 1),
        logits(1, 10),
        logits(8, 1000),
        logits(8, 1000).astype(np.float16),
    ],
)
def test_probabilities_and_unmistakable_logits_are_class_scores(scores: np.ndarray) -> None:
    """Of any number of rows; of a softmax, also two classes, and ones of which none is ahead."""
    for got, drop in ((scores, 0.0), (np.roll(scores, 1, axis=-1), 1.0)):
        error = error_of(scores, got)
        assert (error.kind.name, error.drop) == ("class scores", drop)


def test_the_logits_of_a_real_classifier_are_class_scores() -> None:
    """Those of the demo's, one digit a sample, as `compile` adds them."""
    session = onnxruntime.InferenceSession(DIGITS / "digits.onnx", providers=["CPUExecutionProvider"])
    found = ClassScores()
    for image in np.load(DIGITS / "calib.npz")["image"][-16:]:
        [scores] = session.run(None, {"image": image.reshape(1, 1, 32, 32)})
        found.add(scores, scores)
    assert (found.fits, found.agreement, found.rows) == (True, 1.0, 16)


@pytest.mark.parametrize(
    "numbers",
    [
        uniform(16, 4),
        uniform(16, 4) * 640,
        normal(16, 4, scale=3),
        uniform(16, 136),
        uniform(16, 136) * 112,
        uniform(1, 136),
        normal(16, 136, scale=30),
        unit(16, 128),
        unit(1, 512),
        normal(16, 10, scale=0.1),
        uniform(16, 80) * 0.9,
        logits(16, 9),
        np.abs(logits(16, 10)),
        -np.abs(logits(16, 10)),
        floats(0.3, 0.6),
        floats(-0.5, 1.5),
        logits(8, 1000).reshape(1, 8, 1000),
        np.moveaxis(logits(8, 20).reshape(1, 2, 4, 20), -1, 1),
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
        "logits of rank 3",
        "logits of rank 4",
    ],
)
def test_regressions_and_embeddings_are_no_class_scores(numbers: np.ndarray) -> None:
    """Their largest column stays the largest long after the numbers are of no use."""
    assert error_of(numbers, numbers).kind.name != "class scores"


def test_a_classifier_may_be_unsure_of_one_sample() -> None:
    """That one class is ahead has to show over all samples, in whatever order they come."""
    sure, unsure = logits(3, 1000), normal(1, 1000)
    assert not scores_of(unsure, unsure).fits
    for samples in ([sure, unsure], [unsure, sure], [unsure, *np.split(sure, 3)]):
        scores = ClassScores()
        for sample in samples:
            scores.add(sample, sample)
        assert (scores.fits, scores.rows) == (True, 4)
    scores = scores_of(sure, sure)
    for _ in range(20):
        scores.add(unsure, unsure)
    assert not scores.fits


@pytest.mark.parametrize("first", [True, False])
def test_one_sample_that_is_no_class_scores_settles_it(*, first: bool) -> None:
    """Numbers that add up to 1 by chance are none, before and after a sample that shows it."""
    samples = [floats(0.25, 0.75), floats(0.25, 0.7)]
    error = OutputError("y")
    for sample in samples if first else reversed(samples):
        error.add(sample, sample)
    error.add(floats(0.5, 0.5), floats(0.5, 0.5))
    assert error.kind.name == "numbers"


def test_a_sample_without_rows_settles_nothing() -> None:
    """A detector may find nothing."""
    scores = scores_of(np.ones((0, 2), np.float32), np.ones((0, 2), np.float32))
    assert (scores.fits, scores.drop, scores.error, scores.agreement) == (False, None, 0.0, 1.0)
    scores.add(floats(0.25, 0.75), floats(0.25, 0.75))
    assert (scores.fits, scores.drop) == (True, 0.0)


@pytest.mark.parametrize("shape", [(3, 1), (4,), (), (1, 1, 2, 2), (1, 2, 1, 1, 2)])
def test_other_shapes_are_no_class_scores(shape: tuple[int, ...]) -> None:
    """One class is none, rank 5 has none, whatever adds up to 1."""
    even = np.full(shape, 1 / (shape[-1] if shape else 1), np.float32)
    assert not scores_of(even, even).fits


@pytest.mark.parametrize(
    ("rows", "agreeing", "drop"), [(100, 99, 0.01), (1000, 993, 0.007), (10, 9, 0.1), (3, 2, 1 / 3)]
)
def test_the_drop_is_exact(rows: int, agreeing: int, drop: float) -> None:
    """1 - 99 / 100 is more than 0.01 in floating point, and would miss a limit of 0.01."""
    assert classes(agreeing, rows).drop == drop


@pytest.mark.parametrize(("words", "fits"), [(8192, True), (8191, False)])
def test_the_logits_of_a_vocabulary_are_class_scores(words: int, *, fits: bool) -> None:
    """Of each position, whatever their sign; a narrower output may be a hidden state."""
    reference = np.full((1, 3, words), -20.0, np.float32)
    reference[0, :, 5] = -2.0
    found = scores_of(reference, reference)
    assert (found.fits, found.rows) == (fits, 3 if fits else 0)
    moved = reference.copy()
    moved[0, 1, 7] = -1.0
    again = scores_of(reference, moved)
    assert again.agreeing == (2 if fits else 0)

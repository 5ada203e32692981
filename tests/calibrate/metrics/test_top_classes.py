"""The original's top class among those that are ahead: by hand-made scores."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.metrics.top_classes import TopClasses

SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]], np.float32)


def after(reference: np.ndarray, got: np.ndarray, ahead: int = 1) -> TopClasses:
    """With one sample."""
    kind = TopClasses(ahead)
    kind.add(reference, got)
    return kind


def test_a_row_is_kept_where_the_top_class_is() -> None:
    """Whatever the numbers: of two rows one keeps class 1, and one gives class 2 in place of 0."""
    kind = after(SCORES, np.array([[3.0, 9.0, 8.0], [3.0, 1.0, 4.0]], np.float32))
    assert (kind.rows, kind.kept, kind.drop, kind.error) == (2, 1, 0.5, 0.5)
    assert kind.fits
    assert kind.words() == "the top class kept in 50.0% of rows"


def test_the_drop_is_over_all_samples() -> None:
    """One row of five is lost."""
    kind = after(SCORES, SCORES)
    kind.add(SCORES[:1], SCORES[1:])
    kind.add(SCORES, SCORES)
    assert kind.drop == pytest.approx(0.2)
    assert kind.refusal("y") == "the top class of `y` is lost in 20.0% of rows, over 1%"
    assert kind.collapse("y") is None


@pytest.mark.parametrize(("place", "drop"), [(4, 0.0), (5, 1.0)])
def test_top5_allows_four_before_it(place: int, drop: float) -> None:
    """Fifth place counts, sixth does not."""
    reference = np.array([[9, 0, 0, 0, 0, 0, 0]], np.float32)
    got = np.zeros((1, 7), np.float32)
    got[0, 0], got[0, 1 : 1 + place] = 1, 2
    kind = after(reference, got, ahead=5)
    assert kind.drop == drop
    assert (kind.collapse("y") is None) == (drop == 0.0)


def test_channels_of_an_image_are_classes() -> None:
    """[1, 2, 1, 3]: of three pixels, the second changes its class."""
    reference = np.array([[[[1, 1, 0]], [[0, 0, 1]]]], np.float32)
    got = np.array([[[[1, 0, 0]], [[0, 1, 1]]]], np.float32)
    assert after(reference, got).drop == pytest.approx(1 / 3)


def test_equal_scores_go_by_their_order() -> None:
    """As by argmax: scores that are all the same keep the first class and no other."""
    assert after(SCORES, np.ones_like(SCORES)).drop == 0.5


@pytest.mark.parametrize("row", [[np.nan, 1, 0], [0, np.nan, 0], [0, 1, np.nan]])
def test_nan_keeps_nothing(row: list[float]) -> None:
    """Wherever it stands."""
    assert after(SCORES[:1], np.array([row], np.float32)).drop == 1.0


@pytest.mark.parametrize(("shape", "ahead"), [((4,), 1), ((3, 1), 1), ((3, 5), 5)])
def test_what_has_no_classes_to_choose_from(shape: tuple[int, ...], ahead: int) -> None:
    """One axis; one class; five for the first five."""
    scores = np.zeros(shape, np.float32)
    assert not after(scores, scores, ahead).fits

"""What a detector finds, by boxes that were placed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.metrics.detections import Detections, intersection_over_union

Row = tuple[float, ...]
CAT, OTHER_CAT, DOG = (10, 10, 8, 8, 0.9, 0), (40, 40, 8, 8, 0.8, 0), (10, 10, 8, 8, 0, 0.7)
PLACES = 9


def grid(*rows: Row) -> np.ndarray:
    """[1, 4 + 2 classes, 9 places] with such rows, and nothing in the other places."""
    made = np.zeros((1, 6, PLACES), np.float32)
    for place, row in enumerate(rows):
        made[0, :, place] = row
    return made


def after(reference: np.ndarray, got: np.ndarray) -> Detections:
    """With one sample."""
    kind = Detections()
    kind.add(reference, got)
    return kind


@pytest.mark.parametrize(
    ("other", "overlap"),
    [
        ((0, 0, 2, 2), 1.0),
        ((1, 0, 2, 2), 1 / 3),  # 2 in common, of 6 together
        ((1, 1, 2, 2), 1 / 7),
        ((0, 0, 4, 4), 1 / 4),
        ((2, 0, 2, 2), 0.0),  # side by side
        ((9, 9, 2, 2), 0.0),
    ],
)
def test_intersection_over_union(other: Row, overlap: float) -> None:
    """Of a square of area 4 around 0."""
    found = intersection_over_union(np.array([0.0, 0, 2, 2]), np.array([other], float))
    assert found == pytest.approx([overlap])


@pytest.mark.parametrize(
    ("wanted", "got", "f1"),
    [
        ((CAT, OTHER_CAT), (OTHER_CAT, CAT), 1.0),
        ((CAT,), ((11, 10, 8, 8, 0.4, 0),), 1.0),  # 56 of 72
        ((CAT,), ((13, 10, 8, 8, 0.9, 0),), 0.0),  # 40 of 88
        ((CAT,), (DOG,), 0.0),
        ((CAT, OTHER_CAT), (CAT,), 2 / 3),
        ((CAT,), (CAT, OTHER_CAT, DOG), 1 / 2),
        ((CAT,), ((10, 10, 8, 8, 0.24, 0),), 0.0),  # too unsure
        ((CAT,), (CAT, (10.5, 10, 8, 8, 0.6, 0)), 1.0),  # the second is suppressed
        ((CAT,), (CAT, (14, 10, 8, 8, 0.6, 0)), 2 / 3),  # 32 of 96: another cat
        ((CAT, DOG), (CAT, DOG), 1.0),  # of two classes nothing is suppressed
    ],
)
def test_f1(wanted: tuple[Row, ...], got: tuple[Row, ...], f1: float) -> None:
    """2 hits / (wanted + found)."""
    kind = after(grid(*wanted), grid(*got))
    assert kind.fits
    assert kind.drop == pytest.approx(1 - f1)


def test_places_may_come_first() -> None:
    """The longer axis is that of the places."""
    kind = after(grid(CAT, OTHER_CAT).transpose(0, 2, 1), grid(CAT).transpose(0, 2, 1))
    assert (kind.wanted, kind.found, kind.hits) == (2, 1, 1)


def test_pictures_are_kept_apart_and_pooled() -> None:
    """A cat in another picture is no hit: three of four cats are found, and one is made up."""
    empty, cat = grid(), grid(CAT)
    kind = after(np.concatenate([cat, cat]), np.concatenate([cat, cat]))
    kind.add(np.concatenate([cat, empty, cat]), np.concatenate([empty, cat, cat]))
    assert (kind.wanted, kind.found, kind.hits) == (4, 4, 3)
    assert kind.refusal("y") == "detections of `y` keep F1 0.750, under 0.97"
    assert kind.words() == "F1 0.750 of 4 detections"
    assert kind.collapse("y") is None


def test_most_of_it_lost() -> None:
    """One of four."""
    rows = tuple((20.0 * index, 10, 8, 8, 0.9, 0) for index in range(4))
    kind = after(grid(*rows), grid(rows[0]))
    assert kind.collapse("y") == "output `y` collapsed: its detections keep F1 0.400"


def test_nothing_to_find_says_nothing() -> None:
    """So its noise is judged."""
    assert not after(grid(), grid(CAT)).fits


@pytest.mark.parametrize("shape", [(6, 9), (1, 4, 9), (1, 9, 4), (1, 6, 3, 3)])
def test_what_is_no_grid(shape: tuple[int, ...]) -> None:
    """Other ranks, and no room for a class beside the box."""
    ones = np.ones(shape, np.float32)
    assert not after(ones, ones).fits

"""Directions: cosines worked out by hand, and logits that a cosine does not tell apart."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import special

from infer_opt.calibrate.metrics import Directions
from tests.calibrate.metrics.made_errors import error_of, logits, uniform, unit
from tests.targets.networks import normal


def directions_of(reference: np.ndarray, got: np.ndarray) -> Directions:
    """The directions of one sample."""
    directions = Directions()
    directions.add(reference, got)
    return directions


def vector(*first: float, size: int = 64) -> np.ndarray:
    """A vector that starts like this and goes on with zeros."""
    return np.array([[*first, *[0.0] * (size - len(first))]], np.float32)


def test_cosines_by_hand() -> None:
    """(3, -4) against (3, 0): 9 / (5 x 3) = 0.6; against itself doubled 1; 0.8 on the mean, and one that turned."""
    directions = directions_of(vector(3, -4), vector(3, 0))
    assert directions.cosine == pytest.approx(0.6)
    directions.add(vector(3, -4), vector(6, -8))
    assert (directions.rows, directions.cosine, directions.turned) == (2, pytest.approx(0.8), 1)
    assert directions.drop == pytest.approx(0.2)
    assert directions.error == pytest.approx(math.sqrt(2 - 2 * 0.8))
    assert directions.words() == "cosine 0.8000"
    assert directions.refusal("e") == "vectors of `e` keep a cosine of 0.800, under 0.99"
    assert directions.collapse("e") == "output `e` collapsed: its vectors keep a cosine of 0.800, under 0.9"


@pytest.mark.parametrize(("turned", "refused"), [(1, False), (2, True)])
def test_more_than_a_hundredth_that_turned_is_refused(turned: int, *, refused: bool) -> None:
    """Among a hundred, where the mean hides it; a single one is no more than a frame of silence."""
    reference = np.repeat(vector(1, -1), 100, axis=0)
    got = reference.copy()
    got[7 : 7 + turned] = vector(1, -0.5)[0]  # 1.5 / (sqrt(2) sqrt(1.25)) = 0.9487
    directions = directions_of(reference, got)
    assert directions.cosine > 0.998
    words = f"{turned}.0% of the vectors of `e` keep a cosine under 0.95, over 1%"
    assert directions.refusal("e") == (words if refused else None)
    assert directions.collapse("e") is None


def test_positions_are_vectors_of_their_own() -> None:
    """[n, positions, size] are n x positions of them."""
    reference, got = normal(2, 3, 70), normal(2, 3, 70, seed=1)
    directions = directions_of(reference, got)
    rows, others = reference.reshape(6, 70), got.reshape(6, 70)
    cosines = (rows * others).sum(1) / np.linalg.norm(rows, axis=1) / np.linalg.norm(others, axis=1)
    assert directions.rows == 6
    assert directions.cosine == pytest.approx(cosines.mean(), rel=1e-5)
    assert directions.turned == (cosines < 0.95).sum()


def test_logits_with_a_shifted_vocabulary_are_refused() -> None:
    """Most of a vocabulary is far below 0 for every text, and that is what a cosine sees."""
    reference = np.full((1, 5, 64), -20.0, np.float32)
    reference[..., :4] = (2, 1, 0.5, 1.5)
    shifted = reference.copy()
    shifted[..., :4] = (1.5, 2, 1, 0.5)
    error = error_of(reference, shifted, "logits")
    assert isinstance(error.kind, Directions)
    assert error.kind.cosine > 0.9999
    p, q = (special.softmax(rows[0, 0].astype(np.float64)) for rows in (reference, shifted))
    assert error.kind.divergence == pytest.approx(5 * special.rel_entr(p, q).sum(), rel=1e-6)
    assert error.refusal() == f"the softmax of `logits` diverges by {special.rel_entr(p, q).sum():.3f} nats, over 0.02"


def test_embeddings_that_turned_a_little_are_not_refused() -> None:
    """The softmax of a unit vector hardly moves."""
    reference = unit(16, 128)
    error = error_of(reference, reference + normal(16, 128, seed=1, scale=0.005))
    assert error.kind.name == "directions"
    assert error.refusal() is None
    assert not error.kind.matters
    assert 0 < (error.drop or 0) < 0.01


@pytest.mark.parametrize(
    "numbers",
    [
        normal(4, 63),
        np.abs(normal(4, 64)),
        -np.abs(normal(4, 64)),
        uniform(4, 64),
        np.zeros((1, 64), np.float32),
        normal(64),
        normal(1, 2, 8, 64),
        np.ones((0, 64), np.float32),
        np.concatenate([normal(3, 64), np.abs(normal(1, 64))]),
        np.where(np.arange(64) == 5, np.nan, normal(1, 64)),
    ],
    ids=["short", "above 0", "below 0", "shares", "zeros", "rank 1", "rank 4", "no rows", "one row above 0", "nan"],
)
def test_other_numbers_are_no_directions(numbers: np.ndarray) -> None:
    """Vectors have rank 2 or 3, 64 entries or more, and both signs in each."""
    assert not directions_of(numbers, numbers).fits


def test_one_sample_that_is_none_settles_it() -> None:
    """Whatever came before and after."""
    directions = directions_of(normal(1, 64), normal(1, 64))
    assert directions.fits
    for numbers in (uniform(1, 64), normal(1, 64)):
        directions.add(numbers, numbers)
        assert not directions.fits


def test_class_scores_come_first() -> None:
    """Logits of a classifier are long rows of both signs too."""
    assert error_of(logits(4, 100), logits(4, 100)).kind.name == "class scores"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_broken_vector_has_finite_numbers(bad: float) -> None:
    """A report must not hold a NaN; that it is broken is told of the output."""
    got = vector(3, -4)
    got[0, 1] = bad
    error = error_of(vector(3, -4)[np.newaxis], got[np.newaxis])
    assert error.broken is not None
    assert error.drop == pytest.approx(1 - 0.6)
    json.dumps(error.drop, allow_nan=False)
    assert error.kind.refusal("y") is not None


def test_a_vector_of_zeros_points_nowhere() -> None:
    """Its cosine is 0."""
    assert directions_of(vector(3, -4), vector()).cosine == 0.0

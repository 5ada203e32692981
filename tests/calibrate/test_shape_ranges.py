"""Shapes over samples: smallest, median, largest."""

from __future__ import annotations

import numpy as np

from infer_opt.calibrate.shape_ranges import ShapeRange, shape_ranges


def feeds(*shapes: tuple[int, ...]) -> list[dict[str, np.ndarray]]:
    """Samples of one input."""
    return [{"x": np.zeros(shape, np.float32)} for shape in shapes]


def test_each_dimension_by_itself() -> None:
    """A typical text is as long as the middle one of all, not the mean."""
    found = shape_ranges(feeds((1, 5), (1, 90), (2, 7)), ["x"])
    assert found == {"x": ShapeRange((1, 5), (1, 7), (2, 90))}


def test_only_what_is_asked_for() -> None:
    """And what is fed."""
    assert shape_ranges(feeds((1, 5)), ["y"]) == {}


def test_a_scalar_has_an_empty_shape() -> None:
    """Which is the same in every sample."""
    assert shape_ranges(feeds((), ()), ["x"]) == {"x": ShapeRange((), (), ())}


def test_another_rank_is_no_range() -> None:
    """No size could be given for a dimension that is not there."""
    assert shape_ranges(feeds((1, 5), (5,)), ["x"]) == {}

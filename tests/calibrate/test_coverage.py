"""Escapes from calibrated ranges, on made-up extremes."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.coverage import Coverage

NUMBERS = np.array([-3.0, -1.0, 0.5, 4.0], np.float32)


def test_escapes_are_sorted_by_how_far_they_go() -> None:
    """With the sample that went farthest, and the share of elements outside on the mean of the feeds."""
    ranges = {"a": (-1.0, 1.0), "b": (-4.0, 4.0), "c": (0.0, 2.0)}
    coverage = Coverage(ranges)
    coverage.add({"a": (-3.0, 4.0, NUMBERS), "b": (-3.0, 4.0, NUMBERS), "c": (0.0, 2.2, NUMBERS[2:])}, 7)
    coverage.add({"a": (-2.0, 5.0, NUMBERS), "b": (-4.0, 4.5, NUMBERS), "c": (0.0, 1.0, NUMBERS[2:3])}, 8)
    far = coverage.escapes(0.08, ranges)
    assert [(each.value, each.known, each.reached, each.sample) for each in far] == [
        ("a", (-1.0, 1.0), (-3.0, 5.0), 8),
        ("c", (0.0, 2.0), (0.0, 2.2), 7),
    ]
    assert [each.growth for each in far] == pytest.approx([4.0, 1.1])
    assert [each.share for each in far] == [0.5, 0.25]
    assert coverage.share() == pytest.approx((0.5 + 0 + 0.25) / 3)
    assert (coverage.feeds, coverage.values) == (2, 3)
    assert [each.value for each in coverage.escapes(0.0, ranges)] == ["a", "c", "b"]


def test_what_other_feeds_reached_is_no_escape() -> None:
    """Changed inputs are held to what the same ones reach when clean."""
    clean, noisy = Coverage({"a": (-1.0, 1.0)}), Coverage({"a": (-1.0, 1.0)})
    clean.add({"a": (-1.0, 3.0, NUMBERS)}, 0)
    noisy.add({"a": (-1.0, 2.5, NUMBERS)}, 0)
    assert noisy.escapes(0.0, clean.reached()) == []
    noisy.add({"a": (-1.0, 5.0, NUMBERS)}, 1)
    [found] = noisy.escapes(0.05, clean.reached())
    assert (found.known, found.reached, found.sample, found.growth) == ((-1.0, 3.0), (-1.0, 5.0), 1, 1.5)


def test_values_with_nan_are_left_out() -> None:
    """Nothing can be told of them; an empty value has no extremes."""
    coverage = Coverage({"a": (-1.0, 1.0)})
    coverage.add({"a": (np.nan, np.nan, NUMBERS)}, 0)
    coverage.add({"a": (np.inf, -np.inf, NUMBERS[:0])}, 1)
    assert coverage.escapes(0.0, {"a": (-1.0, 1.0)}) == []
    assert coverage.share() == 0

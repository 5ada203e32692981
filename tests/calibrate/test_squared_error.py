"""The error of a range over a histogram, against the elements that the histogram stands for."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.quantization import Format
from infer_opt.calibrate.squared_error import Side, squared_error

COUNTS = np.array([40, 0, 7, 3, 0, 11, 2, 1, 0, 0], np.int64)


def elements() -> np.ndarray:
    """2,000 elements for each one counted, spread evenly over its bin."""
    inside = (np.arange(2000) + 0.5) / 2000
    return np.concatenate([np.tile(b + inside, count) for b, count in enumerate(COUNTS)])


@pytest.mark.parametrize("cut", range(9))
@pytest.mark.parametrize("step", [0.01, 0.7, 1.0, 3.3, 40.0])
def test_error_is_that_of_evenly_spread_elements(cut: int, step: float) -> None:
    """Clipping, rounding to zero and uniform noise, each summed element by element, within 1e-5."""
    values = elements()
    inside = values < cut
    zeroed = inside & (values < step / 2)
    expected = ((values[~inside] - cut) ** 2).sum() + (values[zeroed] ** 2).sum()
    expected += (inside & ~zeroed).sum() * step**2 / 12
    found = Side.of(COUNTS).error(np.array(cut), np.array(step))
    assert float(found) == pytest.approx(expected / 2000, rel=1e-5)


def test_empty_bins_at_the_end_are_not_part_of_a_side() -> None:
    """Candidates end where the elements do; a side without elements has one edge and no error."""
    assert Side.of(COUNTS).used == 8
    empty = Side.of(np.zeros(10, np.int64))
    assert empty.used == 0
    assert empty.error(np.arange(1), np.array([3.0])).tolist() == [0.0]


def test_both_sides_share_the_step_and_a_cut_beyond_a_side_is_its_end() -> None:
    """The step is that of the format over the range that is really used."""
    negative, positive = Side.of(COUNTS[:4]), Side.of(COUNTS)
    form = Format("uint4", symmetric=False)
    lows, highs = np.array([2, 9]), np.array([5, 9])
    found = squared_error(negative, positive, lows, highs, form)
    steps = np.array([7 / 15, (4 + 8) / 15])
    expected = negative.error(np.array([2, 4]), steps) + positive.error(np.array([5, 8]), steps)
    np.testing.assert_array_equal(found, expected)

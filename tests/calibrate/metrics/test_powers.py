"""Signal against noise."""

from __future__ import annotations

import math

import pytest

from infer_opt.calibrate.metrics import EXACT_DB, sqnr_db
from infer_opt.calibrate.metrics.powers import too_noisy


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


def test_what_is_too_noisy_is_said() -> None:
    """Below the limit; at it nothing is wrong."""
    assert too_noisy("y", 19.94, 20.0) == "output `y` keeps 19.9 dB, under 20 dB"
    assert too_noisy("y", 20.0, 20.0) is None

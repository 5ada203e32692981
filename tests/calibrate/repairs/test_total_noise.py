"""The figure by which repairs are chosen."""

from __future__ import annotations

import math

import pytest

from infer_opt.calibrate.repairs.total_noise import TotalNoise


def test_the_weakest_part_counts_most() -> None:
    """Shares of noise add up; parts without any signal say nothing."""
    found = TotalNoise.of({"boxes": 1e6, "scores": 1.0, "empty": 0.0}, {"boxes": 1e3, "scores": 0.1, "empty": 5.0})
    assert found.share == pytest.approx(0.101)
    assert found.least_db == pytest.approx(10.0)


def test_no_signal_at_all() -> None:
    """Nothing to lose."""
    assert TotalNoise.of({"y": 0.0}, {"y": 1.0}) == TotalNoise(0.0, math.inf)

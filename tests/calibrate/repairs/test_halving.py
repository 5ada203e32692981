"""Halving: the changes that help are found among others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from infer_opt.calibrate.repairs.halving import helpful
from infer_opt.calibrate.repairs.total_noise import TotalNoise


@pytest.mark.parametrize(
    ("gains", "kept"),
    [
        ({"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5}, "abcd"),
        ({"a": 0.5, "b": 0.5, "c": 3.0, "d": 9.0}, "ab"),
        ({"a": 0.5, "b": 9.0, "c": 9.0, "d": 0.5}, "ad"),
        ({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}, ""),
        ({"a": float("nan"), "b": 1.0, "c": 0.5, "d": 0.5}, "cd"),
    ],
)
def test_halves_are_tried(gains: dict[str, float], kept: str) -> None:
    """Where all together do not help, those that do are found, and the noise is that of what is kept."""

    def noise(changes: Iterable[str]) -> TotalNoise:
        return TotalNoise(float(np.prod([gains[name] for name in changes])), 0.0)

    found, after = helpful(tuple("abcd"), noise(()), noise)
    assert sorted(found) == sorted(kept)
    assert after == noise(found)

"""Extremes with and without one sample, against a plain recomputation."""

from __future__ import annotations

import math

import numpy as np

from infer_opt.calibrate.extremes import Extremes, growth


def test_every_sample_can_be_left_out() -> None:
    """As the extremes of all others are, widened to hold 0; samples may have several feeds in a row."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        samples = np.sort(rng.integers(0, 5, 12))
        lows = rng.integers(-6, 3, 12).astype(float)
        highs = lows + rng.integers(0, 9, 12)
        extremes = Extremes()
        for low, high, sample in zip(lows, highs, samples, strict=True):
            extremes.observe(low, high, int(sample))
        assert extremes.range() == (min(lows.min(), 0), max(highs.max(), 0))
        for sample in set(samples.tolist()):
            others = samples != sample
            if others.any():
                assert extremes.without(sample) == (min(lows[others].min(), 0), max(highs[others].max(), 0))
        holders = {int(samples[lows.argmin()]), int(samples[highs.argmax()])}
        assert extremes.suspects() == holders


def test_empty_feeds_hold_no_extreme() -> None:
    """+inf and -inf, as `Sketch` takes them."""
    extremes = Extremes()
    extremes.observe(math.inf, -math.inf, 0)
    assert (extremes.range(), extremes.suspects()) == ((0, 0), set())
    extremes.observe(-1, 2, 1)
    assert (extremes.range(), extremes.without(1), extremes.suspects()) == ((-1, 2), (0, 0), {1})


def test_growth() -> None:
    """The ratio of the widths; nothing that is all 0 grows by a number."""
    assert growth((-1, 1), (-1, 2)) == 1.5
    assert growth((0, 0), (0, 0)) == 1
    assert growth((0, 0), (0, 1)) == math.inf

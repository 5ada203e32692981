"""Numbers that are what they are: boxes, depths, levels; anything that no other kind speaks of."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from infer_opt.calibrate.metrics.kind import Array, Kind
from infer_opt.calibrate.metrics.powers import sqnr_db, too_noisy

__all__ = ["Numbers"]

_LEAST_DB = 32.0  # 31 cost NanoDet 0.004 to 0.010 of its AP on different hosts (measured)
_LEAST_CHANNEL_DB = 20.0  # of the weakest index along a short axis
COLLAPSE_DB = 20.0
_MOST_CHANNELS = 256
_EMPTY = 1e-12  # of a power
_SHOWN = 0.25  # a score that never gets there belongs to a class that no sample shows


@dataclass
class _Channel:
    """Along one axis, by index: powers of signal and noise, and the original's extremes."""

    signal: Array
    noise: Array
    low: Array
    high: Array

    def add(self, other: _Channel) -> None:
        if self.signal.shape != other.signal.shape:
            return
        self.signal, self.noise = self.signal + other.signal, self.noise + other.noise
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)

    def judged(self) -> np.ndarray:
        """Indices with a signal, but for scores of what was never shown: they are noise in the original too."""
        scores = (self.low >= 0.0) & (self.high < _SHOWN)
        held = self.signal > _EMPTY * self.signal.max(initial=0.0)
        return np.flatnonzero(held & ~scores)


@dataclass
class Numbers(Kind):
    """Noise against signal: pooled, and for the weakest index along a short axis.

    What an output joins (boxes and scores, left and right) stands at different indices; pooled, the larger numbers
    hide the loss of the smaller. Indices a million times weaker than the strongest count as empty.
    """

    name: ClassVar[str] = "numbers"

    signal: float = 0.0
    noise: float = 0.0
    _channels: dict[int, _Channel] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        """Always: all else does."""
        return True

    @property
    def drop(self) -> float | None:
        """None: dB are no share of anything."""
        return None

    @property
    def error(self) -> float:
        """Root of noise by signal."""
        return math.sqrt(self.noise / self.signal) if self.signal else math.sqrt(self.noise)

    @property
    def sqnr(self) -> float:
        """In dB."""
        return sqnr_db(self.signal, self.noise)

    @property
    def weakest(self) -> tuple[float, str] | None:
        """SQNR in dB and place of the index that keeps least, along a short axis; None where there is none."""
        found = [
            (sqnr_db(float(channel.signal[index]), float(channel.noise[index])), f"axis {axis}, index {index}")
            for axis, channel in sorted(self._channels.items())
            for index in channel.judged()
        ]
        return min(found, default=None)

    def add(self, reference: Array, got: Array) -> None:
        """One sample's numbers, where NaN and Inf are at the same places in both."""
        finite = np.isfinite(reference)
        known = np.where(finite, reference, 0.0)
        error = known - np.where(finite, got, 0.0)
        self.signal += float(np.square(known).sum())
        self.noise += float(np.nan_to_num(np.square(error), nan=np.inf, posinf=np.inf).sum())
        axes = {1, reference.ndim - 1} if reference.ndim > 1 and reference.size else set()
        for axis in (axis for axis in axes if 1 < reference.shape[axis] <= _MOST_CHANNELS):
            others = tuple(other for other in range(reference.ndim) if other != axis)
            noise = np.nan_to_num(np.square(error).sum(axis=others), nan=np.inf, posinf=np.inf)
            found = _Channel(np.square(known).sum(axis=others), noise, known.min(axis=others), known.max(axis=others))
            if axis in self._channels:
                self._channels[axis].add(found)
            else:
                self._channels[axis] = found

    def refusal(self, name: str) -> str | None:
        """By the weakest index, then pooled."""
        if self.weakest is not None and self.weakest[0] < _LEAST_CHANNEL_DB:
            kept, where = self.weakest
            return f"output `{name}` keeps {kept:.1f} dB at {where}, under {_LEAST_CHANNEL_DB:.0f} dB"
        return too_noisy(name, self.sqnr, _LEAST_DB)

    def collapse(self, name: str) -> str | None:
        """Pooled."""
        return too_noisy(name, self.sqnr, COLLAPSE_DB, "collapsed: it keeps")

    def words(self) -> str:
        """Nothing: SQNR is told of every output."""
        return ""

"""Which calibrated ranges further inputs leave, how far, and how many elements lie outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt.calibrate.extremes import growth

if TYPE_CHECKING:
    from infer_opt.calibrate.extremes import Range
    from infer_opt.calibrate.statistics import Seen

__all__ = ["Coverage", "Escape"]


@dataclass(frozen=True)
class Escape:
    """What one value does outside the range that is known of it.

    Args:
        known: the range it had before, of the calibration samples at least; it holds 0.
        reached: the range with the other feeds.
        sample: the one that went farthest.
        share: of the elements outside its calibrated range, on the mean of the other feeds.
    """

    value: str
    known: Range
    reached: Range
    sample: int
    share: float

    @property
    def growth(self) -> float:
        """Width of the range reached by that of the known one; infinite where that holds nothing but 0."""
        return growth(self.known, self.reached)


class Coverage:
    """Sums up feeds that were run after calibration.

    Args:
        ranges: the calibrated range of each value.
    """

    def __init__(self, ranges: Mapping[str, Range]) -> None:
        self._ranges = ranges
        self._reached = dict(ranges)
        self._farthest: dict[str, int] = {}
        self._outside = dict.fromkeys(ranges, 0.0)
        self.feeds = 0

    @property
    def values(self) -> int:
        """How many are watched."""
        return len(self._ranges)

    def add(self, seen: Mapping[str, Seen], sample: int) -> None:
        """Add what a feed of a sample made of the values; those with NaN or Inf in it are left out.

        Args:
            seen: without the values of a branch that the feed did not take.
        """
        self.feeds += 1
        for value in self._ranges.keys() & seen.keys():
            low, high = self._ranges[value]
            minimum, maximum, subsample = seen[value]
            if not (np.isfinite(minimum) and np.isfinite(maximum)) or (low <= minimum and maximum <= high):
                continue
            before = self._reached[value]
            after = min(before[0], minimum), max(before[1], maximum)
            if after != before:
                self._reached[value], self._farthest[value] = after, sample
            self._outside[value] += _share_outside(subsample, low, high)

    def reached(self) -> dict[str, Range]:
        """The ranges that calibration and these feeds reached together."""
        return dict(self._reached)

    def escapes(self, margin: float, known: Mapping[str, Range]) -> list[Escape]:
        """The values that went beyond a known range by more than a share of its width, the farthest first.

        Args:
            margin: that share.
            known: the calibrated ranges, or wider ones.
        """
        found = []
        for value, sample in self._farthest.items():
            before, after = known[value], self._reached[value]
            reached = min(before[0], after[0]), max(before[1], after[1])
            found.append(Escape(value, before, reached, sample, self._outside[value] / self.feeds))
        return sorted((each for each in found if each.growth > 1 + margin), key=lambda each: -each.growth)

    def share(self) -> float:
        """Share of the elements outside, on the mean of all values and feeds."""
        pairs = len(self._ranges) * self.feeds
        return sum(self._outside.values()) / pairs if pairs else 0.0


def _share_outside(subsample: np.ndarray[Any, Any], low: float, high: float) -> float:
    return float(np.mean((subsample < low) | (subsample > high))) if subsample.size else 0.0

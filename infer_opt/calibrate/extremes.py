"""What one sample alone does to the range of a value: the extremes of all samples, and those of all others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["Extremes", "Range", "growth"]

Range = tuple[float, float]


@dataclass(eq=False)
class _Largest:
    """The largest number, the sample it is of, and the largest of all other samples."""

    first: float = -math.inf
    sample: int | None = None
    second: float = -math.inf

    def observe(self, number: float, sample: int) -> None:
        if sample == self.sample:
            self.first = max(self.first, number)
        elif number > self.first:
            self.first, self.sample, self.second = number, sample, self.first
        else:
            self.second = max(self.second, number)

    def without(self, sample: int) -> float:
        return self.second if sample == self.sample else self.first


@dataclass(eq=False)
class Extremes:
    """Extremes of one value over all samples, and without any one of them. Bounded memory.

    The feeds of one sample, where it has several, have to come one after the other.
    """

    _high: _Largest = field(default_factory=_Largest)
    _low: _Largest = field(default_factory=_Largest)  # of the negated numbers

    def observe(self, minimum: float, maximum: float, sample: int) -> None:
        """Add a feed of a sample; +inf and -inf stand for none, as in `Sketch`."""
        self._high.observe(maximum, sample)
        self._low.observe(-minimum, sample)

    def suspects(self) -> set[int]:
        """The samples that hold an extreme."""
        return {sample for sample in (self._high.sample, self._low.sample) if sample is not None}

    def range(self) -> Range:
        """The extremes of all samples, widened to hold 0, as a calibrated range is."""
        return min(-self._low.first, 0.0), max(self._high.first, 0.0)

    def without(self, sample: int) -> Range:
        """The same without one sample."""
        return min(-self._low.without(sample), 0.0), max(self._high.without(sample), 0.0)


def growth(narrow: Range, wide: Range) -> float:
    """Width of a range by that of the narrower one within it: 1 where they are the same, else infinite for width 0."""
    if narrow == wide:
        return 1.0
    width = narrow[1] - narrow[0]
    return (wide[1] - wide[0]) / width if width > 0 else math.inf

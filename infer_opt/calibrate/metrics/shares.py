"""Shares: numbers from 0 to 1 that say yes or no at each place, as masks, heat maps and a detector's scores do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from infer_opt.calibrate.metrics.kind import Array, Kind

__all__ = ["Shares"]

_LEAST_OVERLAP = 0.95
_LEAST_F1 = 0.95
_ENOUGH = 32  # places that the original says yes to: fewer make no F1 worth the name
_DIGITS = 6  # of a drop: float32 in another order moves the next
_COLLAPSE_OVERLAP = 0.8
_YES = 0.5
_SURE = 0.1  # from 0 or 1
_LEAST_SURE = 2 / 3  # of all elements: coordinates lie in between
_ROUNDING = 1e-6  # beyond 0 or 1


@dataclass
class Shares(Kind):
    """How much of what the original says yes to is still said yes to, and no more.

    The overlap is 2 sum(min(a, b)) / sum(a + b), which is F1 where all numbers are 0 or 1 (Dice's coefficient, taken
    over fuzzy sets). Agreement would be next to 100 % for a detector that finds nothing.

    Args:
        common, total: sum of the smaller of both numbers; sum of both.
        yes, got, hits: places over 0.5 in the original's, in the candidate's, and in both.
        elements, sure: all of the original's, and those within 0.1 of 0 or 1.
    """

    name: ClassVar[str] = "shares"

    common: float = 0.0
    total: float = 0.0
    yes: int = 0
    got: int = 0
    hits: int = 0
    elements: int = 0
    sure: int = 0
    _others: bool = field(default=False, repr=False)

    @property
    def fits(self) -> bool:
        """Nothing beyond [0, 1], and most of it close to an end: normalised coordinates are not."""
        return self.total > 0.0 and not self._others and self.sure >= _LEAST_SURE * self.elements

    @property
    def overlap(self) -> float:
        """From 0 to 1."""
        return 2.0 * self.common / self.total if self.total else 1.0

    @property
    def f1(self) -> float | None:
        """Of the places over 0.5; None where the original has hardly any."""
        return 2.0 * self.hits / (self.yes + self.got) if self.yes >= _ENOUGH else None

    @property
    def drop(self) -> float | None:
        """What F1 lacks, or the overlap where there are too few places for it."""
        if self.f1 is None:
            return round(self.error, _DIGITS)
        return (self.yes + self.got - 2 * self.hits) / (self.yes + self.got)  # exact where it is the limit

    @property
    def error(self) -> float:
        """What the overlap lacks."""
        return 1.0 - self.overlap

    def add(self, reference: Array, got: Array) -> None:
        """One sample's numbers."""
        if not reference.size or self._others:
            return
        if not (reference.min() >= -_ROUNDING and reference.max() <= 1.0 + _ROUNDING):
            self._others = True
            return
        found = np.nan_to_num(got, nan=0.0, posinf=1.0, neginf=0.0)
        self.common += float(np.minimum(reference, found).sum())
        self.total += float((reference + np.abs(found)).sum())
        yes, also = reference >= _YES, found >= _YES
        self.yes += int(yes.sum())
        self.got += int(also.sum())
        self.hits += int((yes & also).sum())
        self.elements += reference.size
        self.sure += int((np.abs(reference - _YES) >= _YES - _SURE).sum())

    def refusal(self, name: str) -> str | None:
        """By F1, then by overlap."""
        if self.f1 is not None and self.f1 < _LEAST_F1:
            return f"what `{name}` says yes to (over {_YES}) has F1 {self.f1:.3f}, under {_LEAST_F1}"
        if self.overlap < _LEAST_OVERLAP:
            return f"output `{name}` overlaps the original's by {self.overlap:.3f}, under {_LEAST_OVERLAP}"
        return None

    def collapse(self, name: str) -> str | None:
        """By overlap."""
        if self.overlap >= _COLLAPSE_OVERLAP:
            return None
        return f"output `{name}` collapsed: it overlaps the original's by {self.overlap:.3f}, under {_COLLAPSE_OVERLAP}"

    def words(self) -> str:
        """F1 where there is one."""
        return f"overlap {self.overlap:.3f}" if self.f1 is None else f"F1 {self.f1:.3f}"

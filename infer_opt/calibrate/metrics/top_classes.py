"""`--metric top1` and `top5`: the original's top class among those that are ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from infer_opt.calibrate.metrics.kind import Array, Kind

__all__ = ["TopClasses"]

_LARGEST_DROP = 0.01
_COLLAPSE = 0.5


@dataclass
class TopClasses(Kind):
    """The share of rows in which the original's top class is among the candidate's first `ahead`.

    Rows run along the last axis, or along axis 1 of [n, classes, height, width].
    """

    name: ClassVar[str] = "top classes"

    ahead: int = 1
    rows: int = 0
    kept: int = 0
    unfit: bool = False

    @property
    def fits(self) -> bool:
        """Whether there are classes to choose from."""
        return bool(self.rows) and not self.unfit

    @property
    def drop(self) -> float | None:
        """Share of rows in which it is not."""
        return (self.rows - self.kept) / self.rows if self.rows else None

    def add(self, reference: Array, got: Array) -> None:
        """One sample's scores."""
        axis = 1 if reference.ndim == 4 else reference.ndim - 1
        if reference.ndim < 2 or reference.shape[axis] <= self.ahead:
            self.unfit = self.unfit or reference.size > 0
            return
        best = np.expand_dims(reference.argmax(axis), axis)
        own = np.take_along_axis(got, best, axis)
        places = np.arange(got.shape[axis]).reshape([-1 if each == axis else 1 for each in range(got.ndim)])
        # Of equal scores the first wins, as by argmax: scores that are all the same keep nothing. NaN beats everything.
        before = ~(got <= own) | ((got == own) & (places < best))
        self.rows += best.size
        self.kept += int((before.sum(axis) < self.ahead).sum())

    def refusal(self, name: str) -> str | None:
        """By the share."""
        drop = self.drop or 0.0
        if drop <= _LARGEST_DROP:
            return None
        return f"{self._what()} of `{name}` is lost in {drop:.1%} of rows, over {_LARGEST_DROP:.0%}"

    def collapse(self, name: str) -> str | None:
        """By the share."""
        drop = self.drop or 0.0
        return f"output `{name}` collapsed: {self._what()} is lost in {drop:.1%} of rows" if drop > _COLLAPSE else None

    def words(self) -> str:
        """The share that is kept."""
        return f"{self._what()} kept in {1 - (self.drop or 0.0):.1%} of rows"

    def _what(self) -> str:
        return "the top class" if self.ahead == 1 else f"the top class among the first {self.ahead}"

"""The error of one output, by what it means."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infer_opt.calibrate.metrics.kind import Kind
from infer_opt.calibrate.metrics.named import TOLD
from infer_opt.calibrate.metrics.numbers import Numbers
from infer_opt.calibrate.metrics.powers import EXACT_DB, too_noisy

__all__ = ["OutputError"]

Array = np.ndarray[Any, Any]


@dataclass
class OutputError:
    """Error of one output, gathered sample by sample in constant memory.

    Integer and boolean outputs count unequal elements; floats are judged by the first kind that fits them.

    Args:
        joined: whether parts of this output are judged, so that its numbers are told but not judged.
        state: whether it is handed to the next run, so that it is judged by what comes of it there.
    """

    name: str
    joined: bool = False
    state: bool = False
    largest: float = 0.0
    elements: int = 0
    unequal: int = 0
    shape_differs: bool = False
    misplaced: bool = False
    """Whether NaN or Inf are in other places than in the original's."""
    floats: bool = True
    kinds: tuple[Kind, ...] = field(default_factory=TOLD.kinds)
    numbers: Numbers = field(default_factory=Numbers)

    def add(self, reference: Array, got: Array) -> None:
        """One sample's output, from the original and from the candidate."""
        if reference.shape != got.shape:
            self.shape_differs = True
            return
        self.elements += reference.size
        if reference.dtype.kind not in "fc":
            self.floats = False
            self.unequal += int((reference != got).sum())
            return
        self._add_floats(reference.astype(np.float64), got.astype(np.float64))

    def _add_floats(self, reference: Array, got: Array) -> None:
        self.misplaced = self.misplaced or not (
            np.array_equal(np.isnan(reference), np.isnan(got))
            and np.array_equal(reference[np.isinf(reference)], got[np.isinf(reference)])
            and np.isfinite(got[np.isfinite(reference)]).all()
        )
        finite = np.isfinite(reference)
        distance = np.abs(np.where(finite, reference, 0.0) - np.where(finite, got, 0.0))
        self.largest = max(self.largest, float(np.nan_to_num(distance, nan=math.inf, posinf=math.inf).max(initial=0.0)))
        for kind in (*self.kinds, self.numbers):
            kind.add(reference, got)

    @property
    def kind(self) -> Kind:
        """By which it is judged: the first that fits all that the original gave."""
        return next((kind for kind in self.kinds if kind.fits), self.numbers)

    @property
    def broken(self) -> str | None:
        """What no limit can allow, in words, or None."""
        if self.shape_differs:
            return "has another shape than the original's"
        return "has NaN or Inf in other places than the original" if self.misplaced else None

    @property
    def signal(self) -> float:
        """Power of the original's output, summed over samples and elements."""
        return self.numbers.signal

    @property
    def noise(self) -> float:
        """Power of the difference, summed likewise; infinite where it is beyond measure."""
        return math.inf if self.misplaced else self.numbers.noise

    @property
    def sqnr(self) -> float:
        """SQNR in dB; integer outputs: exact or lost."""
        if self.shape_differs or self.unequal or self.misplaced:
            return -EXACT_DB
        return self.numbers.sqnr

    @property
    def drop(self) -> float | None:
        """What `--max-drop` limits; None where nothing of the kind is told of the output."""
        return self.kind.drop if self.judged else None

    @property
    def judged(self) -> bool:
        """Whether its numbers count: not where its parts do, or what comes of it in the next run."""
        return self.floats and not self.joined and not self.state

    def refusal(self) -> str | None:
        """Why it is not right enough where no limit is stated; None if it is."""
        if self.broken is not None:
            return f"output `{self.name}` {self.broken}"
        if self.unequal:
            return f"{self.unequal} of {self.elements} elements of output `{self.name}` differ"
        if not self.judged:
            return None
        return self.kind.refusal(self.name) or self._lost("keeps")

    def collapse(self) -> str | None:
        """Why it is of no use to anybody, whatever precision was ordered; None if it is of some."""
        if self.broken is not None:
            return f"output `{self.name}` {self.broken}"
        if not self.judged:
            return None
        return self.kind.collapse(self.name) or self._lost("collapsed: it keeps")

    def _lost(self, verb: str) -> str | None:
        """That it is noise, whatever its kind says."""
        least = self.kind.least_db
        return None if least is None else too_noisy(self.name, self.sqnr, least, verb)

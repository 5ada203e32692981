"""Budgets: what an artifact may lose and has to gain, and whether it does."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.evaluation import Score
    from infer_opt.calibrate.metrics import OutputError

__all__ = ["Budget"]

_LARGEST_DROP = 0.01  # of a score of which no limit is stated


@dataclass(frozen=True)
class Budget:
    """Limits a user states; None is no limit.

    Args:
        max_drop: largest drop of the score, where the user has a function for one; otherwise of an output, in the unit
            of its kind: share of rows with another class ahead, what F1 lacks, what the cosine lacks.
        min_sqnr: least SQNR of every float output, in dB.
        min_speedup: least latency of the original by the artifact's.
    """

    max_drop: float | None = None
    min_sqnr: float | None = None
    min_speedup: float | None = None

    @property
    def stated(self) -> bool:
        """Whether a limit on errors was stated."""
        return self.max_drop is not None or self.min_sqnr is not None

    def faults(self, errors: Sequence[OutputError], speedup: float | None, score: Score | None = None) -> list[str]:
        """What misses a stated limit, in words; with a score, also what misses the default one of that."""
        found: list[str] = []
        if score is not None:
            found += self._of_score(score)
        for error in errors:
            if self.min_sqnr is not None and _has_noise(error) and error.sqnr < self.min_sqnr:
                found.append(f"output `{error.name}` keeps {error.sqnr:.1f} dB of --min-sqnr {self.min_sqnr:g}")
            if score is None and self.max_drop is not None and error.drop is not None and error.drop > self.max_drop:
                found.append(f"output `{error.name}` loses {error.drop:.3f} of --max-drop {self.max_drop:g}")
        if self.min_speedup is not None and speedup is not None and speedup < self.min_speedup:
            found.append(f"speed-up {speedup:.2f}x (measured) misses --min-speedup {self.min_speedup:g}")
        return found

    def _of_score(self, score: Score) -> list[str]:
        limit = _LARGEST_DROP if self.max_drop is None else self.max_drop
        if score.drop <= limit:
            return []
        return [f"the score falls from {score.original:.4g} to {score.candidate:.4g}, by more than {limit:g}"]

    def unchecked(self, errors: Sequence[OutputError], score: Score | None = None) -> list[str]:
        """Stated limits that speak of no output that was compared: nobody knows whether they are met."""
        found: list[str] = []
        if self.min_sqnr is not None and not any(map(_has_noise, errors)):
            found.append("--min-sqnr cannot be checked: no float output was compared")
        if self.max_drop is not None and score is None and all(error.drop is None for error in errors):
            found.append("--max-drop cannot be checked: no output of classes, shares or vectors was compared")
        return found

    def refuses(self, errors: Sequence[OutputError], score: Score | None = None) -> str | None:
        """Why a quantized candidate is not right enough; None if it is.

        An output is judged by the stated limits that speak of it, or else by the defaults; where there is a score, that
        takes the place of the defaults, but for what is broken.
        """
        broken = (f"output `{error.name}` {error.broken}" for error in errors if error.broken is not None)
        unjudged = (error.refusal() for error in errors if score is None and not self._judges(error))
        return next(chain(broken, self.faults(errors, None, score), filter(None, unjudged)), None)

    def collapses(self, errors: Sequence[OutputError], score: Score | None = None) -> list[str]:
        """Outputs that are broken, or no use to anybody, whatever precision was ordered; in words.

        An output of which a stated limit or a score speaks is judged by that alone, unless it is broken.
        """
        judged_so = (error for error in errors if error.broken or (score is None and not self._judges(error)))
        found = (error.collapse() for error in judged_so)
        return [words for words in found if words is not None]

    def _judges(self, error: OutputError) -> bool:
        by_noise = self.min_sqnr is not None and _has_noise(error)
        by_drop = self.max_drop is not None and error.drop is not None
        return (by_noise or by_drop) and error.broken is None


def _has_noise(error: OutputError) -> bool:
    """Whether SQNR says something: not of integers, and not of a state, which is judged by what comes of it."""
    return error.floats and not error.state

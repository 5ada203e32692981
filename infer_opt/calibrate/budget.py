"""Budgets: what an artifact may lose and has to gain, and whether it does."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.metrics import OutputError

__all__ = ["COLLAPSE_DB", "Budget"]

# The budget of `--precision auto` for outputs of which no stated limit speaks. Class scores: the class matters, not the
# score.
_LEAST_AGREEMENT = 0.99
_LARGEST_DIVERGENCE = 0.05  # nats
_LEAST_DB = 30.0
_LEAST_CHANNEL_DB = 20.0  # of the weakest index along a short axis
_LEAST_SCORES_DB = 10.0  # of class scores: below this they are noise, whatever their largest class says

# What no order of a precision covers, unless a stated limit allows it. Of class scores, beside `_LEAST_SCORES_DB`.
COLLAPSE_DB = 20.0
_COLLAPSE_AGREEMENT = 0.5


@dataclass(frozen=True)
class Budget:
    """Limits a user states; None is no limit.

    Args:
        max_drop: largest share of samples whose top class may differ from the original's.
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

    def faults(self, errors: Sequence[OutputError], speedup: float | None) -> list[str]:
        """What misses a stated limit, in words."""
        found: list[str] = []
        for error in errors:
            if self.min_sqnr is not None and error.floats and error.sqnr < self.min_sqnr:
                found.append(f"output `{error.name}` keeps {error.sqnr:.1f} dB of --min-sqnr {self.min_sqnr:g}")
            drop = None if error.agreement is None else (error.rows - error.agreeing) / error.rows
            if self.max_drop is not None and drop is not None and drop > self.max_drop:
                found.append(f"output `{error.name}` loses {drop:.3f} of --max-drop {self.max_drop:g}")
        if self.min_speedup is not None and speedup is not None and speedup < self.min_speedup:
            found.append(f"speed-up {speedup:.2f}x (measured) misses --min-speedup {self.min_speedup:g}")
        return found

    def unchecked(self, errors: Sequence[OutputError]) -> list[str]:
        """Stated limits that speak of no output that was compared: nobody knows whether they are met."""
        found: list[str] = []
        if self.min_sqnr is not None and not any(error.floats for error in errors):
            found.append("--min-sqnr cannot be checked: no float output was compared")
        if self.max_drop is not None and all(error.agreement is None for error in errors):
            found.append("--max-drop cannot be checked: no output with class scores was compared")
        return found

    def refuses(self, errors: Sequence[OutputError]) -> str | None:
        """Why a quantized candidate is not right enough; None if it is.

        An output is judged by the stated limits that speak of it, or else by the defaults.
        """
        unjudged = [error for error in errors if not self._judges(error)]
        return next(chain(self.faults(errors, None), filter(None, map(_default_refusal, unjudged))), None)

    def collapses(self, errors: Sequence[OutputError]) -> list[str]:
        """Outputs that are broken, or no use to anybody, whatever precision was ordered; in words.

        An output of which a stated limit speaks is judged by that limit alone, unless it is broken.
        """
        unjudged = (error for error in errors if not self._judges(error))
        return [f"output `{error.name}` {words}" for error in unjudged if (words := error.broken or _collapse(error))]

    def _judges(self, error: OutputError) -> bool:
        by_noise = self.min_sqnr is not None and error.floats
        by_class = self.max_drop is not None and error.agreement is not None
        return (by_noise or by_class) and error.broken is None


def _collapse(error: OutputError) -> str | None:
    if error.agreement is not None and error.agreement < _COLLAPSE_AGREEMENT:
        return f"collapsed: its top class agrees on {error.agreement:.1%} of samples, under {_COLLAPSE_AGREEMENT:.0%}"
    least = COLLAPSE_DB if error.agreement is None else _LEAST_SCORES_DB
    return f"collapsed: it keeps {error.sqnr:.1f} dB, under {least:.0f} dB" if _is_noisy(error, least) else None


def _default_refusal(error: OutputError) -> str | None:
    if error.broken is not None:
        return f"output `{error.name}` {error.broken}"
    if error.unequal:
        return f"{error.unequal} of {error.elements} elements of output `{error.name}` differ"
    if not error.floats:
        return None
    return _refused_scores(error) if error.agreement is not None else _refused_numbers(error)


def _refused_scores(error: OutputError) -> str | None:
    agreement, divergence = error.agreement or 0.0, error.divergence / error.rows
    if agreement < _LEAST_AGREEMENT:
        return f"top class of `{error.name}` agrees on {agreement:.1%} of samples, under {_LEAST_AGREEMENT:.0%}"
    if divergence > _LARGEST_DIVERGENCE:
        return f"scores of `{error.name}` diverge by {divergence:.3f} nats, over {_LARGEST_DIVERGENCE}"
    return _too_noisy(error, _LEAST_SCORES_DB)


def _refused_numbers(error: OutputError) -> str | None:
    if error.weakest is not None and error.weakest[0] < _LEAST_CHANNEL_DB:
        kept, where = error.weakest
        return f"output `{error.name}` keeps {kept:.1f} dB at {where}, under {_LEAST_CHANNEL_DB:.0f} dB"
    return _too_noisy(error, _LEAST_DB)


def _too_noisy(error: OutputError, least: float) -> str | None:
    return f"output `{error.name}` keeps {error.sqnr:.1f} dB, under {least:.0f} dB" if _is_noisy(error, least) else None


def _is_noisy(error: OutputError, least: float) -> bool:
    return error.floats and error.sqnr < least

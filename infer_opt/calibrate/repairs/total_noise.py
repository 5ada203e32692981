"""One figure for the noise at all outputs, by which repairs are chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt.calibrate.metrics import sqnr_db

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt.calibrate.metrics import OutputError

__all__ = ["TotalNoise", "total_noise"]


@dataclass(frozen=True)
class TotalNoise:
    """Noise of a plan at the outputs.

    Args:
        share: noise by signal, summed over the parts of the outputs: mostly that of the weakest, which is what a plan
            is held to.
        least_db: SQNR of the weakest part.
    """

    share: float
    least_db: float

    @classmethod
    def of(cls, signals: Mapping[str, float], noises: Mapping[str, float]) -> TotalNoise:
        """From powers by part."""
        parts = [part for part, signal in signals.items() if signal > 0]
        share = sum(noises[part] / signals[part] for part in parts)
        return cls(share, min((sqnr_db(signals[part], noises[part]) for part in parts), default=math.inf))


def total_noise(errors: Sequence[OutputError]) -> TotalNoise:
    """Of the outputs, and parts of outputs, that are judged."""
    judged = [error for error in errors if error.judged]
    return TotalNoise.of({each.name: each.signal for each in judged}, {each.name: each.noise for each in judged})

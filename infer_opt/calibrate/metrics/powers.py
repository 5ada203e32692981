"""Signal and noise.

SQNR (signal to quantization-noise ratio) is 10 log10(sum(reference^2) / sum((reference - got)^2)), pooled over samples.
"""

from __future__ import annotations

import math

__all__ = ["EXACT_DB", "sqnr_db", "too_noisy"]

EXACT_DB = 200.0  # printed for no error at all: beyond what float32 can show


def sqnr_db(signal: float, noise: float) -> float:
    """SQNR in dB from the two powers; `EXACT_DB` where there is no noise, its negative for noise without signal."""
    if noise == 0.0:
        return EXACT_DB
    if not math.isfinite(noise) or signal == 0.0:
        return -EXACT_DB
    return min(EXACT_DB, 10.0 * math.log10(signal / noise))


def too_noisy(name: str, kept: float, least: float, verb: str = "keeps") -> str | None:
    """That output `name` keeps less than it has to, both in dB, in words; None if it keeps enough."""
    return f"output `{name}` {verb} {kept:.1f} dB, under {least:.0f} dB" if kept < least else None

"""Drift: errors that grow on inputs unlike those that a model was calibrated on.

A quantizer that was fitted to clean samples clips what noise adds, and class scores that are sure of themselves hide
it: a classifier of page turns kept 57 dB on clean pages, and lost 3 points on noisy ones (measured). So an error that
is several times as large on noisy or blurred copies says that the samples do not vouch for what the device will see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt.calibrate.metrics import OutputError

__all__ = ["drift"]

_GROWTH = 4.0  # of the error, as an amplitude
_CHANGED = {"noise": "with noise", "blur": "blurred"}


def drift(errors: Sequence[OutputError], changed: Mapping[str, Sequence[OutputError]]) -> str | None:
    """Why errors on samples do not vouch for changed ones; None if they do.

    Args:
        errors: on the samples as they are.
        changed: of the same outputs, by what was done to the samples.
    """
    for change, others in changed.items():
        for before, after in zip(errors, others, strict=True):
            words = _grown(before, after, _CHANGED.get(change, f"with {change}"))
            if words is not None:
                return words
    return None


def _grown(before: OutputError, after: OutputError, change: str) -> str | None:
    if after.broken is not None:
        return f"output `{after.name}` {after.broken}, on samples {change}"
    if not after.judged or not after.kind.matters:
        return None
    if type(after.kind) is not type(before.kind) or after.kind.error <= _GROWTH * before.kind.error:
        return None
    growth = f"{after.kind.error / before.kind.error:.0f} times" if before.kind.error else "infinitely many times"
    return (
        f"the error of output `{after.name}` is {growth} as large on samples {change}: "
        "calibrated on cleaner inputs than those"
    )

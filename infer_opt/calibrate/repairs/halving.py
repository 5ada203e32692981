"""Of many small changes, those that lower a noise together: all at once, and by halves where that does not help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from infer_opt.calibrate.repairs.total_noise import TotalNoise

__all__ = ["helpful"]

_HALVINGS = 3
_GAIN = 0.95  # of the noise: what falls by less is chance

Change = TypeVar("Change")


def helpful(
    changes: tuple[Change, ...], before: TotalNoise, noise: Callable[[Iterable[Change]], TotalNoise]
) -> tuple[tuple[Change, ...], TotalNoise]:
    """The changes that lower the noise, and the noise with them.

    Args:
        before: the noise without any.
        noise: with some of them.
    """
    kept: tuple[Change, ...] = ()
    waiting = [(changes, _HALVINGS)]
    while waiting:
        tried, halvings = waiting.pop()
        after = noise((*kept, *tried))
        if after.share < _GAIN * before.share:
            kept, before = (*kept, *tried), after
        elif halvings and len(tried) > 1:
            middle = len(tried) // 2
            waiting += [(tried[middle:], halvings - 1), (tried[:middle], halvings - 1)]
    return kept, before

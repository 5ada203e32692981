"""Choosing among built candidates: the fastest that is right enough; ties go to the one named first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.metrics import OutputError
    from infer_opt.calibrate.timing import Latency

__all__ = ["Judged", "choose"]

TIE = 1.03  # candidates closer than this are ties: it is the noise of one interleaved timing


@dataclass(frozen=True)
class Judged:
    """A candidate with what was found out about it.

    Args:
        errors: against the original, by output; empty where nothing was verified.
        latency: measured here, or None.
        refused: why its outputs are not right enough, or None.
        bytes: size of the artifact.
    """

    name: str
    bytes: int
    errors: Sequence[OutputError]
    latency: Latency | None
    refused: str | None

    @property
    def speedup(self) -> float | None:
        """The original's latency by this one's, or None where it was not measured."""
        return None if self.latency is None else self.latency.ratio


def choose(judged: Sequence[Judged], unmeasured: str | None) -> tuple[Judged, str]:
    """The winner and why, in words.

    Args:
        judged: in the order that decides ties. The first is never refused: it is the model as it is.
        unmeasured: why there is no latency, or None.
    """
    right = [item for item in judged if item.refused is None] or [judged[0]]
    refusals = "; ".join(f"{item.name} was refused: {item.refused}" for item in judged if item.refused is not None)
    if len(judged) == 1:
        return judged[0], "the only candidate"
    if unmeasured is not None or any(item.latency is None for item in right):
        smallest = min(right, key=lambda item: item.bytes)
        why = f"smallest that is right enough; latency was not measured: {unmeasured}"
        return smallest, "; ".join(filter(None, (why, refusals)))
    best = right[0]
    for item in right[1:]:
        if _milliseconds(best) > TIE * _milliseconds(item):
            best = item
    others = ", ".join(f"{item.name} {_milliseconds(item):.3f} ms" for item in right if item is not best)
    why = f"{best.name} is fastest of what is right enough: {_milliseconds(best):.3f} ms (measured)"
    return best, "; ".join(filter(None, (why + (f"; {others}" if others else ""), refusals)))


def _milliseconds(item: Judged) -> float:
    assert item.latency is not None  # noqa: S101 - asked only where all were timed
    return item.latency.p50_ms

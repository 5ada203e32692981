"""Choosing among built candidates: the fastest that is right enough; ties go to the most exact, then to the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt.calibrate.evaluation import Score
    from infer_opt.calibrate.metrics import OutputError
    from infer_opt.calibrate.timing import Latency

__all__ = ["Judged", "choose"]

TIE = 1.05  # candidates closer than this are ties: the noise of a timing, and little to gain for twice the error
_UNSEEN_DB = 60.0  # float32 in another order leaves about as much: more is no merit


@dataclass(frozen=True)
class Judged:
    """A candidate with what was found out about it.

    Args:
        errors: against the original, by output; empty where nothing was verified.
        drifts: of one that was ordered: why its errors do not hold on noisy or blurred samples, or None.
        latency: measured here, or None.
        modelled: seconds of one run on the device, by its latency model, or None.
        refused: why its outputs are not right enough, or None.
        failed: why it does not run, or None.
        bytes: size of the artifact.
        score: by the user's function, or None.
    """

    name: str
    bytes: int
    errors: Sequence[OutputError]
    latency: Latency | None
    refused: str | None
    failed: str | None = None
    drifts: str | None = None
    score: Score | None = None
    modelled: float | None = None

    @property
    def least_db(self) -> float:
        """SQNR in dB of the output that keeps least, as far as anybody would see it."""
        return min((_UNSEEN_DB, *(error.sqnr for error in self.errors if error.judged)))

    @property
    def speedup(self) -> float | None:
        """The original's latency by this one's, or None where it was not measured."""
        return None if self.latency is None else self.latency.ratio


def choose(judged: Sequence[Judged], unmeasured: str | None) -> tuple[Judged, str]:
    """The winner and why, in words.

    Args:
        judged: in the order that decides ties.
        unmeasured: why there is no latency, or None.

    Raises:
        InputError: no candidate runs; or none is right enough, and the first, the model as it is, does not run.
    """
    running = [item for item in judged if item.failed is None]
    failures = [f"{item.name} does not run: {item.failed}" for item in judged if item.failed is not None]
    refused = [f"{item.name} was refused: {item.refused}" for item in running if item.refused is not None]
    refusals = "; ".join(failures + refused)
    right = [item for item in running if item.refused is None] or [item for item in running if item is judged[0]]
    if not right:
        raise InputError(f"no artifact came out that runs and is right enough: {refusals}", "report it with the model")
    if len(judged) == 1:
        return judged[0], "the only candidate"
    unmeasured = unmeasured or ("it cannot be run here" if any(item.latency is None for item in right) else None)
    best, why = _fastest(right) if unmeasured is None else _unmeasured(right, unmeasured)
    return best, "; ".join(filter(None, (why, refusals)))


def _fastest(right: Sequence[Judged]) -> tuple[Judged, str]:
    # Ratios are taken round by round, so that what else the machine does weighs on both sides alike.
    best = _most_exact(right, {item.name: _speedup(item) for item in right})
    others = ", ".join(f"{item.name} {_speedup(item):.2f}x" for item in right if item is not best)
    why = f"{best.name} is fastest of what is right enough: {_speedup(best):.2f}x the original (measured)"
    return best, why + (f"; {others}" if others else "")


def _unmeasured(right: Sequence[Judged], unmeasured: str) -> tuple[Judged, str]:
    """The fastest by the device's model, of ties as exact the smallest; where there is none, the smallest."""
    known = {item.name: 1e6 * item.modelled for item in right if item.modelled}
    if len(known) < len(right):
        smallest = min(right, key=lambda item: item.bytes)
        return smallest, f"smallest that is right enough; latency was not measured: {unmeasured}"
    speeds = {name: 1 / taken for name, taken in known.items()}
    best = _most_exact(sorted(right, key=lambda item: item.bytes), speeds)
    others = ", ".join(f"{name} {taken:.0f} us" for name, taken in known.items() if name != best.name)
    why = f"{best.name} is fastest of what is right enough: {known[best.name]:.0f} us (modelled)"
    why += f"; {others}" if others else ""
    return best, f"{why}; latency was not measured: {unmeasured}"


def _most_exact(right: Sequence[Judged], speeds: Mapping[str, float]) -> Judged:
    """Of those that tie with the fastest."""
    fastest = max(speeds.values())
    return max((item for item in right if TIE * speeds[item.name] >= fastest), key=lambda item: item.least_db)


def _speedup(item: Judged) -> float:
    assert item.speedup is not None  # noqa: S101 - asked only where all were timed
    return item.speedup

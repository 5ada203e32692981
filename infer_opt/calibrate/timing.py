"""Latency on this host: candidates timed in turns, so that whatever else the machine does falls on all alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from infer_opt.calibrate.runner import Runner

__all__ = ["Latency", "interleaved"]

_LEAST_SECONDS = 2e-3  # of one turn: shorter ones are mostly the clock and the call


@dataclass(frozen=True)
class Latency:
    """Measured latency of one run, in milliseconds."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    rounds: int
    ratio: float = 1.0
    """Median over the rounds of the first runner's time by this one's: the speed-up."""


def interleaved(
    runners: Mapping[str, Runner],
    feed: Mapping[str, np.ndarray],
    *,
    rounds: int = 15,
    seconds: float = 4.0,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Latency]:
    """Time each runner on one feed, round by round; the first is what the others are compared with.

    Args:
        rounds: at least this many where `seconds` allows, and never fewer than 3.
        seconds: about how long the whole may take.
    """
    once = {name: _warm(runner, feed) for name, runner in runners.items()}
    repeats = {name: max(1, round(_LEAST_SECONDS / max(time, 1e-6))) for name, time in once.items()}
    turn = sum(once[name] * repeats[name] for name in runners)
    count = max(3, min(rounds, int(seconds / max(turn, 1e-6))))
    times: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(count):
        for name, runner in runners.items():
            times[name].append(1e3 * runner.seconds(feed, repeats[name]))
        advance()
    first = np.asarray(next(iter(times.values())))
    return {name: _latency(np.asarray(taken), first) for name, taken in times.items()}


def _latency(taken: np.ndarray, first: np.ndarray) -> Latency:
    p50, p90, p99 = (float(value) for value in np.percentile(taken, (50, 90, 99)))
    return Latency(p50, p90, p99, len(taken), float(np.median(first / taken)))


def _warm(runner: Runner, feed: Mapping[str, np.ndarray]) -> float:
    runner.seconds(feed)
    return min(runner.seconds(feed) for _ in range(2))

"""Latency on this host: candidates timed in turns, so that whatever else the machine does falls on all alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from infer_opt.calibrate.runner import Runner

__all__ = ["Latency", "in_turns", "interleaved", "median_seconds"]

_LEAST_SECONDS = 2e-3  # of one turn: the first run after another model's is slow, and must not be the only one


@dataclass(frozen=True)
class Latency:
    """Measured latency of one run, in milliseconds: percentiles over all runs of all rounds."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    rounds: int
    ratio: float = 1.0
    """Median over the rounds of the first runner's time by this one's: the speed-up. The time of a turn is the median
    of its runs, so that one during which the machine did something else does not count."""


def interleaved(
    runners: Mapping[str, Runner],
    feeds: Sequence[Mapping[str, np.ndarray]],
    *,
    rounds: int = 15,
    seconds: float = 4.0,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Latency]:
    """Time each runner; see `in_turns`. Of several feeds, one run counts as the mean over all."""
    timers = {name: partial(_mean_seconds, runner, feeds) for name, runner in runners.items()}
    return in_turns(timers, rounds=rounds, seconds=seconds / len(feeds), advance=advance)


def _mean_seconds(runner: Runner, feeds: Sequence[Mapping[str, np.ndarray]]) -> float:
    return sum(runner.seconds(feed) for feed in feeds) / len(feeds)


def in_turns(
    timers: Mapping[str, Callable[[], float]],
    *,
    rounds: int,
    seconds: float,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Latency]:
    """Time round by round, each timer a few runs at a turn; the first is what the others are compared with.

    Args:
        timers: each makes one run and gives its wall-clock seconds.
        rounds: at most this many, fewer where `seconds` are over, and never fewer than 3.
        seconds: about how long the whole may take.
    """
    once = {name: _warm(timer) for name, timer in timers.items()}
    repeats = {name: max(1, round(_LEAST_SECONDS / max(time, 1e-6))) for name, time in once.items()}
    turn = sum(once[name] * repeats[name] for name in timers)
    count = max(3, int(min(rounds, seconds / max(turn, 1e-6))))
    times: dict[str, list[list[float]]] = {name: [] for name in timers}
    for _ in range(count):
        for name, timer in timers.items():
            times[name].append([1e3 * timer() for _ in range(repeats[name])])
        advance()
    first = np.median(next(iter(times.values())), axis=1)
    return {name: _latency(np.asarray(taken), first) for name, taken in times.items()}


def median_seconds(runner: Runner, feed: Mapping[str, np.ndarray], runs: int) -> float:
    """Median wall-clock seconds of one run, after two more."""
    for _ in range(2):
        runner.seconds(feed)
    return float(np.median([runner.seconds(feed) for _ in range(runs)]))


def _latency(taken: np.ndarray, first: np.ndarray) -> Latency:
    p50, p90, p99 = (float(value) for value in np.percentile(taken, (50, 90, 99)))
    return Latency(p50, p90, p99, len(taken), float(np.median(first / np.median(taken, axis=1))))


def _warm(timer: Callable[[], float]) -> float:
    timer()
    return min(timer() for _ in range(2))

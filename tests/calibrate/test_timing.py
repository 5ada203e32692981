"""Timing in turns: the order of the turns, the percentiles of given times, and the ratio of two real networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from infer_opt.calibrate.runner import Runner
from infer_opt.calibrate.timing import in_turns, interleaved
from tests.targets.networks import Network, normal


def told(log: list[str], name: str, times: Iterator[float]) -> Callable[[], float]:
    """A timer that notes its name and tells the next of the given times."""

    def timer() -> float:
        log.append(name)
        return next(times)

    return timer


def always(seconds: float) -> Iterator[float]:
    """The same time for ever."""
    while True:
        yield seconds


def test_turns_are_taken_round_by_round() -> None:
    """Three warm-up runs each, then a round of each after the other: whatever disturbs a round falls on all."""
    log: list[str] = []
    timers = {name: told(log, name, always(2e-3)) for name in "abc"}
    in_turns(timers, rounds=4, seconds=10)
    assert "".join(log) == "aaabbbccc" + "abc" * 4


def test_short_runs_are_repeated_within_a_turn() -> None:
    """Until a turn takes about 2 ms; each is repeated as its own length asks."""
    log: list[str] = []
    timers = {"long": told(log, "l", always(5e-3)), "short": told(log, "s", always(0.5e-3))}
    in_turns(timers, rounds=3, seconds=10)
    assert "".join(log) == "lllsss" + "lssss" * 3


def test_numbers_are_those_of_the_times_told() -> None:
    """Percentiles over all runs in milliseconds; the ratio is the median over rounds, which one slow round leaves."""
    first = [4e-3, 5e-3, 6e-3, 90e-3, 8e-3]
    second = [2e-3, 2e-3, 2e-3, 2e-3, 4e-3]
    warm = [4e-3] * 3
    timers = {
        "first": told([], "", iter([*warm, *first])),
        "second": told([], "", iter([*warm, *second])),
    }
    found = in_turns(timers, rounds=5, seconds=10)
    for name, times in (("first", first), ("second", second)):
        expected = 1e3 * np.percentile(times, (50, 90, 99))
        np.testing.assert_allclose((found[name].p50_ms, found[name].p90_ms, found[name].p99_ms), expected)
        assert found[name].rounds == 5
    assert found["first"].ratio == 1.0
    assert found["second"].ratio == pytest.approx(2.5)


@pytest.mark.parametrize(("seconds", "rounds"), [(10.0, 15), (1.0, 5), (0.1, 3), (0.0, 3)])
def test_the_time_allowed_bounds_the_rounds(seconds: float, rounds: int) -> None:
    """Runs of 0.1 s in two: as many rounds as fit, 3 at least and 15 at most."""
    steps: list[int] = []
    timers = {name: told([], name, always(0.1)) for name in "ab"}
    found = in_turns(timers, rounds=15, seconds=seconds, advance=lambda: steps.append(1))
    assert found["a"].rounds == found["b"].rounds == len(steps) == rounds


def deep(layers: int) -> Runner:
    """A chain of matrix products."""
    body = "".join(f"v{index + 1} = MatMul(v{index}, w) " for index in range(layers))
    network = Network(
        f"net (float[192,192] v0) => (float[192,192] y) {{ {body} y = Neg(v{layers}) }}", {"w": normal(192, 192)}
    )
    return Runner(network.proto().SerializeToString(), "the model")


def test_a_far_deeper_net_takes_longer() -> None:
    """16 times the work is no less than twice the time, whatever else the machine does."""
    found = interleaved({"short": deep(2), "long": deep(32)}, [{"v0": normal(192, 192)}], rounds=9, seconds=2)
    assert found["long"].ratio < 0.5
    assert 0 < found["long"].p50_ms <= found["long"].p90_ms <= found["long"].p99_ms
    assert found["short"].p50_ms < found["long"].p50_ms


def test_a_run_on_several_feeds_counts_as_their_mean() -> None:
    """A long and a short feed in turns lie between the two, whatever else the machine does."""
    network = Network(
        "net (float[N,192] x) => (float[N,192] y) { v = MatMul(x, w) y = MatMul(v, w) }", {"w": normal(192, 192)}
    )
    runner = Runner(network.proto().SerializeToString(), "the model")
    short, long = {"x": normal(1, 192)}, {"x": normal(2000, 192)}
    times = {
        name: interleaved({"net": runner}, feeds, rounds=9, seconds=2)["net"].p50_ms
        for name, feeds in (("short", [short]), ("both", [short, long]), ("long", [long]))
    }
    assert 2 * times["short"] < times["both"] < 0.8 * times["long"]


def test_one_slow_run_within_a_turn_does_not_count() -> None:
    """In every round one of five runs is ten times as slow: the time of a turn is the median of its runs."""
    disturbed = [0.4e-3] * 4 + [4e-3]
    timers = {
        "first": told([], "", iter([0.8e-3] * 3 + [0.8e-3] * 2 * 6)),
        "second": told([], "", iter([0.4e-3] * 3 + disturbed * 6)),
    }
    found = in_turns(timers, rounds=6, seconds=10)
    assert found["second"].ratio == pytest.approx(2.0)
    assert found["second"].p99_ms == pytest.approx(4.0)

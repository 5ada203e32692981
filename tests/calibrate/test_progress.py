"""Stages: their times add up, and progress is passed on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from infer_opt.calibrate.progress import Silent, Stages


class Noting:
    """Progress that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Callable[[], None]]:
        """See `Progress`."""
        self.told.append(f"{name} of {total}")
        yield lambda: self.told.append("step")
        self.told.append(f"end of {name}")


def test_progress_is_told_of_stages_and_steps() -> None:
    """In order, with the number of steps."""
    progress = Noting()
    stages = Stages(progress)
    with stages("calibrate", 2) as advance:
        advance()
        advance()
    with stages("emit"):
        pass
    assert progress.told == ["calibrate of 2", "step", "step", "end of calibrate", "emit of 1", "end of emit"]


def test_seconds_of_a_stage_entered_again_add_up() -> None:
    """Wall-clock time, by name, in the order of the first entry."""
    stages = Stages(Silent())
    for name in ("emit", "verify", "emit"):
        with stages(name) as advance:
            time.sleep(0.02)
            advance()
    assert list(stages.seconds) == ["emit", "verify"]
    assert 0.02 <= stages.seconds["verify"] < stages.seconds["emit"]
    assert 0.04 <= stages.seconds["emit"] < 0.5


def test_a_stage_that_fails_lets_the_failure_through() -> None:
    """And has no time: it was not done."""
    stages = Stages(Silent())
    with pytest.raises(ValueError, match="broken"), stages("load"):
        raise ValueError("broken")
    assert stages.seconds == {}

"""Progress and stage times: what long work tells whoever started it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from infer_opt.calibrate.memory import give_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = ["Progress", "Silent", "Stages"]

Advance = "Callable[[], None]"


class Progress(Protocol):
    """Shows how far a stage is."""

    def stage(self, name: str, total: int) -> AbstractContextManager[Callable[[], None]]:
        """Enter a stage of `total` steps; the function given is called after each."""
        ...


class Silent:
    """No progress shown."""

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Callable[[], None]]:
        """See `Progress`."""
        del name, total
        yield lambda: None


class Stages:
    """Wall-clock seconds of each stage, as measured, while its progress is shown."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str, total: int = 1) -> Iterator[Callable[[], None]]:
        """Time a stage; times of a stage entered again add up."""
        started = time.perf_counter()
        with self._progress.stage(name, total) as advance:
            yield advance
        give_back()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

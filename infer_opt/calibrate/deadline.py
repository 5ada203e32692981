"""The time that a search may take."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

__all__ = ["Deadline"]


@dataclass
class Deadline:
    """When a search has to end with the best it has; it may go on for ever where no time is given.

    Args:
        seconds: from now on, or None.
        cut: what was left out because the time was over, in words.
    """

    seconds: float | None = None
    cut: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._end = None if self.seconds is None else time.monotonic() + self.seconds

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self._end is not None and time.monotonic() >= self._end

    def leaves_out(self, what: str) -> bool:
        """Whether the time is up, so that something is left out; it is remembered for the report, once."""
        if self.over and what not in self.cut:
            self.cut.append(what)
        return self.over

"""Some samples of a set, and several sets as one: nothing is copied, and samples keep their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from infer_opt.calibrate.sample_set import Feed, SampleSet

__all__ = ["Joined", "Subset"]


@dataclass(frozen=True)
class Subset(SampleSet):
    """Samples of a set by index; the digest is that of the whole.

    Args:
        indices: ascending.
    """

    source: str
    whole: SampleSet
    indices: range

    @classmethod
    def of(cls, whole: SampleSet, indices: range) -> Subset:
        """From the same source as the whole."""
        return cls(whole.source, whole, indices)

    def __len__(self) -> int:
        return len(self.indices)

    def describe(self, index: int) -> str:
        """As the whole set names it."""
        return self.whole.describe(self.indices[index])

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        wanted = self.indices[start:stop]
        if not wanted:
            return iter(())
        # One pass: reading anew for each would run through a stacked file or a function again and again.
        return islice(self.whole.feeds(wanted[0], wanted[-1] + 1), None, None, wanted.step)

    def _digest(self) -> str | None:
        return self.whole.sha256


@dataclass(frozen=True)
class Joined(SampleSet):
    """One set after another, of the same source; the digest is that of the first."""

    source: str
    first: SampleSet
    second: SampleSet

    @classmethod
    def of(cls, first: SampleSet, second: SampleSet) -> Joined:
        """From the source of the first."""
        return cls(first.source, first, second)

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def describe(self, index: int) -> str:
        """As the set that it is of names it."""
        border = len(self.first)
        return self.first.describe(index) if index < border else self.second.describe(index - border)

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        border = len(self.first)
        yield from self.first.feeds(min(start, border), min(stop, border))
        yield from self.second.feeds(max(start, border) - border, max(stop, border) - border)

    def _digest(self) -> str | None:
        return self.first.sha256

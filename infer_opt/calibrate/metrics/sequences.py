"""`--metric ctc`: the text that a recogniser reads, by greedy decoding (Graves et al., "CTC", 2006)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import ClassVar

from infer_opt.calibrate.metrics.kind import Array, Kind

__all__ = ["Sequences", "edit_distance"]

_LARGEST_DROP = 0.01
_COLLAPSE = 0.5


@dataclass
class _Reading:
    """What is read where one symbol is the blank."""

    blank: int
    blanks: int = 0
    symbols: int = 0
    edits: int = 0

    def add(self, wanted: list[int], found: list[int]) -> None:
        """One row's symbols, position by position."""
        self.blanks += wanted.count(self.blank)
        text = _read(wanted, self.blank)
        self.symbols += len(text)
        self.edits += edit_distance(text, _read(found, self.blank))


@dataclass
class Sequences(Kind):
    """Edit distance between what the candidate reads and what the original reads, by symbols of the original.

    Outputs are [n, positions, symbols]. The blank is the first symbol or the last, wherever exporters put it: the one
    that the original gives more often, since text has more gaps than any letter. Both readings are counted until that
    is known, which takes no memory that grows with the samples.
    """

    name: ClassVar[str] = "sequences"

    unfit: bool = False
    _readings: tuple[_Reading, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether there are positions and symbols."""
        return bool(self._readings) and not self.unfit

    @property
    def drop(self) -> float | None:
        """Edits for each symbol of the original; 1 at most, and None where neither reads anything."""
        if not self._readings:
            return None
        reading = max(self._readings, key=lambda each: each.blanks)
        return min(1.0, reading.edits / max(reading.symbols, 1)) if reading.symbols or reading.edits else None

    def add(self, reference: Array, got: Array) -> None:
        """One sample's symbols."""
        if self.unfit or reference.ndim != 3 or reference.shape[-1] < 2:
            self.unfit = self.unfit or reference.size > 0
            return
        last = reference.shape[-1] - 1
        self._readings = self._readings or (_Reading(0), _Reading(last))
        if self._readings[-1].blank != last:  # another alphabet from sample to sample
            self.unfit = True
            return
        wanted, found = (array.argmax(-1).tolist() for array in (reference, got))
        for reading in self._readings:
            for rows in zip(wanted, found, strict=True):
                reading.add(*rows)

    def refusal(self, name: str) -> str | None:
        """By the drop."""
        drop = self.drop or 0.0
        if drop <= _LARGEST_DROP:
            return None
        return f"what `{name}` reads differs by {drop:.1%} of its symbols, over {_LARGEST_DROP:.0%}"

    def collapse(self, name: str) -> str | None:
        """By the drop."""
        drop = self.drop or 0.0
        return f"output `{name}` collapsed: {drop:.1%} of its symbols differ" if drop > _COLLAPSE else None

    def words(self) -> str:
        """The drop."""
        return f"{self.drop or 0.0:.1%} of its symbols differ"


def _read(symbols: list[int], blank: int) -> list[int]:
    return [symbol for symbol, _ in groupby(symbols) if symbol != blank]


def edit_distance(one: list[int], other: list[int]) -> int:
    """Insertions, deletions and substitutions that turn one into the other (Levenshtein)."""
    row = list(range(len(other) + 1))
    for index, symbol in enumerate(one, start=1):
        left = index
        following = [left]
        for (before, above), candidate in zip(pairwise(row), other, strict=True):
            left = min(left + 1, above + 1, before + (symbol != candidate))
            following.append(left)
        row = following
    return row[-1]

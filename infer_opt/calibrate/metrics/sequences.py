"""`--metric ctc`: the text that a recogniser reads, by greedy decoding (Graves et al., "CTC", 2006)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import ClassVar

import numpy as np

from infer_opt.calibrate.metrics.kind import Array

__all__ = ["Sequences", "edit_distance"]

_LARGEST_DROP = 0.01
_COLLAPSE = 0.5


@dataclass
class Sequences:
    """Edit distance between what the candidate reads and what the original reads, by symbols of the original.

    Outputs are [n, positions, symbols]. The blank is the symbol that the original gives most often: exporters put it
    first or last, and text has more gaps than letters.
    """

    name: ClassVar[str] = "sequences"

    unfit: bool = False
    least_db: float | None = None
    _rows: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether there are positions and symbols."""
        return bool(self._rows) and not self.unfit

    @property
    def drop(self) -> float | None:
        """Edits for each symbol of the original; 1 at most, and None where it reads nothing at all."""
        blank = self._blank()
        texts = [(_read(wanted, blank), _read(got, blank)) for wanted, got in self._rows]
        symbols = sum(len(wanted) for wanted, _ in texts)
        return min(1.0, sum(edit_distance(*pair) for pair in texts) / symbols) if symbols else None

    @property
    def error(self) -> float:
        """The drop."""
        return self.drop or 0.0

    @property
    def matters(self) -> bool:
        """Whether the limit says so."""
        return self.refusal("") is not None

    def add(self, reference: Array, got: Array) -> None:
        """One sample's symbols; only the largest of each position is kept."""
        if reference.ndim != 3 or reference.shape[-1] < 2:
            self.unfit = self.unfit or reference.size > 0
            return
        wanted, found = (array.argmax(-1).astype(np.int32) for array in (reference, got))
        self._rows += zip(wanted, found, strict=True)

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

    def _blank(self) -> int:
        counts: Counter[int] = Counter()
        for wanted, _ in self._rows:
            counts.update(wanted.tolist())
        return counts.most_common(1)[0][0] if counts else 0


def _read(symbols: np.ndarray, blank: int) -> list[int]:
    return [symbol for symbol, _ in groupby(symbols.tolist()) if symbol != blank]


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

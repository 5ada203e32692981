"""The base of every kind of sample data: what an input wants, what a feed is, and how samples are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["Feed", "InputSpec", "SampleSet"]

Feed = dict[str, np.ndarray]
"""One complete set of arrays for one run of the model, keyed by input name."""


@dataclass(frozen=True)
class InputSpec:
    """One input of a model, as the model declares it.

    Args:
        name: the input's name in the graph.
        dtype: the element type the model declares.
        shape: one entry a dimension: an int where it is fixed, a str where it is a symbol, None where it is
            unknown; None for the whole where even the rank is unknown.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | str | None, ...] | None


class SampleSet(ABC):
    """Samples that are read when asked for, a few at a time; may be iterated any number of times.

    Attributes:
        source: the path or word the user gave, for messages.
    """

    source: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def describe(self, index: int) -> str:
        """The sample's name in messages, such as `calib/0003.npz` or `samples.npz sample 3` (from 0)."""

    def sample_of(self, index: int) -> int:
        """The number of the sample that the feed at `index` is a form of: its own, except in augmented sets."""
        return index

    @abstractmethod
    def _read(self, start: int, stop: int) -> Iterator[Feed]: ...

    @abstractmethod
    def _digest(self) -> str | None: ...

    def __iter__(self) -> Iterator[Feed]:
        return self.feeds(0, len(self))

    def feeds(self, start: int, stop: int) -> Iterator[Feed]:
        """The feeds `start` to `stop - 1` in order, each of fresh arrays.

        Only their data is read, except that compressed members and Python functions are run through from
        their beginning, and that an array in Fortran order is read whole.

        Raises:
            ValueError: at once, unless 0 <= start <= stop <= len(self).
            InputError: while reading, where the data is damaged or has changed since it was first looked at.
        """
        if not 0 <= start <= stop <= len(self):
            raise ValueError(f"samples {start} to {stop} of {len(self)}")
        return self._read(start, stop)

    @cached_property
    def sha256(self) -> str | None:
        """SHA-256 of the data in hexadecimal, computed when first asked for; None where there is no data.

        One file: that of its bytes, as `sha256sum` gives it. A folder: that of `LC_ALL=C sha256sum *` in it,
        so names count as well as bytes. A Python function: that of the feeds. The word `random`: None. A part
        of a set has the digest of the whole.
        """
        return self._digest()

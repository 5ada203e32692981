"""What a kind of output is to those who judge it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

__all__ = ["Array", "Kind"]

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]


class Kind(ABC):
    """One way to compare a float output with the original's, over samples, with the limits that hold unless stated.

    The limits are label-free: they speak of the original's output, not of the truth.
    """

    name: ClassVar[str]
    least_db: ClassVar[float | None] = None
    """SQNR under which an output is noise, whatever else holds; None where powers say nothing of it."""

    @property
    @abstractmethod
    def fits(self) -> bool:
        """Whether all that the original gave so far is of this kind."""

    @property
    @abstractmethod
    def drop(self) -> float | None:
        """What is lost, from 0 (as the original) to 1, in the unit of `--max-drop`; None where the kind has none."""

    @property
    def error(self) -> float:
        """A figure that grows with the error like an amplitude, for comparing one set of samples with another."""
        return self.drop or 0.0

    @property
    def matters(self) -> bool:
        """Whether the error is large enough to look at, where nobody knows what the inputs are worth."""
        return self.refusal("") is not None

    @abstractmethod
    def add(self, reference: Array, got: Array) -> None:
        """One sample's output, of one shape, from the original and from the candidate."""

    @abstractmethod
    def refusal(self, name: str) -> str | None:
        """Why output `name` is not right enough, by the default limits; None if it is."""

    @abstractmethod
    def collapse(self, name: str) -> str | None:
        """Why output `name` is of no use to anybody, whatever precision was ordered; None if it is of some."""

    @abstractmethod
    def words(self) -> str:
        """What is kept, for a person."""

"""Directions: vectors of which the direction matters, as embeddings and hidden states, and long rows of logits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from infer_opt.calibrate.metrics.kind import Array, Kind
from infer_opt.calibrate.metrics.softmax import divergence, log_softmax

__all__ = ["Directions"]

_LEAST_COSINE = 0.99
_TURNED = 0.95  # the cosine of a vector that points elsewhere
_MOST_TURNED = 0.01  # of all vectors
_LARGEST_DIVERGENCE = 0.02  # nats
_DIGITS = 6  # of a drop: float32 in another order moves the next
_COLLAPSE_COSINE = 0.9
_FEWEST_ENTRIES = 64  # shorter rows are coordinates, or the bins of some
_TINY = 1e-30  # of a norm


@dataclass
class Directions(Kind):
    """Cosine of each vector with the original's, and how far apart their softmax is.

    Vectors are [n, size] or [n, positions, size]. Whether such rows are embeddings or the logits of a language model
    cannot be told from the numbers, so both have to hold; the softmax of an embedding hardly moves.

    Args:
        shortest: entries that a vector has at least; 1 takes every row for a vector, also one of one sign.
        rows, cosines: number of vectors, and sum of their cosines.
        turned: vectors with a cosine under 0.95.
        divergence: sum over rows of the Kullback-Leibler divergence of their softmax, in nats.
    """

    name: ClassVar[str] = "directions"

    shortest: int = _FEWEST_ENTRIES
    rows: int = 0
    cosines: float = 0.0
    turned: int = 0
    divergence: float = 0.0
    _others: bool = field(default=False, repr=False)

    @property
    def fits(self) -> bool:
        """Long rows, each of both signs."""
        return bool(self.rows) and not self._others

    @property
    def cosine(self) -> float:
        """Mean over all vectors."""
        return self.cosines / self.rows if self.rows else 1.0

    @property
    def drop(self) -> float | None:
        """What the mean cosine lacks."""
        return round(1.0 - self.cosine, _DIGITS)

    @property
    def error(self) -> float:
        """Length of the difference of two unit vectors at the mean cosine."""
        return math.sqrt(max(0.0, 2.0 - 2.0 * self.cosine))

    def add(self, reference: Array, got: Array) -> None:
        """One sample's vectors."""
        if not reference.size or self._others:
            return
        if not self._are_vectors(reference):
            self._others = True
            return
        rows, found = (array.reshape(-1, array.shape[-1]).astype(np.float64) for array in (reference, got))
        found = np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0)
        lengths = np.linalg.norm(rows, axis=-1) * np.linalg.norm(found, axis=-1)
        cosines = (rows * found).sum(axis=-1) / np.maximum(lengths, _TINY)
        self.rows += len(rows)
        self.cosines += float(cosines.sum())
        self.turned += int((cosines < _TURNED).sum())
        self.divergence += divergence(log_softmax(rows), log_softmax(found))

    def refusal(self, name: str) -> str | None:
        """By the mean, by those that turned, and as logits."""
        if self.cosine < _LEAST_COSINE:
            return f"vectors of `{name}` keep a cosine of {self.cosine:.3f}, under {_LEAST_COSINE}"
        turned = self.turned / max(self.rows, 1)
        if turned > _MOST_TURNED:
            return f"{turned:.1%} of the vectors of `{name}` keep a cosine under {_TURNED}, over {_MOST_TURNED:.0%}"
        mean = self.divergence / max(self.rows, 1)
        if mean > _LARGEST_DIVERGENCE:
            return f"the softmax of `{name}` diverges by {mean:.3f} nats, over {_LARGEST_DIVERGENCE}"
        return None

    def collapse(self, name: str) -> str | None:
        """By the mean."""
        if self.cosine >= _COLLAPSE_COSINE:
            return None
        return f"output `{name}` collapsed: its vectors keep a cosine of {self.cosine:.3f}, under {_COLLAPSE_COSINE}"

    def words(self) -> str:
        """The mean."""
        return f"cosine {self.cosine:.4f}"

    def _are_vectors(self, rows: Array) -> bool:
        if self.shortest == 1:
            return rows.ndim > 0
        if rows.ndim not in {2, 3} or rows.shape[-1] < self.shortest or not np.isfinite(rows).all():
            return False
        return bool((rows.min(axis=-1) < 0).all() and (rows.max(axis=-1) > 0).all())

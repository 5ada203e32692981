"""Class scores: rows of which the largest entry matters."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from infer_opt.calibrate.metrics.kind import Array, Kind
from infer_opt.calibrate.metrics.softmax import divergence, log_softmax

__all__ = ["ClassScores"]

_LARGEST_LOSS = 0.01  # of accuracy, by the original's own probabilities
_LEAST_AGREEMENT = 0.9
_LARGEST_DIVERGENCE = 0.05  # nats
_COLLAPSE_AGREEMENT = 0.5
_SMALL_ODDS = 0.1  # of the log odds
_LEAST_DB = 10.0  # below this they are noise, whatever their largest class says

_SMALLEST = 1e-12  # of a probability: a class that got none would make the divergence infinite
_FEWEST_LOGITS = 10
_SMALLEST_VOCABULARY = 8192  # wider than any hidden state, and no wider than those of language models
_LEAST_PEAK = 0.2  # the mean over all samples: a classifier may be unsure of one
_WIDEST_LOGITS = 88.0  # exp(-88) is next to 0 in float32: a row that spreads further has no softmax worth the name


@dataclass
class ClassScores(Kind):
    """Whether the same class is ahead, what it costs where it is not, and how far the probabilities are apart.

    Another class ahead costs what the original finds it less likely than its own: next to nothing where two are as good
    as equal, and all where it was sure. The mean over rows is the accuracy that is lost, as far as the original's
    probabilities can be trusted; that two of three hundred rows were near a tie says nothing of a candidate.

    Rows are probabilities, [n, classes], [n, positions, classes] or [n, classes, height, width], or logits,
    [n, classes] or [n, positions, words of a vocabulary].

    Args:
        rows, agreeing: all, and those whose largest entry is the original's.
        lost: sum over rows of what the original finds the candidate's top class less likely than its own.
        divergence: sum over rows of the Kullback-Leibler divergence, in nats.
        odds: sum over rows of the squared error of the log odds of the original's two likeliest classes.
        peaks: sum over rows of the largest share that a softmax would give a class; 1 a row of probabilities.
    """

    name: ClassVar[str] = "class scores"
    least_db: ClassVar[float | None] = _LEAST_DB

    rows: int = 0
    agreeing: int = 0
    lost: float = 0.0
    divergence: float = 0.0
    odds: float = 0.0
    peaks: float = 0.0
    _others: bool = field(default=False, repr=False)

    @property
    def fits(self) -> bool:
        """Whether one class is ahead of the others, over all samples.

        Rank 2 alone says nothing: boxes, landmarks and embeddings have it too, and keep their largest column long
        after they are of no use.
        """
        return bool(self.rows) and not self._others and self.peaks >= _LEAST_PEAK * self.rows

    @property
    def agreement(self) -> float:
        """Share of rows whose largest class is the original's."""
        return self.agreeing / self.rows if self.rows else 1.0

    @property
    def drop(self) -> float | None:
        """Share of rows with another class ahead."""
        return (self.rows - self.agreeing) / self.rows if self.rows else None

    @property
    def error(self) -> float:
        """Of the log odds, root mean square: unlike that of probabilities, it does not vanish where scores are sure."""
        return math.sqrt(self.odds / self.rows) if self.rows else 0.0

    @property
    def matters(self) -> bool:
        """Whether the odds move by a tenth."""
        return self.error > _SMALL_ODDS

    def add(self, reference: Array, got: Array) -> None:
        """One sample's scores."""
        rows = _class_rows(reference)
        if rows is None or self._others:
            self._others = self._others or reference.size > 0
            return
        found = _class_rows(got, like=reference)
        assert found is not None  # noqa: S101 - it has the reference's shape
        self.rows += rows.shape[0]
        self.peaks += float(rows.shape[0] if _are_probabilities(rows) else np.exp(log_softmax(rows).max(-1)).sum())
        self.agreeing += int((rows.argmax(-1) == found.argmax(-1)).sum())
        if np.isfinite(found).all():
            log_p, log_q = _logarithms(rows, found)
            self.divergence += divergence(log_p, log_q)
            best = np.take_along_axis(log_p, found.argmax(-1)[:, None], -1)[:, 0]
            self.lost += float((np.exp(log_p.max(-1)) - np.exp(best)).sum())
            self.odds += float(np.square(_odds(log_p, log_p) - _odds(log_p, log_q)).sum())

    def refusal(self, name: str) -> str | None:
        """By what is lost, by agreement, then by divergence."""
        lost = self.lost / max(self.rows, 1)
        if lost > _LARGEST_LOSS:
            words = f"`{name}` loses {lost:.1%} of accuracy by the original's own scores, over {_LARGEST_LOSS:.0%}"
            return f"{words}; its top class agrees on {self.agreement:.1%} of samples"
        if self.agreement < _LEAST_AGREEMENT:
            return f"top class of `{name}` agrees on {self.agreement:.1%} of samples, under {_LEAST_AGREEMENT:.0%}"
        mean = self.divergence / max(self.rows, 1)
        if mean > _LARGEST_DIVERGENCE:
            return f"scores of `{name}` diverge by {mean:.3f} nats, over {_LARGEST_DIVERGENCE}"
        return None

    def collapse(self, name: str) -> str | None:
        """By agreement."""
        if self.agreement >= _COLLAPSE_AGREEMENT:
            return None
        limit = f"under {_COLLAPSE_AGREEMENT:.0%}"
        return f"output `{name}` collapsed: its top class agrees on {self.agreement:.1%} of samples, {limit}"

    def words(self) -> str:
        """Agreement."""
        return f"top class agrees on {self.agreement:.1%}"


def _logarithms(reference: Array, got: Array) -> tuple[Array, Array]:
    if _are_probabilities(reference):
        log_p, log_q = (np.log(np.maximum(rows.astype(np.float64), _SMALLEST)) for rows in (reference, got))
        return log_p, log_q
    return log_softmax(reference), log_softmax(got)


def _odds(order: Array, logarithms: Array) -> Array:
    """Log odds of each row between the two classes that are ahead in `order`."""
    second, first = np.argpartition(order, (-2, -1), axis=-1)[:, -2:].T
    rows = np.arange(len(order))
    result: Array = logarithms[rows, first] - logarithms[rows, second]
    return result


def _are_probabilities(rows: Array) -> bool:
    return bool((rows >= 0).all() and np.allclose(rows.sum(axis=-1), 1.0, atol=1e-3))


def _class_rows(scores: Array, like: Array | None = None) -> Array | None:
    """[rows, classes] of an output that may be class scores; None if it is not.

    Args:
        like: an output of the same shape that decides in its place.
    """
    reference = scores if like is None else like
    if reference.ndim not in {2, 3, 4} or not reference.size or not np.isfinite(reference).all():
        return None
    axis = 1 if reference.ndim == 4 else reference.ndim - 1
    if reference.shape[axis] < 2:
        return None
    rows = _as_rows(reference, axis)
    if not _are_probabilities(rows) and not _may_be_logits(rows, reference.ndim):
        return None
    return rows if like is None else _as_rows(scores, axis)


def _as_rows(scores: Array, axis: int) -> Array:
    return np.moveaxis(scores, axis, -1).reshape(-1, scores.shape[axis])


def _may_be_logits(rows: Array, rank: int) -> bool:
    """Many a row, of both signs, not too far from each other; of a vocabulary, [n, positions, words], of any sign."""
    low, high = rows.min(axis=-1), rows.max(axis=-1)
    if not (high - low < _WIDEST_LOGITS).all():
        return False
    if rank == 3:
        return bool(rows.shape[1] >= _SMALLEST_VOCABULARY)
    return rank == 2 and rows.shape[1] >= _FEWEST_LOGITS and bool(((low < 0) & (high > 0)).all())

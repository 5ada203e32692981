"""Comparing outputs with the original's: pure functions and small accumulators, one number at the end.

SQNR (signal to quantization-noise ratio) is 10 log10(sum(reference^2) / sum((reference - got)^2)), pooled over samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["OutputError", "kl_divergence", "sqnr_db"]

Array = np.ndarray[Any, Any]

_SMALLEST = 1e-12  # of a probability: a class that got none would make the divergence infinite

EXACT_DB = 200.0  # printed for no error at all: beyond what float32 can show


def sqnr_db(signal: float, noise: float) -> float:
    """SQNR in dB from the two powers; `EXACT_DB` where there is no noise, its negative for noise without signal."""
    if noise == 0.0:
        return EXACT_DB
    if not math.isfinite(noise) or signal == 0.0:
        return -EXACT_DB
    return min(EXACT_DB, 10.0 * math.log10(signal / noise))


def kl_divergence(reference: Array, got: Array) -> float:
    """Mean Kullback-Leibler divergence in nats of the classes that `got` gives from those that `reference` gives.

    Args:
        reference: [samples, classes], logits or probabilities; non-negative rows that add up to 1 are the latter.
        got: likewise, of the same kind.
    """
    if _are_probabilities(reference):
        log_p, log_q = (np.log(np.maximum(rows.astype(np.float64), _SMALLEST)) for rows in (reference, got))
    else:
        log_p, log_q = _log_softmax(reference), _log_softmax(got)
    return float((np.exp(log_p) * (log_p - log_q)).sum(axis=-1).mean())


def _are_probabilities(rows: Array) -> bool:
    return bool((rows >= 0).all() and np.allclose(rows.sum(axis=-1), 1.0, atol=1e-3))


def _log_softmax(logits: Array) -> Array:
    shifted: Array = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


@dataclass
class OutputError:
    """Error of one output, gathered sample by sample in constant memory.

    Integer and boolean outputs count unequal elements; floats gather powers, and agreement where they are class scores.
    """

    name: str
    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    elements: int = 0
    unequal: int = 0
    rows: int = 0
    agreeing: int = 0
    divergence: float = 0.0
    peaks: float = 0.0
    """Sum over rows of the largest share that a softmax would give a class; 1 a row of probabilities."""
    shape_differs: bool = False
    floats: bool = True
    part: bool = False
    """Whether this is a slice of an output, judged beside the whole."""
    channels: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    """Signal and noise of each index along axis 1 and the last one, where these are short."""
    _other_numbers: bool = False

    def add(self, reference: Array, got: Array) -> None:
        """One sample's output, from the original and from the candidate."""
        if reference.shape != got.shape:
            self.shape_differs = True
            return
        self.elements += reference.size
        if reference.dtype.kind not in "fc":
            self.floats = False
            self.unequal += int((reference != got).sum())
            return
        self._add_floats(reference.astype(np.float64), got.astype(np.float64))

    def _add_floats(self, reference: Array, got: Array) -> None:
        finite = np.isfinite(reference)
        # NaN and Inf have to be where the original has them; anywhere else they are an error beyond measure.
        same_places = np.array_equal(np.isnan(reference), np.isnan(got)) and np.array_equal(
            reference[np.isinf(reference)], got[np.isinf(reference)]
        )
        error = np.where(finite, reference, 0.0) - np.where(finite, got, 0.0)
        self.signal += float(np.square(reference, where=finite, out=np.zeros_like(reference)).sum())
        self.noise += float(np.square(error).sum()) if same_places and np.isfinite(error).all() else math.inf
        distance = np.where(np.isnan(error), math.inf, np.abs(error))
        self.largest = max(self.largest, float(distance.max(initial=0.0)))
        self._add_channels(reference, error)
        if not self.part:
            self._add_scores(reference, got)

    def _add_channels(self, reference: Array, error: Array) -> None:
        axes = {1, reference.ndim - 1} if reference.ndim > 1 and self.elements else set()
        for axis in axes:
            if not 1 < reference.shape[axis] <= _MOST_CHANNELS:
                continue
            others = tuple(other for other in range(reference.ndim) if other != axis)
            signal = np.square(np.where(np.isfinite(reference), reference, 0.0)).sum(axis=others)
            noise = np.nan_to_num(np.square(error).sum(axis=others), nan=math.inf, posinf=math.inf)
            known = self.channels.setdefault(axis, (np.zeros_like(signal), np.zeros_like(noise)))
            if known[0].shape == signal.shape:
                self.channels[axis] = (known[0] + signal, known[1] + noise)

    def _add_scores(self, reference: Array, got: Array) -> None:
        if not _may_be_class_scores(reference):
            self._other_numbers = self._other_numbers or reference.size > 0
        elif not self._other_numbers:
            self.rows += reference.shape[0]
            self.peaks += _peaks(reference)
            self.agreeing += int((reference.argmax(-1) == got.argmax(-1)).sum())
            if np.isfinite(got).all():
                self.divergence += kl_divergence(reference, got) * reference.shape[0]

    @property
    def broken(self) -> str | None:
        """What no limit can allow, in words, or None."""
        if self.shape_differs:
            return "has another shape than the original's"
        return "has NaN or Inf in other places than the original" if self.noise == math.inf else None

    @property
    def sqnr(self) -> float:
        """SQNR in dB; integer outputs: exact or lost."""
        if self.shape_differs or self.unequal:
            return -EXACT_DB
        return sqnr_db(self.signal, self.noise)

    @property
    def weakest(self) -> tuple[float, str] | None:
        """SQNR in dB and place of the index that keeps least, along a short axis; None where there is none.

        What an output joins (boxes and scores, left and right) stands at different indices; pooled, the larger numbers
        hide the loss of the smaller. Indices a million times weaker than the strongest count as empty.
        """
        found = [
            (sqnr_db(float(signal[index]), float(noise[index])), f"axis {axis}, index {index}")
            for axis, (signal, noise) in sorted(self.channels.items())
            for index in range(len(signal))
            if signal[index] > _EMPTY * signal.max(initial=0.0)
        ]
        return min(found, default=None)

    @property
    def agreement(self) -> float | None:
        """Share of rows whose largest class is the original's; None where the output is no class scores."""
        if not self.rows or self._other_numbers or self.peaks < _LEAST_PEAK * self.rows:
            return None
        return self.agreeing / self.rows


_MOST_CHANNELS = 256
_EMPTY = 1e-12  # of a power
_FEWEST_LOGITS = 10
_LEAST_PEAK = 0.2  # the mean over all samples: a classifier may be unsure of one
_WIDEST_LOGITS = 88.0  # exp(-88) is next to 0 in float32: a row that spreads further has no softmax worth the name


def _may_be_class_scores(rows: Array) -> bool:
    """Probabilities, or numbers that look like logits: many a row, of both signs, not too far from each other.

    Rank 2 alone says nothing: boxes, landmarks and embeddings have it too, and keep their largest column long after
    they are of no use. That one class is ahead of the others, as logits have it, shows over all samples; see `peaks`.
    """
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] < 2 or not np.isfinite(rows).all():
        return False
    if _are_probabilities(rows):
        return True
    low, high = rows.min(axis=-1), rows.max(axis=-1)
    return rows.shape[1] >= _FEWEST_LOGITS and bool(((low < 0) & (high > 0) & (high - low < _WIDEST_LOGITS)).all())


def _peaks(rows: Array) -> float:
    return float(rows.shape[0] if _are_probabilities(rows) else np.exp(_log_softmax(rows).max(axis=-1)).sum())

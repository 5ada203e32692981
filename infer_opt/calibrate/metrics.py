"""Comparing outputs with the original's: pure functions and small accumulators, one number at the end.

SQNR (signal to quantization-noise ratio) is 10 log10(sum(reference^2) / sum((reference - got)^2)), pooled over samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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
    shape_differs: bool = False
    floats: bool = True
    class_scores: bool = False
    part: bool = False
    """Whether this is a slice of an output, judged beside the whole."""

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
        if not self.part and _is_class_scores(reference):
            self.class_scores = True
            self.rows += reference.shape[0]
            self.agreeing += int((reference.argmax(-1) == got.argmax(-1)).sum())
            if np.isfinite(got).all() and finite.all():
                self.divergence += kl_divergence(reference, got) * reference.shape[0]

    @property
    def sqnr(self) -> float:
        """SQNR in dB; integer outputs: exact or lost."""
        if self.shape_differs or self.unequal:
            return -EXACT_DB
        return sqnr_db(self.signal, self.noise)

    @property
    def agreement(self) -> float | None:
        """Share of rows whose largest class is the original's; None where the output is no class scores."""
        return self.agreeing / self.rows if self.class_scores and self.rows else None


_FEWEST_CLASSES = 2


def _is_class_scores(output: Array) -> bool:
    return output.ndim == 2 and output.shape[0] > 0 and output.shape[1] >= _FEWEST_CLASSES

"""Distributions over classes, as logarithms."""

from __future__ import annotations

import numpy as np

from infer_opt.calibrate.metrics.kind import Array

__all__ = ["divergence", "log_softmax"]


def log_softmax(logits: Array) -> Array:
    """Logarithm of the softmax along the last axis, in float64."""
    shifted: Array = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def divergence(log_p: Array, log_q: Array) -> float:
    """Kullback-Leibler divergence of q from p in nats, summed over all rows: sum(p (log p - log q)).

    Args:
        log_p, log_q: [..., classes], logarithms of probabilities.
    """
    return float((np.exp(log_p) * (log_p - log_q)).sum())

"""Outputs as networks give them, and their errors, for tests of those who judge them."""

from __future__ import annotations

import numpy as np

from infer_opt.calibrate.metrics import ClassScores, Numbers, OutputError
from tests.targets.networks import normal


def floats(*values: float) -> np.ndarray:
    """A row of float32."""
    return np.array([values], np.float32)


def error_of(reference: np.ndarray, got: np.ndarray, name: str = "y") -> OutputError:
    """The error of one sample."""
    error = OutputError(name)
    error.add(reference, got)
    return error


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of float32 logits."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def logits(rows: int, columns: int) -> np.ndarray:
    """As a trained classifier gives them: noise of both signs, and one class ahead."""
    noise = normal(rows, columns, scale=1.5)
    noise[np.arange(rows), np.arange(rows) * 7 % columns] += 8
    return noise


def uniform(*shape: int) -> np.ndarray:
    """Uniform float32 numbers in [0, 1)."""
    return np.random.default_rng(0).random(shape, np.float32)


def unit(rows: int, columns: int) -> np.ndarray:
    """Embeddings of length 1."""
    vectors = normal(rows, columns)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def mask(yes: int, elements: int) -> np.ndarray:
    """So many ones, then zeros: [1, elements]."""
    return (np.arange(elements) < yes).astype(np.float32)[np.newaxis]


def with_sqnr(decibels: float, name: str = "boxes") -> OutputError:
    """Numbers that keep so many dB."""
    return OutputError(name, elements=100, kinds=(), numbers=Numbers(signal=10 ** (decibels / 10), noise=1.0))


def classes(agreeing: int, rows: int, *, decibels: float = 40.0, divergence: float = 0.0) -> OutputError:
    """Class scores of which so many rows agree; the divergence is that of a row."""
    error = with_sqnr(decibels, "logits")
    error.kinds = (ClassScores(rows=rows, agreeing=agreeing, divergence=divergence * rows, peaks=rows),)
    return error


def integers(unequal: int) -> OutputError:
    """An integer output with unequal elements."""
    return OutputError("top", floats=False, elements=50, unequal=unequal)


def broken() -> OutputError:
    """Class scores with a NaN, of which the largest is the original's all the same."""
    return error_of(floats(0.9, 0.1), floats(np.nan, 0.1), "logits")


def reshaped() -> OutputError:
    """An output of another shape."""
    return error_of(np.ones((1, 2, 3), np.float32), np.ones((1, 3, 2), np.float32), "boxes")

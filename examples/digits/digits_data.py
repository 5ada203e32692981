"""The data of the demo: scikit-learn's 1,797 handwritten digits, enlarged and split the same way every time.

The images are the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, UCI
Machine Learning Repository, 1998); scikit-learn ships them, so nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits

__all__ = ["Digits", "Split", "load_split"]

SIDE = 32
TEST_IMAGES = 360
SPLIT_SEED = 0
BRIGHTEST = 16.0  # scikit-learn gives ink as 0 to 16


@dataclass(frozen=True)
class Digits:
    """Images, float32 [n, 1, 32, 32] in 0 to 1, and what they show, int64 [n]."""

    images: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Split:
    """The 1,437 digits to train and calibrate on, and the 360 that neither ever sees."""

    train: Digits
    test: Digits


def load_split() -> Split:
    """Load, enlarge and split the digits; the seed is fixed, so training and demo agree on the split."""
    data = load_digits()
    images = enlarge(data.images / BRIGHTEST, SIDE).astype(np.float32)[:, np.newaxis]
    order = np.random.default_rng(SPLIT_SEED).permutation(len(images))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    labels = data.target.astype(np.int64)
    return Split(Digits(images[train], labels[train]), Digits(images[test], labels[test]))


def enlarge(images: np.ndarray, side: int) -> np.ndarray:
    """Enlarge square images [n, s, s] to [n, side, side], bilinear with half-pixel centres."""
    weights = interpolation_weights(images.shape[-1], side)
    return weights @ images @ weights.T


def interpolation_weights(source: int, target: int) -> np.ndarray:
    """The matrix [target, source] that interpolates a line of `source` pixels to `target` pixels."""
    centres = np.clip((np.arange(target) + 0.5) * source / target - 0.5, 0, source - 1)
    left = np.minimum(centres.astype(np.int64), source - 2)
    weights = np.zeros((target, source))
    weights[np.arange(target), left] = 1 - (centres - left)
    weights[np.arange(target), left + 1] = centres - left
    return weights

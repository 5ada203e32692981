"""Divergence of distributions, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from infer_opt.calibrate.metrics.softmax import divergence, log_softmax
from tests.calibrate.metrics.made_errors import floats
from tests.targets.networks import normal


def test_divergence_of_two_classes_by_hand() -> None:
    """(0.5, 0.5) against (0.75, 0.25): 0.5 ln(0.5 / 0.75) + 0.5 ln(0.5 / 0.25) = 0.1438 nats; the other way 0.1308."""
    even, uneven = np.log(floats(0.5, 0.5)), np.log(floats(0.75, 0.25))
    assert divergence(even, uneven) == pytest.approx(0.143841, abs=1e-6)
    assert divergence(uneven, even) == pytest.approx(0.130812, abs=1e-6)
    assert divergence(even, even) == 0.0


def test_divergence_is_summed_over_all_rows() -> None:
    """Against scipy's relative entropy."""
    p, q = (special.softmax(normal(2, 5, 7, seed=seed).astype(np.float64), axis=-1) for seed in (0, 1))
    assert divergence(np.log(p), np.log(q)) == pytest.approx(special.rel_entr(p, q).sum())


def test_softmax_is_that_of_scipy_and_ignores_a_shift() -> None:
    """Logits are determined up to a constant; large ones do not overflow."""
    np.testing.assert_allclose(log_softmax(floats(math.log(3), 0)), np.log([[0.75, 0.25]]), rtol=1e-6)
    rows = normal(4, 9, scale=20)
    np.testing.assert_allclose(log_softmax(rows), special.log_softmax(rows.astype(np.float64), axis=-1), rtol=1e-9)
    np.testing.assert_allclose(log_softmax(rows + np.float32(4096)), log_softmax(rows), atol=2e-3)

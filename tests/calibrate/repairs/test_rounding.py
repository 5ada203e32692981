"""Rounding by second moments: never worse than to the nearest by its own measure, and exact where inputs are alike."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.quantization import Format
from infer_opt.calibrate.repairs import rounding
from infer_opt.calibrate.repairs.reads import Moments
from infer_opt.calibrate.repairs.rounding import mean_error, rounded

INT8 = Format("int8", symmetric=True, narrow=True)


def errors(weights: np.ndarray, levels: np.ndarray, scale: float, rows: np.ndarray) -> np.ndarray:
    """Mean squared error of each output, over the rows."""
    return np.asarray(np.square(rows @ (levels * scale - weights).swapaxes(1, 2)).mean(1))


def moments_of(rows: np.ndarray) -> np.ndarray:
    """About 0."""
    found = Moments(rows.shape[0], rows.shape[2])
    found.add(rows)
    return found.second(centred=False)


def test_errors_cancel_over_equal_inputs() -> None:
    """Of 16 inputs that are always equal only the sum of the weights counts: its error is under half a step."""
    weights, scale = np.full((1, 1, 16), 0.3), 1.0
    rows = np.repeat(np.random.default_rng(0).normal(size=(1, 200, 1)), 16, axis=2)
    levels = rounded(weights, np.full((1, 1), scale), moments_of(rows), INT8)
    assert levels.dtype == np.int8
    assert abs(int(levels.sum()) - 4.8) <= 0.5
    assert np.rint(weights / scale).sum() == 0  # what the nearest would make of it


def test_independent_inputs_are_rounded_to_the_nearest() -> None:
    """Where nothing can be made good."""
    weights = np.random.default_rng(1).normal(size=(2, 3, 16)) * 20
    moments = np.tile(np.eye(16), (2, 1, 1, 1))
    assert (rounded(weights, np.ones((2, 3)), moments, INT8) == np.rint(weights)).all()


def test_correlated_inputs_lose_less() -> None:
    """A third of the noise, on rows that the rounding has not seen."""
    rng = np.random.default_rng(2)
    mix = rng.normal(size=(4, 32))
    seen, fresh = (rng.normal(size=(1, 2000, 4)) @ mix + 0.1 * rng.normal(size=(1, 2000, 32)) for _ in range(2))
    weights, scale = rng.normal(size=(1, 8, 32)), 0.05
    levels = rounded(weights, np.full((1, 8), scale), moments_of(seen), INT8)
    nearest = np.rint(weights / scale)
    assert errors(weights, levels, scale, fresh).mean() < errors(weights, nearest, scale, fresh).mean() / 3


@pytest.mark.parametrize("bits", [7, 8])
def test_levels_stay_within_the_format(bits: int) -> None:
    """And an input that is always 0 does not spoil the others."""
    form = Format("int8", symmetric=True, narrow=True, bits=bits)
    rows = np.random.default_rng(3).normal(size=(1, 100, 5))
    rows[..., 2] = 0
    weights = np.full((1, 2, 5), 1000.0)
    levels = rounded(weights, np.ones((1, 2)), moments_of(rows), form)
    assert (levels == form.limits()[1]).all()


def test_a_large_weight_is_rounded_in_parts_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs know nothing of each other; the error in the mean is that of the published formula, (q s - w) E[x]."""
    rng = np.random.default_rng(4)
    rows = rng.normal(1.0, 1.0, size=(2, 300, 20))
    weights, scales, means = rng.normal(size=(2, 7, 20)), rng.uniform(0.02, 0.1, (2, 7)), rows.mean(1)
    whole = rounded(weights, scales, moments_of(rows), INT8)
    shift = mean_error(weights, whole, scales, means)
    np.testing.assert_allclose(shift, np.einsum("goi,gi->go", whole * scales[..., None] - weights, means), rtol=1e-12)
    monkeypatch.setattr(rounding, "_AT_ONCE", 2 * 20 * 3)
    np.testing.assert_array_equal(rounded(weights, scales, moments_of(rows), INT8), whole)
    np.testing.assert_allclose(mean_error(weights, whole, scales, means), shift, rtol=1e-12)

"""Factors of channels: what the formula says is what quantizing does, and unlike channels are made alike."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.quantization import Format, from_range, from_weights
from infer_opt.calibrate.repairs.channel_factors import ChannelReach, ChannelWeights, Factors, best_factors
from tests.targets.networks import normal

U8 = Format("uint8", symmetric=False)
S8 = Format("int8", symmetric=True, narrow=True)
UNLIKE = np.exp2(np.linspace(-5, 5, 16)).astype(np.float32)


def reach_of(rows: np.ndarray) -> ChannelReach:
    """Of rows whose channels come last."""
    reach = ChannelReach(rows.shape[-1])
    reach.add(rows, -1)
    return reach


def real_noise(rows: np.ndarray, weight: np.ndarray, factors: np.ndarray) -> float:
    """Mean square error of a product in integers, float64 sums."""
    value, matrix = rows / factors, weight * factors[:, None]
    rounded = from_range(float(value.min()), float(value.max()), U8).fake(value)
    weights = from_weights(matrix, 1, S8).fake(matrix)
    return float(np.square(rounded.astype(np.float64) @ weights - value.astype(np.float64) @ matrix).mean())


def factors_of(rows: np.ndarray, weight: np.ndarray) -> Factors:
    """The best, of a matrix of (channels, outputs)."""
    return best_factors(reach_of(rows), [ChannelWeights.of(weight.T[:, :, None], depthwise=False)], U8)


def test_unlike_channels() -> None:
    """Noise falls as far as the formula says, to a third of it, and the factors are powers of two."""
    rows, weight = normal(4096, 16) * UNLIKE, normal(16, 32, seed=1)
    found = factors_of(rows, weight)
    assert (np.log2(found.values) == np.rint(np.log2(found.values))).all()
    assert (np.diff(found.values) >= 0).all(), "the wider a channel, the larger its factor"
    real = real_noise(rows, weight, found.values) / real_noise(rows, weight, np.ones(16))
    assert found.noise == pytest.approx(real, rel=0.3)
    assert found.noise < 0.3


def test_wide_channels_that_weights_make_good() -> None:
    """Where weights are as large as channels are narrow, moving all of it would only move the noise."""
    rows, weight = normal(4096, 16) * UNLIKE, normal(16, 32, seed=1) / UNLIKE[:, None]
    found = factors_of(rows, weight)
    assert found.noise < 0.1
    assert real_noise(rows, weight, found.values) < 0.15 * real_noise(rows, weight, np.ones(16))


def test_alike_channels_stay() -> None:
    """Nothing to gain, nothing promised."""
    assert factors_of(normal(4096, 16), normal(16, 32, seed=1)).noise > 0.8


def test_a_dead_channel() -> None:
    """One that is always 0 gets a finite factor, and a value that is 0 throughout gets none."""
    rows = normal(64, 16)
    rows[:, 3] = 0
    assert np.isfinite(factors_of(rows * UNLIKE, normal(16, 32)).values).all()
    assert (factors_of(np.zeros((8, 16), np.float32), normal(16, 32)).values == 1).all()


def test_not_a_number_moves_nothing() -> None:
    """An infinite channel has no factor."""
    rows = normal(64, 16)
    rows[0, 0] = np.inf
    assert (factors_of(rows, normal(16, 32)).values == 1).all()


def test_depthwise_weights_do_not_count() -> None:
    """Each of their channels has a step of its own, which scales with it: their rounding adds the same in any case."""
    reach = reach_of(normal(4096, 16) * UNLIKE)
    kernels = normal(1, 16, 9, seed=2)
    alone = best_factors(reach, [ChannelWeights.of(kernels, depthwise=True)], U8)
    dense = best_factors(reach, [ChannelWeights.of(kernels, depthwise=False)], U8)
    assert alone.noise < 0.2
    assert alone.noise < dense.noise


def test_the_range_stays_twice_as_wide_as_each_channel() -> None:
    """What reaches farther than anything seen is not clipped at once; what was as wide before stays."""
    rows = normal(4096, 16) * UNLIKE
    reach = reach_of(rows)
    found = best_factors(reach, [ChannelWeights.of(normal(1, 16, 9, seed=2), depthwise=True)], U8)
    scaled = np.maximum(reach.highs, -reach.lows) / found.values
    assert found.noise < 0.5
    assert scaled.argmax() == 15, "the widest channel"
    assert (scaled[:14] <= scaled[15] / 2).all()


def test_reach_over_portions() -> None:
    """Extremes hold 0, and are those of all that was added; channels may lie on any axis."""
    reach = ChannelReach(3)
    images = normal(2, 3, 4, 4) + np.float32([3, 0, -5]).reshape(3, 1, 1)
    for image in images:
        reach.add(image[None], 1 - 4)
    rows = np.moveaxis(images, 1, -1).reshape(-1, 3)
    assert reach.lows == pytest.approx(np.minimum(rows.min(0), 0))
    assert reach.highs == pytest.approx(np.maximum(rows.max(0), 0))
    assert reach.mean_squares == pytest.approx((rows.astype(np.float64) ** 2).mean(0))

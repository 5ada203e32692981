"""Which factors of channels leave least noise, by formula: quantizers of one scale see channels of one reach.

With x a value of C channels that is quantized with one step, and W the weights that meet it, in steps of their own for
each output o, rounding adds at the outputs

    N(s) = step(x / s)^2 / 12 * sum_c s_c^2 |W_c|^2  +  sum_o step(W_o s)^2 / 12 * taps * sum_c E[x_c^2] / s_c^2

The factors tried are s_c = max|x_c|^a / max|W_c|^(1 - a). Source: G. Xiao et al., "SmoothQuant: Accurate and Efficient
Post-Training Quantization for Large Language Models", 2023; between two convolutions, a = 1/2 is the equalisation of M.
Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, of ranges that were seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.quantization import Format

__all__ = ["ChannelReach", "ChannelWeights", "Factors", "best_factors"]

_ALPHAS = (0.25, 0.5, 0.75, 1.0)
_LARGEST_EXPONENT = 10
_EMPTY = 2.0**-_LARGEST_EXPONENT  # of the largest: channels that reach no farther count as reaching so far
_WEIGHT_LEVELS = 127.0
_HEADROOM = 2.0

Array = np.ndarray[Any, Any]


@dataclass
class ChannelReach:
    """How far each channel reaches, and its mean square, float64 of shape (channels,)."""

    channels: int
    count: int = 0
    lows: Array = field(init=False)
    highs: Array = field(init=False)
    squares: Array = field(init=False)

    def __post_init__(self) -> None:
        self.lows, self.highs, self.squares = (np.zeros(self.channels) for _ in range(3))

    def add(self, value: Array, axis: int) -> None:
        """All elements of a value whose channels lie along an axis; ranges hold 0."""
        rows = np.moveaxis(value, axis, -1).reshape(-1, self.channels)
        self.lows = np.minimum(self.lows, rows.min(axis=0, initial=0.0))
        self.highs = np.maximum(self.highs, rows.max(axis=0, initial=0.0))
        self.squares += np.einsum("rc,rc->c", rows, rows, dtype=np.float64)
        self.count += len(rows)

    @property
    def mean_squares(self) -> Array:
        """Shape (channels,)."""
        return self.squares / max(self.count, 1)


@dataclass(frozen=True)
class ChannelWeights:
    """What the formula wants of a weight that meets the channels.

    Args:
        squares: sum over outputs and taps, float64 of shape (channels,).
        largest: magnitude, float64 of shape (channels,).
        reach: largest of the taps' magnitudes, (outputs, channels); None of a depthwise convolution, where each channel
            has a step of its own, which scales with it.
        taps: of a kernel.
    """

    squares: Array
    largest: Array
    reach: Array | None
    taps: int

    @classmethod
    def of(cls, weight: Array, *, depthwise: bool) -> ChannelWeights:
        """Of a weight of shape (outputs, channels, taps); of a depthwise one, (1, channels, taps)."""
        reach = np.abs(weight).max(axis=2)
        squares = np.einsum("oct,oct->c", weight, weight, dtype=np.float64)
        return cls(squares, reach.max(axis=0).astype(np.float64), None if depthwise else reach, weight.shape[2])


@dataclass(frozen=True)
class Factors:
    """Factors of channels, powers of two, float64.

    Args:
        noise: with them, by the formula, as a share of that without.
    """

    values: Array
    noise: float


def best_factors(reach: ChannelReach, weights: Sequence[ChannelWeights], form: Format) -> Factors:
    """The factors of least noise among a few.

    Args:
        weights: of all that reads the value.
        form: of the value.
    """
    absolute = np.maximum(-reach.lows, reach.highs)
    largest = np.max([weight.largest for weight in weights], axis=0)
    far, heavy = (np.maximum(each, _EMPTY * each.max(initial=0.0)) for each in (absolute, largest))
    best = Factors(np.ones(reach.channels), 1.0)
    if not (far > 0).all() or not (heavy > 0).all() or not np.isfinite(far + heavy).all():
        return best
    before = _noise(best.values, reach, weights, form)
    for alpha in _ALPHAS:
        exponents = alpha * np.log2(far) - (1 - alpha) * np.log2(heavy)
        exponents = np.rint(exponents - exponents.mean()).clip(-_LARGEST_EXPONENT, _LARGEST_EXPONENT)
        values = _with_headroom(np.exp2(exponents), absolute)
        noise = _noise(values, reach, weights, form) / before
        if noise < best.noise:
            best = Factors(values, noise)
    return best


def _with_headroom(factors: Array, reach: Array) -> Array:
    """Factors with which the range stays twice as wide as each channel reaches, or as wide as it was for it.

    Samples to come reach farther than those that calibrated, each in some channel: where channels are unlike, the
    widest leaves room for the others, and equalising in full would clip whatever is new in any of them.
    """
    widest = int(reach.argmax())
    room = np.minimum(_HEADROOM, reach[widest] / np.maximum(reach, _EMPTY * reach[widest]))
    least = reach * room * factors[widest] / reach[widest]
    exponents: Array = np.ceil(np.log2(np.maximum(least, 2.0**-_LARGEST_EXPONENT)))
    return np.asarray(np.maximum(factors, np.exp2(exponents)))


def _noise(factors: Array, reach: ChannelReach, weights: Sequence[ChannelWeights], form: Format) -> float:
    """12 N(s) of the formula above."""
    step = float(form.step((reach.lows / factors).min(), (reach.highs / factors).max()))
    squares = float((reach.mean_squares / factors**2).sum())
    noise = 0.0
    for weight in weights:
        noise += step**2 * float(weight.squares @ factors**2)
        if weight.reach is not None:
            steps = (weight.reach * factors.astype(np.float32)).max(axis=1).astype(np.float64) / _WEIGHT_LEVELS
            noise += float(steps @ steps) * squares * weight.taps
    return noise

"""Which range of an activation to quantize: the classical methods, each a frozen value that judges a sketch.

Every method returns finite low <= 0 <= high within the extremes of the tensor (widened to hold 0), and low <
high unless the tensor is all zero. All but min-max look at the sketch's subsample only: an outlier that it
misses is clipped as if it were not there.
"""
# ruff: noqa: A002 - a `format` is what this room calls it

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from infer_opt.calibrate.quantization import Format
from infer_opt.calibrate.sketch import Sketch
from infer_opt.calibrate.squared_error import Side, squared_error
from infer_opt.errors import UsageError

__all__ = ["METHODS", "Entropy", "MeanSquaredError", "MinMax", "Percentile", "RangeMethod"]

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

_CANDIDATES = 256
_SMOOTHING = 1e-4
_DESCENT_ROUNDS = 8


class RangeMethod(Protocol):
    """A way to choose the range of a value."""

    name: ClassVar[str]

    def range(self, sketch: Sketch, format: Format) -> tuple[float, float]:
        """The range (low, high) to quantize, in the tensor's unit."""
        ...


@dataclass(frozen=True)
class MinMax:
    """The whole range of the values seen: nothing is clipped."""

    name: ClassVar[str] = "minmax"

    def range(self, sketch: Sketch, format: Format) -> tuple[float, float]:  # noqa: ARG002 - the protocol's
        """The exact extremes, widened to hold 0."""
        return _bounds(sketch)


@dataclass(frozen=True)
class Percentile:
    """Clip a fixed share of the elements, 100 - `percentile` per cent, at most.

    As in onnxruntime's PercentileCalibrater: a symmetric format is cut at the percentile of the magnitudes;
    any other loses half of the share on each side, so data of one sign loses that half on its only side.
    Within a bin the quantile is interpolated linearly. `Sketch.quantile_error` says how far a sample can be
    trusted: 99.99 % of fewer than 10,000 elements is hardly more than their maximum.

    Raises:
        UsageError: `percentile` is outside (0, 100].
    """

    name: ClassVar[str] = "percentile"
    percentile: float = 99.99

    def __post_init__(self) -> None:
        if not 0.0 < self.percentile <= 100.0:
            raise UsageError(f"percentile `{self.percentile}` is outside (0, 100]", "give a percentage such as `99.99`")

    def range(self, sketch: Sketch, format: Format) -> tuple[float, float]:
        """The quantiles of the subsample; min-max at 100, and where both are 0 (nearly all elements are)."""
        negative, positive = sketch.sides()
        outside = (1.0 - self.percentile / 100.0) * sketch.count
        if outside == 0.0:
            return _bounds(sketch)
        if format.symmetric:
            low = high = _upper_quantile(negative + positive, outside)
        else:
            low, high = (_upper_quantile(side, outside / 2.0) for side in (negative, positive))
        return _clipped(sketch, low * sketch.bin_width(), high * sketch.bin_width())


@dataclass(frozen=True)
class Entropy:
    """Least Kullback-Leibler divergence between the magnitudes and their quantized distribution.

    Source: S. Migacz, "8-bit Inference with TensorRT", GTC 2017. For each candidate of i bins of magnitude, P
    is the histogram of those bins with all elements beyond added to the last; Q is the same bins without
    them, summed over the levels and spread evenly over the non-empty bins of each level. Bin b falls into
    level floor(b * levels / i), as in NVIDIA's pytorch-quantization. Q is mixed with a uniform share of 1e-4,
    so that outliers over an empty last bin cost much but not infinitely much. Exact zeros are left out: they
    are quantized without error, and after a ReLU would hide everything else.

    Both sides are cut at the same magnitude, one of at most 256 evenly spaced bin edges. A format with more
    levels than the histogram has bins (16 bits) has nothing to gain and gets min-max. The divergence of a
    small sample leans towards clipping: it wants tens of thousands of elements.
    """

    name: ClassVar[str] = "entropy"

    def range(self, sketch: Sketch, format: Format) -> tuple[float, float]:
        """The range cut at the magnitude of least divergence, the largest of equal ones."""
        counts = np.trim_zeros(np.add(*sketch.sides()), "b")
        levels = _levels_of_magnitude(sketch, format)
        if counts.size <= levels:
            return _bounds(sketch)
        candidates = np.unique(np.linspace(counts.size, levels, _CANDIDATES).astype(np.intp))[::-1]
        best = candidates[np.argmin(_divergences(counts, candidates, levels))]
        threshold = float(best) * sketch.bin_width()
        return _clipped(sketch, threshold, threshold)


@dataclass(frozen=True)
class MeanSquaredError:
    """Least expected squared error: rounding noise inside the range and clipping error outside.

    The error is that of `squared_error`. With uniform noise for all elements it would be the analysis of R.
    Banner et al., "ACIQ: Analytical Clipping for Integer Quantization of Neural Networks", 2018, which clips
    sparse and heavy-tailed data far too tightly. A format that is not symmetric has its two ends searched in
    turn, from the best symmetric cut on, until neither moves (at most 8 rounds); every bin edge is a
    candidate.
    """

    name: ClassVar[str] = "mse"

    def range(self, sketch: Sketch, format: Format) -> tuple[float, float]:
        """The range of least error, the tightest of equal ones."""
        negative, positive = (Side.of(counts) for counts in sketch.sides())
        magnitudes = np.arange(max(negative.used, positive.used) + 1)
        low = high = np.argmin(squared_error(negative, positive, magnitudes, magnitudes, format))
        if not format.symmetric:
            low, high = _descend(negative, positive, low, high, format)
        return _clipped(sketch, float(low) * sketch.bin_width(), float(high) * sketch.bin_width())


METHODS: dict[str, type[RangeMethod]] = {
    "minmax": MinMax,
    "percentile": Percentile,
    "entropy": Entropy,
    "mse": MeanSquaredError,
}


def _bounds(sketch: Sketch) -> tuple[float, float]:
    return min(sketch.minimum, 0.0), max(sketch.maximum, 0.0)


def _clipped(sketch: Sketch, low: float, high: float) -> tuple[float, float]:
    """The bounds cut at the magnitudes `low` and `high`; uncut where nothing would be left."""
    minimum, maximum = _bounds(sketch)
    cut = max(minimum, 0.0 - low), min(maximum, high)  # a difference: never -0.0
    return cut if cut[0] < cut[1] else (minimum, maximum)


def _upper_quantile(counts: Counts, above: float) -> float:
    """The magnitude, in bins, with `above` elements beyond it; 0 where there are no more than that."""
    beyond = np.append(np.cumsum(counts[::-1])[::-1], 0)
    if beyond[0] <= above:
        return 0.0
    last = int(np.flatnonzero(beyond > above)[-1])
    return last + 1 - (above - float(beyond[last + 1])) / float(counts[last])


def _levels_of_magnitude(sketch: Sketch, format: Format) -> int:
    """Levels that the magnitudes of a tensor can take: 128 of 256 for a signed one."""
    lowest, highest = format.limits()
    if format.symmetric:
        return highest - format.middle() + 1
    one_sided = sketch.minimum >= 0.0 or sketch.maximum <= 0.0
    return (highest - lowest + 1) // (1 if one_sided else 2)


def _divergences(counts: Counts, candidates: NDArray[np.intp], levels: int) -> Floats:
    """KL(P || Q) of each candidate number of bins.

    Q is constant over the non-empty bins of a level, so a level's terms of the sum of p * log(p / q) need
    only its sums of p * log(p), of p and of non-empty bins: differences of three running sums.
    """
    size = candidates[:, None]
    edges = -(-np.arange(levels + 1) * size // levels)  # first bin of each level: ceil(level * size / levels)
    inside = np.append(0, np.cumsum(counts))
    filled = np.append(0, np.cumsum(counts > 0))
    mass, bins = np.diff(inside[edges], axis=1), np.diff(filled[edges], axis=1)
    quantized = mass / (np.maximum(bins, 1) * np.maximum(inside[size], 1))
    uniform = _SMOOTHING / candidates
    log_quantized = np.log((1.0 - _SMOOTHING) * quantized + uniform[:, None])
    cross = np.einsum("cl,cl->c", mass, log_quantized)
    own = np.append(0.0, np.cumsum(_x_log_x(counts)))[candidates]

    total = float(inside[-1])
    last, outliers = counts[candidates - 1], total - inside[candidates]
    own += _x_log_x(last + outliers) - _x_log_x(last)
    cross += outliers * np.where(last > 0, log_quantized[:, -1], np.log(uniform))
    return np.asarray((own - cross) / total - np.log(total))


def _x_log_x(counts: Counts | Floats) -> Floats:
    return np.multiply(counts, np.log(np.maximum(counts, 1)), dtype=np.float64)


def _descend(negative: Side, positive: Side, low: np.intp, high: np.intp, format: Format) -> tuple[np.intp, np.intp]:
    lows, highs = np.arange(negative.used + 1), np.arange(positive.used + 1)
    for _ in range(_DESCENT_ROUNDS):
        before = low, high
        low = np.argmin(squared_error(negative, positive, lows, np.asarray(high), format))
        high = np.argmin(squared_error(negative, positive, np.asarray(low), highs, format))
        if (low, high) == before:
            break
    return low, high

"""Which range of an activation to quantize: the classical methods, each a frozen value that judges a sketch.

Every method returns finite low <= 0 <= high within the extremes of the tensor (widened to hold 0), and low < high
unless the tensor is all zero. All but min-max look at the sketch's subsample only: an outlier that it misses is
clipped as if it were not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from infer_opt.calibrate.quantization import Format
from infer_opt.calibrate.sketch import Sketch
from infer_opt.errors import UsageError

__all__ = ["METHODS", "Entropy", "MeanSquaredError", "MinMax", "Percentile", "RangeMethod"]

_CANDIDATES = 128
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

    def range(self, sketch: Sketch, format: Format) -> tuple[float, float]:
        """The exact extremes, widened to hold 0."""
        return _bounds(sketch)


@dataclass(frozen=True)
class Percentile:
    """Clip a fixed share of the elements, 100 - `percentile` per cent, at most.

    As in onnxruntime's PercentileCalibrater: a symmetric format is cut at the percentile of the magnitudes; any
    other loses half of the share on each side, so data of one sign loses that half on its only side. Within a bin
    the quantile is interpolated linearly. `Sketch.quantile_error` says how far a sample can be trusted: 99.99 % of
    fewer than 10,000 elements is hardly more than their maximum.
    """

    name: ClassVar[str] = "percentile"
    percentile: float = 99.99

    def __post_init__(self) -> None:
        if not 0.0 < self.percentile <= 100.0:
            message = f"percentile `{self.percentile}` is outside (0, 100]"
            raise UsageError(message, "give a percentage such as 99.99")

    def range(self, sketch: Sketch, format: Format) -> tuple[float, float]:
        """The quantiles of the subsample; min-max where they are both 0 (nearly all elements are)."""
        negative, positive = sketch.sides()
        share = 1.0 - self.percentile / 100.0
        if format.symmetric:
            low = high = _upper_quantile(negative + positive, share * sketch.count)
        else:
            low, high = (_upper_quantile(side, share / 2.0 * sketch.count) for side in (negative, positive))
        return _clipped(sketch, low, high)


@dataclass(frozen=True)
class Entropy:
    """Least Kullback-Leibler divergence between the magnitudes and their quantized distribution.

    Source: S. Migacz, "8-bit Inference with TensorRT", GTC 2017. For each candidate of i bins of magnitude, P is the
    histogram of those bins with all elements beyond added to the last, Q the same bins without them, summed over
    the levels and spread evenly over the non-empty bins of each level. Bin b falls into level floor(b * levels / i),
    as in NVIDIA's pytorch-quantization. Q is mixed with a uniform share of 1e-4, so that outliers over an
    empty last bin cost much but not infinitely much. Exact zeros are left out: they are quantized without error,
    and after a ReLU would hide everything else.

    Both sides are cut at the same magnitude. A format with more levels than the histogram has bins (16 bits) has
    nothing to gain and gets min-max. The divergence of a small sample leans towards clipping: it wants tens of
    thousands of elements.
    """

    name: ClassVar[str] = "entropy"

    def range(self, sketch: Sketch, format: Format) -> tuple[float, float]:
        """The range cut at the magnitude of least divergence; the largest of equal ones."""
        counts = np.add(*sketch.sides())
        used = _used(counts)
        levels = _levels_of_magnitude(sketch, format)
        if used <= levels:
            return _bounds(sketch)
        candidates = np.unique(np.linspace(used, levels, _CANDIDATES).astype(np.intp))[::-1]
        best = candidates[np.argmin(_divergences(counts, candidates, levels))]
        threshold = float(best) * sketch.bin_width()
        return _clipped(sketch, threshold, threshold)


@dataclass(frozen=True)
class MeanSquaredError:
    """Least expected squared error: rounding noise inside the range and clipping error outside.

    Rounding noise is step**2 / 12 for every nonzero element inside (uniform noise; zeros are exact), the clipping
    error is integrated over the histogram, elements being uniform within a bin. For Gaussian and Laplace data this
    is the analysis of R. Banner et al., "ACIQ: Analytical Clipping for Integer Quantization of Neural Networks",
    2018. A format that is not symmetric has its two ends searched in turn, from the best symmetric cut on, until
    neither moves; every bin edge is a candidate.
    """

    name: ClassVar[str] = "mse"

    def range(self, sketch: Sketch, format: Format) -> tuple[float, float]:
        """The range of least error."""
        negative, positive = (_Side.of(counts) for counts in sketch.sides())
        diagonal = np.arange(max(negative.used, positive.used) + 1)
        errors = _squared_error(negative, positive, diagonal, diagonal, format)
        low = high = int(np.argmin(errors))
        if not format.symmetric:
            low, high = _descend(negative, positive, low, high, format)
        return _clipped(sketch, low * sketch.bin_width(), high * sketch.bin_width())


METHODS: dict[str, type[RangeMethod]] = {
    method.name: method for method in (MinMax, Percentile, Entropy, MeanSquaredError)
}


def _bounds(sketch: Sketch) -> tuple[float, float]:
    return min(sketch.minimum, 0.0), max(sketch.maximum, 0.0)


def _clipped(sketch: Sketch, low: float, high: float) -> tuple[float, float]:
    """The bounds cut at the magnitudes `low` and `high`; uncut where nothing would be left."""
    minimum, maximum = _bounds(sketch)
    cut = max(minimum, 0.0 - low), min(maximum, high)
    return cut if cut[0] < cut[1] else (minimum, maximum)


def _used(counts: np.ndarray) -> int:
    """Number of bins up to the last non-empty one."""
    filled = np.flatnonzero(counts)
    return int(filled[-1]) + 1 if filled.size else 0


def _upper_quantile(counts: np.ndarray, above: float) -> float:
    """The magnitude, in bins, with `above` elements beyond it; 0 where there are fewer elements than that."""
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


def _divergences(counts: np.ndarray, candidates: np.ndarray, levels: int) -> np.ndarray:
    """KL(P || Q) of each candidate number of bins.

    Q is constant over the non-empty bins of a level, so a level's terms of sum p * log(p / q) need only its sums of
    p * log(p), of p and of non-empty bins: differences of three running sums.
    """
    size = candidates[:, None]
    edges = -(-np.arange(levels + 1) * size // levels)  # first bin of each level: ceil(level * size / levels)
    inside = np.append(0, np.cumsum(counts))
    filled = np.append(0, np.cumsum(counts > 0))
    total, kept = float(inside[-1]), inside[candidates].astype(np.float64)
    mass, bins = np.diff(inside[edges], axis=1), np.diff(filled[edges], axis=1)
    quantized = mass / (np.maximum(bins, 1) * np.maximum(kept, 1.0)[:, None])
    uniform = _SMOOTHING / candidates
    log_quantized = np.log((1.0 - _SMOOTHING) * quantized + uniform[:, None])
    cross = np.einsum("cl,cl->c", mass, log_quantized)
    own = np.append(0.0, np.cumsum(_x_log_x(counts)))[candidates]

    last, outliers = counts[candidates - 1], total - kept
    own += _x_log_x(last + outliers) - _x_log_x(last)
    last_log = np.where(last > 0, log_quantized[:, -1], np.log(uniform))
    cross += outliers * last_log
    return (own - cross) / total - np.log(total)


def _x_log_x(counts: np.ndarray) -> np.ndarray:
    return counts * np.log(np.maximum(counts, 1))


@dataclass(frozen=True)
class _Side:
    """One sign of the histogram, in bins: what a cut at bin edge j keeps, and the squared error it costs."""

    used: int
    inside: np.ndarray
    clipping: np.ndarray

    @staticmethod
    def of(counts: np.ndarray) -> _Side:
        """Running sums from the far end: only positive terms, so nothing cancels."""
        used = _used(counts)
        counts = counts[:used].astype(np.float64)
        beyond = _sums_beyond(counts)
        distance = _sums_beyond(beyond[1:] + counts / 2.0)
        squared = _sums_beyond(2.0 * distance[1:] + beyond[1:] + counts / 3.0)
        return _Side(used, beyond[0] - beyond, squared)


def _sums_beyond(values: np.ndarray) -> np.ndarray:
    """Entry j is the sum of values[j:]; one more entry than `values`."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


def _squared_error(
    negative: _Side, positive: _Side, low: np.ndarray | int, high: np.ndarray | int, format: Format
) -> np.ndarray:
    """Summed squared error, in bins, of the range cut at bin edges -low and high; broadcast over both."""
    low, high = np.minimum(low, negative.used), np.minimum(high, positive.used)
    inside = negative.inside[low] + positive.inside[high]
    clipping = negative.clipping[low] + positive.clipping[high]
    return inside * format.step(0.0 - low, high) ** 2 / 12.0 + clipping


def _descend(negative: _Side, positive: _Side, low: int, high: int, format: Format) -> tuple[int, int]:
    lows, highs = np.arange(negative.used + 1), np.arange(positive.used + 1)
    for _ in range(_DESCENT_ROUNDS):
        before = low, high
        low = int(np.argmin(_squared_error(negative, positive, lows, high, format)))
        high = int(np.argmin(_squared_error(negative, positive, low, highs, format)))
        if (low, high) == before:
            break
    return low, high

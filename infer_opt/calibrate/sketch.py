"""A mergeable, bounded-memory summary of one tensor's values over many samples."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

__all__ = ["BINS", "Sketch"]

BINS = 2048
_HALF = BINS // 2
_HALF_LOG2 = _HALF.bit_length() - 1


@dataclass(eq=False)
class Sketch:
    """One-pass summary of a tensor: exact extremes, and a histogram of a subsample.

    The histogram has `BINS` equal bins over [-2**k, 2**k), bin by bin closed below and open above. A value
    outside raises k to the smallest power of two above its magnitude, and neighbouring bins are added in
    pairs. All edges are dyadic, so this is exact: the state depends on the multiset of the observed values,
    never on the order of observations and merges. While only zeros have entered, k (`exponent`) is None.

    Error: a quantile at probability p read from the histogram is off by the standard error of an n-element
    sample, sqrt(p(1 - p) / n) in probability (`quantile_error`), and by up to one bin width in value.
    Elements of one sample are not independent, so the first part is a lower bound.

    Attributes:
        count: finite elements in the histogram.
        zeros: those of them that are exactly 0; quantization reproduces them without error.
        minimum: smallest finite element of all, not only of the subsample; +inf before any.
        maximum: largest finite element of all; -inf before any.
        nans: NaN elements seen, never in the histogram or the extremes.
        infinities: infinite elements seen, likewise left out.
        samples: observations made, one a sample.
        widest_sample: index of the sample with the largest magnitude, the first of equals; None before any.
        exponent: k of the histogram's range.
        histogram: (BINS,) int64 counts.
    """

    count: int = 0
    zeros: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf
    nans: int = 0
    infinities: int = 0
    samples: int = 0
    widest_sample: int | None = None
    exponent: int | None = None
    histogram: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def observe(
        self,
        subsample: np.ndarray,
        minimum: float,
        maximum: float,
        *,
        nans: int = 0,
        infinities: int = 0,
        sample: int | None = None,
    ) -> None:
        """Add one sample's tensor.

        Args:
            subsample: elements of the tensor, any shape, taken as float32; NaN and infinities are left out.
            minimum: smallest finite element of the whole tensor; +inf where it has none.
            maximum: largest finite element of the whole tensor; -inf where it has none.
            nans: NaN elements of the whole tensor; the subsample's own number counts where it is larger.
            infinities: infinite elements of the whole tensor, likewise.
            sample: the sample's index in the calibration data. By default the number of observations so far,
                which is wrong where sketches of different samples are merged: pass it there.

        Raises:
            ValueError: the extremes are not finite, or the subsample lies outside them.
        """
        values = _as_float32(subsample).ravel()
        finite = np.isfinite(values)
        left_out = values.size - int(np.count_nonzero(finite))
        if left_out:
            sampled_nans = int(np.count_nonzero(np.isnan(values)))
            nans, infinities = max(nans, sampled_nans), max(infinities, left_out - sampled_nans)
            values = values[finite]
        extremes = _checked_extremes(values, float(_as_float32(minimum)), float(_as_float32(maximum)))
        self._widen(*extremes, self.samples if sample is None else sample)
        self.nans += nans
        self.infinities += infinities
        self.samples += 1
        if values.size:
            self._count(values)

    def merge(self, other: Sketch) -> None:
        """Add everything `other` has seen; `other` stays as it is."""
        self._widen(other.minimum, other.maximum, other.widest_sample)
        self.count += other.count
        self.zeros += other.zeros
        self.nans += other.nans
        self.infinities += other.infinities
        self.samples += other.samples
        if other.exponent is not None:
            self._grow(other.exponent)
        self.histogram += _coarsen(other.histogram, other.exponent, self.exponent)

    def edges(self) -> np.ndarray:
        """Edges of the bins, (BINS + 1,) float64; those of [-1, 1] while `exponent` is unset."""
        return np.ldexp(np.arange(-_HALF, _HALF + 1, dtype=np.float64), (self.exponent or 0) - _HALF_LOG2)

    def bin_width(self) -> float:
        """Width of one bin, in the tensor's unit."""
        return math.ldexp(1.0, (self.exponent or 0) - _HALF_LOG2)

    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Counts of the nonzero elements by magnitude, negative and positive: two (BINS / 2,) int64 arrays.

        Bin j holds magnitudes from j to j + 1 bin widths.
        """
        positive = self.histogram[_HALF:].copy()
        positive[0] -= self.zeros
        return self.histogram[:_HALF][::-1], positive

    def quantile_error(self, probability: float) -> float:
        """Standard error, in probability, of the quantile at `probability`; infinite of no elements.

        Raises:
            ValueError: `probability` is outside [0, 1].
        """
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"probability {probability} is outside [0, 1]")
        return math.sqrt(probability * (1.0 - probability) / self.count) if self.count else math.inf

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The whole state as arrays (an unset number is an empty array), as `numpy.savez` takes them."""
        return {
            "histogram": self.histogram.copy(),
            "extremes": np.array([self.minimum, self.maximum]),
            "counts": np.array([self.count, self.zeros, self.nans, self.infinities, self.samples], np.int64),
            "exponent": _optional(self.exponent),
            "widest_sample": _optional(self.widest_sample),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Sketch:
        """The sketch that `to_arrays` wrote.

        Raises:
            KeyError: an array is missing.
            ValueError: an array has another shape than `to_arrays` gives it.
        """
        histogram = np.array(arrays["histogram"], np.int64)
        if histogram.shape != (BINS,):
            raise ValueError(f"histogram of shape {histogram.shape}, not ({BINS},)")
        minimum, maximum = arrays["extremes"].tolist()
        count, zeros, nans, infinities, samples = arrays["counts"].tolist()
        return cls(
            count=count,
            zeros=zeros,
            minimum=minimum,
            maximum=maximum,
            nans=nans,
            infinities=infinities,
            samples=samples,
            widest_sample=_unwrapped(arrays["widest_sample"]),
            exponent=_unwrapped(arrays["exponent"]),
            histogram=histogram,
        )

    def _widen(self, minimum: float, maximum: float, sample: int | None) -> None:
        known, new = max(-self.minimum, self.maximum), max(-minimum, maximum)
        if sample is not None and math.isfinite(new):
            earlier = self.widest_sample is None or sample < self.widest_sample
            if new > known or (new == known and earlier):
                self.widest_sample = sample
        self.minimum = min(self.minimum, minimum)
        self.maximum = max(self.maximum, maximum)

    def _count(self, values: np.ndarray) -> None:
        largest = max(-float(values.min()), float(values.max()))
        if largest > 0.0:
            self._grow(math.frexp(largest)[1])
        self.count += values.size
        self.zeros += values.size - int(np.count_nonzero(values))
        # In float64 no float32 underflows: a negative one must not become -0, whose `floor` is not -1.
        position = values * np.float64(1.0 / self.bin_width())
        np.floor(position, out=position)
        position += _HALF
        self.histogram += np.bincount(position.astype(np.intp), minlength=BINS)

    def _grow(self, exponent: int) -> None:
        if self.exponent is None or exponent > self.exponent:
            self.histogram = _coarsen(self.histogram, self.exponent, exponent)
            self.exponent = exponent


def _as_float32(values: np.ndarray | float) -> np.ndarray:
    with np.errstate(over="ignore"):  # beyond float32 it is an infinity, which is counted or refused
        return np.asarray(values).astype(np.float32, copy=False)


def _checked_extremes(values: np.ndarray, minimum: float, maximum: float) -> tuple[float, float]:
    if not values.size and (minimum, maximum) == (math.inf, -math.inf):
        return minimum, maximum
    if not -math.inf < minimum <= maximum < math.inf:
        raise ValueError(f"extremes [{minimum}, {maximum}] are not a finite range of float32")
    if values.size and not (minimum <= values.min() and values.max() <= maximum):
        reach = f"[{values.min()}, {values.max()}]"
        raise ValueError(f"subsample {reach} is outside the extremes [{minimum}, {maximum}]")
    return minimum + 0.0, maximum + 0.0  # -0.0 becomes 0.0: equal states have equal bytes


def _coarsen(histogram: np.ndarray, exponent: int | None, target: int | None) -> np.ndarray:
    """The histogram over [-2**exponent, 2**exponent) as one over [-2**target, 2**target]."""
    if exponent is None or target is None or exponent == target:
        return histogram
    merged = 1 << min(target - exponent, _HALF_LOG2)  # from there on a side is one bin
    sums = histogram.reshape(-1, merged).sum(axis=1)
    result = np.zeros_like(histogram)
    result[_HALF - sums.size // 2 : _HALF + sums.size // 2] = sums
    return result


def _optional(number: int | None) -> np.ndarray:
    return np.array([] if number is None else [number], np.int64)


def _unwrapped(array: np.ndarray) -> int | None:
    return int(array[0]) if array.size else None

"""Scale and zero point of one value, and the arithmetic of ONNX QuantizeLinear and DequantizeLinear."""
# ruff: noqa: A002 - a `format` is what this room calls it

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

__all__ = ["Format", "Quantization", "from_range", "from_weights"]

_WIDTHS = {"uint4": 4, "int4": 4, "uint8": 8, "int8": 8, "uint16": 16, "int16": 16}
_FLOAT32 = np.finfo(np.float32)


@dataclass(frozen=True)
class Format:
    """How a dialect stores one quantized value.

    Attributes:
        dtype: ONNX element type.
        symmetric: the zero point is fixed at the middle level: 0 if signed, else half way up (128 for uint8).
        narrow: the lowest level is not used, so that a symmetric format reaches equally far to both sides.
        bits: use only so many bits, from 0 up for unsigned types and about 0 for signed ones; for CPUs whose
            8-bit dot product saturates (7 bits: uint8 [0, 127], int8 [-64, 63]). None is the full width.
    """

    dtype: Literal["uint8", "int8", "uint16", "int16", "int4", "uint4"]
    symmetric: bool
    narrow: bool = False
    bits: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in _WIDTHS:
            raise ValueError(f"unknown quantized type {self.dtype!r}")
        if self.bits is not None and not 2 <= self.bits <= _WIDTHS[self.dtype]:
            raise ValueError(f"{self.bits} bits do not fit {self.dtype}")

    def limits(self) -> tuple[int, int]:
        """Lowest and highest level."""
        levels = 1 << (self.bits or _WIDTHS[self.dtype])
        lowest = -(levels // 2) if self.dtype.startswith("int") else 0
        return lowest + self.narrow, lowest + levels - 1

    def middle(self) -> int:
        """The zero point of a symmetric value."""
        return 0 if self.dtype.startswith("int") else 1 << ((self.bits or _WIDTHS[self.dtype]) - 1)

    def storage(self) -> np.dtype:
        """The numpy type of levels: 4-bit ones, one a byte, are held in the 8-bit type of the same sign."""
        return np.dtype(self.dtype.replace("int4", "int8"))

    def step(self, low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
        """The finest spacing of levels that reaches `low` <= 0 <= `high`: float64, 0 where both are 0."""
        lowest, highest = self.limits()
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        if self.symmetric:
            return np.asarray(np.maximum(high / (highest - self.middle()), low / (lowest - self.middle())))
        return np.asarray((high - low) / (highest - lowest))


@dataclass(frozen=True, eq=False)
class Quantization:
    """Scale and zero point of one value: real = scale * (level - zero point).

    Attributes:
        format: the levels and their type.
        scale: float32, positive and finite; shape () per tensor, (channels,) per channel.
        zero_point: of `format.storage()`, same shape as `scale`, within the format's limits.
        axis: the channel axis; None per tensor. Negative axes count from the end, as in ONNX.
    """

    format: Format
    scale: np.ndarray
    zero_point: np.ndarray
    axis: int | None = None

    def __post_init__(self) -> None:
        for name, dtype in (("scale", np.dtype(np.float32)), ("zero_point", self.format.storage())):
            array: np.ndarray = getattr(self, name)
            fits = array.ndim == (self.axis is not None) and array.shape == self.scale.shape
            if array.dtype != dtype or not fits:
                kind = "per tensor" if self.axis is None else "per channel"
                raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, which is not {dtype} {kind}")
            array = array.copy()
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if not np.all((self.scale > 0) & np.isfinite(self.scale)):
            raise ValueError("scale is not positive and finite")
        lowest, highest = self.format.limits()
        if np.any((self.zero_point < lowest) | (self.zero_point > highest)):
            raise ValueError(f"zero point is outside [{lowest}, {highest}]")

    def quantize(self, values: np.ndarray) -> np.ndarray:
        """Levels of real values: saturate(round_half_even(x / scale) + zero_point), of `format.storage()`.

        Saturates at the *format's* limits. A QuantizeLinear node saturates at its type's, so a format with
        fewer bits or a narrow one describes stored constants, or activations that are clipped before. NaN,
        for which the specification is silent, becomes the lowest level.

        Source: ONNX operator specification, QuantizeLinear. The division is in float32, as in onnxruntime.
        """
        values = np.asarray(values, np.float32)
        scale, zero_point = self._aligned(values)
        lowest, highest = self.format.limits()
        offset = zero_point.astype(np.float32)
        with np.errstate(over="ignore"):  # an infinite quotient saturates like any other
            levels = np.asarray(values / scale)
        np.rint(levels, out=levels)
        np.fmax(levels, lowest - offset, out=levels)
        np.fmin(levels, highest - offset, out=levels)
        levels += offset
        return levels.astype(self.format.storage())

    def dequantize(self, levels: np.ndarray) -> np.ndarray:
        """Real values of levels: (level - zero_point) * scale, in float32.

        Source: ONNX operator specification, DequantizeLinear.
        """
        levels = np.asarray(levels)
        scale, zero_point = self._aligned(levels)
        # float32 holds every level and difference of up to 16 bits exactly
        return np.asarray((levels.astype(np.float32) - zero_point.astype(np.float32)) * scale)

    def fake(self, values: np.ndarray) -> np.ndarray:
        """Values as they come back from quantization: dequantize(quantize(x)), float32."""
        return self.dequantize(self.quantize(values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantization):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Format, int | None, bytes, bytes]:
        return self.format, self.axis, self.scale.tobytes(), self.zero_point.tobytes()

    def _aligned(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.axis is None:
            return self.scale, self.zero_point
        if not -values.ndim <= self.axis < values.ndim or values.shape[self.axis] != self.scale.size:
            channels = f"{self.scale.size} channels on axis {self.axis}"
            raise ValueError(f"{channels} do not fit a tensor of shape {values.shape}")
        shape = [1] * values.ndim
        shape[self.axis] = self.scale.size
        return self.scale.reshape(shape), self.zero_point.reshape(shape)


def from_range(low: float, high: float, format: Format) -> Quantization:
    """Per-tensor quantization of the range [low, high], widened to hold 0, which is then exact.

    The scale is kept between the smallest normal float32 (its reciprocal is finite) and the one whose levels
    all stay finite in float32 (a two-sided range above half of that limit saturates); a range that is only 0
    has scale 1.

    Raises:
        ValueError: an end is NaN, or `low` is above `high`.
    """
    if not low <= high:
        raise ValueError(f"[{low}, {high}] is not a range")
    largest = float(_FLOAT32.max)
    low, high = max(min(low, 0.0), -largest), min(max(high, 0.0), largest)
    scale = _representable(float(format.step(low, high)) or 1.0, format)
    lowest, highest = format.limits()
    zero_point = format.middle()
    if not format.symmetric:
        zero_point = min(max(round(lowest - low / float(scale)), lowest), highest)
    return Quantization(format, scale, np.array(zero_point, format.storage()))


def from_weights(
    weights: np.ndarray, axis: int | None, format: Format, minimum_scale: np.ndarray | float = 0.0
) -> Quantization:
    """Symmetric quantization of a constant by its absolute maximum, per tensor (`axis` None) or per channel.

    The absolute maximum lies on the highest level. An all-zero channel takes the largest scale of the others,
    of which its bias, whose step is input scale * weight scale, takes no harm; an all-zero tensor has 1.

    Args:
        weights: any float tensor, finite.
        axis: the channel axis.
        format: a symmetric format.
        minimum_scale: floor of the scale, a number or one per channel. A bias stored as int32 needs
            weight scale >= abs(bias) / (input scale * (2**31 - 1)), which tiny weights (1e-10) would break.
            The floor of `from_range`, the smallest normal float32, always holds.

    Raises:
        ValueError: the format is not symmetric, a weight is not finite, or there is no such axis.
    """
    if not format.symmetric:
        raise ValueError(f"weights need a symmetric format, not {format}")
    values = np.asarray(weights)
    if not np.all(np.isfinite(values)):
        raise ValueError("weights hold NaN or infinite values")
    if axis is not None:
        axis = normalize_axis_index(axis, values.ndim)
    others = None if axis is None else tuple(i for i in range(values.ndim) if i != axis)
    reach = np.max(np.abs(values), axis=others, initial=0.0).astype(np.float64)
    steps = reach / (format.limits()[1] - format.middle())
    steps = np.where(steps > 0.0, steps, float(np.max(steps, initial=0.0)) or 1.0)
    scale = _representable(np.maximum(steps, minimum_scale), format)
    return Quantization(format, scale, np.full(scale.shape, format.middle(), format.storage()), axis)


def _representable(step: np.ndarray | float, format: Format) -> np.ndarray:
    """The positive step as a float32 scale: normal, and with every level finite."""
    lowest, highest = format.limits()
    ceiling = float(_FLOAT32.max) / (highest - lowest + 1)
    return np.asarray(np.clip(step, float(_FLOAT32.tiny), ceiling), np.float32)

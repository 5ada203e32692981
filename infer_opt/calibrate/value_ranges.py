"""Ranges of quantized activations: what the samples showed, and what the scale and zero point of a value can hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.sketch import Sketch

__all__ = ["ValueRange", "value_ranges"]


@dataclass(frozen=True)
class ValueRange:
    """One value.

    Args:
        minimum, maximum: smallest and largest element in the calibration samples.
        low, high: the range that its levels span; what lies outside is clipped.
    """

    value: str
    minimum: float
    maximum: float
    low: float
    high: float


def value_ranges(plan: Plan, sketches: Mapping[str, Sketch]) -> tuple[ValueRange, ...]:
    """Of every quantized activation that was watched, the one with the widest extremes first."""
    found = []
    for value, quantization in plan.activations.items():
        sketch = sketches.get(value)
        if sketch is None or not math.isfinite(sketch.minimum):
            continue
        scale, zero = float(quantization.scale), int(quantization.zero_point)
        low, high = (scale * (level - zero) for level in quantization.format.limits())
        found.append(ValueRange(value, sketch.minimum, sketch.maximum, low, high))
    return tuple(sorted(found, key=lambda each: (each.minimum - each.maximum, each.value)))

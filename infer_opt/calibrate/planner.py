"""From regions and statistics to plans: what each candidate quantizes, and with which numbers.

The first plan is always the model as it is; the original competes with everything that is made of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.plan import Choice, Plan
from infer_opt.calibrate.quantization import from_range, from_weights
from infer_opt.calibrate.sketch import Sketch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from infer_opt.calibrate.plan import Region, WeightSite
    from infer_opt.calibrate.quantization import Format, Quantization
    from infer_opt.calibrate.ranges import RangeMethod

__all__ = ["float_plan", "integer_plan", "watched_values"]

_BIAS_LIMIT = 2.0**30  # of an int32 bias: the other half is for the products that the kernel adds to it
_LARGEST_CONSTANT = 1 << 22  # elements; a larger one is a weight, which has no activation range


def float_plan(regions: Sequence[Region]) -> Plan:
    """Every region at the original's precision."""
    choices = {region.name: Choice(region.precisions[0], "as in the original") for region in regions}
    return Plan(regions[0].precisions[0] if regions else "fp32", tuple(regions), choices)


def watched_values(model: ir.Model, regions: Iterable[Region]) -> list[str]:
    """Values that need statistics: what INT8 regions read and write, less constants, copies and fixed ranges."""
    candidates = [region for region in regions if "int8" in region.precisions]
    known = {value for region in candidates if region.moves_data or region.fixed_range for value in region.writes}
    known |= model.graph.initializers.keys()
    wanted = (value for region in candidates for value in (*region.reads, *region.writes))
    return [value for value in dict.fromkeys(wanted) if value not in known]


def integer_plan(
    model: ir.Model, regions: Sequence[Region], sketches: Mapping[str, Sketch], method: RangeMethod
) -> Plan:
    """Every region that is legal and whose values and weights are finite at INT8.

    Args:
        sketches: statistics of `watched_values`.
        method: how ranges are found.
    """
    constants = {
        name: _sketch_of_constant(value) for name, value in model.graph.initializers.items() if ir.is_constant(value)
    }
    candidates = [region for region in regions if "int8" in region.precisions]
    ranges = _Ranges(model, candidates, {**constants, **sketches}, method)
    choices: dict[str, Choice] = {}
    for region in regions:
        if "int8" not in region.precisions:
            choices[region.name] = Choice(region.precisions[0], region.reason or "no INT8 kernel")
        elif (fault := ranges.fault(region)) is not None:
            choices[region.name] = Choice(region.precisions[0], fault)
        else:
            choices[region.name] = Choice("int8", "legal in the dialect, ranges finite")
    quantized = [region for region in candidates if choices[region.name].precision == "int8"]
    activations = {
        value: ranges.quantization(value, region) for region in quantized for value in (*region.reads, *region.writes)
    }
    weights = {
        (site.node, site.index): _weight(model, site, activations) for region in quantized for site in region.weights
    }
    return Plan("int8", tuple(regions), choices, activations, weights)


def _weight(model: ir.Model, site: WeightSite, activations: Mapping[str, Quantization]) -> Quantization:
    array = ir.array(model.graph.initializers[site.value])
    if site.bias is None or site.bias_scale_of is None:
        return from_weights(array, site.axis, site.format)
    bias = np.abs(ir.array(model.graph.initializers[site.bias]).astype(np.float64)).reshape(-1)
    # An int32 bias has the scale input times weight; a channel of tiny weights would make it overflow.
    smallest = bias / (_BIAS_LIMIT * float(activations[site.bias_scale_of].scale))
    if site.axis is None:
        return from_weights(array, None, site.format, float(smallest.max(initial=0.0)))
    return from_weights(array, site.axis, site.format, smallest)


def _sketch_of_constant(value: ir.Value) -> Sketch | None:
    array = ir.array(value)
    if array.dtype != np.float32 or array.size == 0 or array.size > _LARGEST_CONSTANT:
        return None
    sketch = Sketch()
    finite = array[np.isfinite(array)]
    sketch.observe(array, float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf)))
    return sketch


def _within(found: Quantization, windows: Iterable[tuple[float | None, float | None]]) -> Quantization:
    """The quantization with no level outside a window, so that it does all that the absorbed activations did.

    A zero point is a whole level, and a scale a float32: rounding them can put an end beyond that of the range.
    """
    if found.format.symmetric:  # such formats reach below 0 whatever the window
        return found
    zero, scale = int(found.zero_point), float(found.scale)
    for window in windows:
        for end, level in zip(window, found.format.limits(), strict=True):
            if end and level != zero:
                scale = min(scale, end / (level - zero))
    rounded = np.float32(scale)
    if float(rounded) > scale:
        rounded = np.nextafter(rounded, np.float32(0.0))
    return replace(found, scale=np.asarray(rounded))


class _Ranges:
    """Ranges by group: values that share a scale are one group, and get the union of their ranges."""

    def __init__(
        self,
        model: ir.Model,
        regions: Sequence[Region],
        sketches: Mapping[str, Sketch | None],
        method: RangeMethod,
    ) -> None:
        self._initializers, self._sketches, self._method = model.graph.initializers, sketches, method
        self._parent: dict[str, str] = {}
        self._window: dict[str, tuple[float | None, float | None]] = {}
        self._fixed: dict[str, tuple[float, float]] = {}
        for region in regions:
            if region.moves_data or region.shares_scale:
                for value in (*region.reads[1:], *region.writes):
                    self._join(region.reads[0], value)
            self._window |= dict.fromkeys(region.writes, region.window)
            if region.fixed_range is not None:
                self._fixed |= dict.fromkeys(region.writes, region.fixed_range)
        self._members: dict[str, list[str]] = {}
        for region in regions:
            for value in dict.fromkeys((*region.reads, *region.writes)):
                members = self._members.setdefault(self._root(value), [])
                if value not in members:
                    members.append(value)
        self._made: dict[tuple[str, Format], Quantization] = {}

    def fault(self, region: Region) -> str | None:
        """Why a region cannot be quantized after all, or None."""
        for name in (name for site in region.weights for name in (site.value, site.bias) if name is not None):
            # Where nothing watches what the kernel writes, no sketch tells of it.
            if not np.isfinite(ir.array(self._initializers[name])).all():
                return f"weight `{name}` holds NaN or infinite values"
        for value in (*region.reads, *region.writes):
            seen = [sketch for name in self._group(value) if (sketch := self._sketches.get(name)) is not None]
            if any(sketch.nans or sketch.infinities for sketch in seen):
                return f"`{value}` holds NaN or infinite values"
            if not any(name in self._fixed for name in self._group(value)) and not any(
                np.isfinite(sketch.minimum) for sketch in seen
            ):
                return f"`{value}` was never seen with a finite element"
        return None

    def quantization(self, value: str, region: Region) -> Quantization:
        """Scale and zero point of a value of a region without fault."""
        assert region.activations is not None  # noqa: S101 - regions offered INT8 have a format
        key = (self._root(value), region.activations)
        if key not in self._made:
            low, high = self._range(value, region.activations)
            windows = [self._window[name] for name in self._group(value) if name in self._window]
            self._made[key] = _within(from_range(low, high, region.activations), windows)
        return self._made[key]

    def _range(self, value: str, format_: Format) -> tuple[float, float]:
        fixed = [self._fixed[name] for name in self._group(value) if name in self._fixed]
        lows, highs = [low for low, _ in fixed], [high for _, high in fixed]
        for name in self._group(value):
            sketch = self._sketches.get(name)
            if sketch is None or not np.isfinite(sketch.minimum):
                continue
            low, high = self._method.range(sketch, format_)
            floor, ceiling = self._window.get(name, (None, None))
            lows.append(low if floor is None else max(low, floor))
            highs.append(high if ceiling is None else min(high, ceiling))
        return min(lows), max(highs)

    def _group(self, value: str) -> list[str]:
        return self._members.get(self._root(value), [value])

    def _root(self, value: str) -> str:
        while (parent := self._parent.get(value, value)) != value:
            value = parent
        return value

    def _join(self, one: str, other: str) -> None:
        self._parent[self._root(other)] = self._root(one)

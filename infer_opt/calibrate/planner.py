"""From regions and statistics to plans: what each candidate quantizes, and with which numbers.

The first plan is always the model as it is; the original competes with everything that is made of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.plan import DYNAMIC, INT8, Choice, Plan
from infer_opt.calibrate.quantization import from_range, from_weights
from infer_opt.calibrate.sketch import Sketch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from infer_opt.calibrate.plan import Region, Scheme, WeightSite
    from infer_opt.calibrate.quantization import Format, Quantization
    from infer_opt.calibrate.ranges import RangeMethod

__all__ = [
    "ValueRanges",
    "dynamic_plan",
    "float_plan",
    "integer_plan",
    "lowered_plans",
    "watched_values",
    "with_method",
]

_BIAS_LIMIT = 2.0**30  # of an int32 bias: the other half is for the products that the kernel adds to it
_LARGEST_CONSTANT = 1 << 22  # elements; a larger one is a weight, which has no activation range


def float_plan(regions: Sequence[Region]) -> Plan:
    """Every region at the original's precision."""
    choices = {region.name: Choice(region.own, "as in the original") for region in regions}
    return Plan(regions[0].own if regions else "fp32", tuple(regions), choices)


def watched_values(model: ir.Model, regions: Iterable[Region]) -> list[str]:
    """Values that need statistics: what kernels read and write in integers, less constants, copies and fixed ranges."""
    schemes = [scheme for region in regions for scheme in region.schemes if scheme.activations is not None]
    known = {value for scheme in schemes if scheme.moves_data or scheme.fixed_range for value in scheme.writes}
    known |= ir.initializers(model).keys()
    wanted = (value for scheme in schemes for value in scheme.values)
    return [value for value in dict.fromkeys(wanted) if value not in known]


def lowered_plans(
    model: ir.Model,
    regions: Sequence[Region],
    sketches: Mapping[str, Sketch],
    method: RangeMethod,
    never_taken: Collection[str] = (),
    *,
    ordered: bool = True,
) -> list[Plan]:
    """Every way to lower all that may be: `integer_plan`, and `dynamic_plan` where that lowers anything."""
    integer, dynamic = (
        integer_plan(model, regions, sketches, method, never_taken, ordered=ordered),
        dynamic_plan(model, regions),
    )
    return [integer, *([dynamic] if dynamic.lowered() else [])]


def integer_plan(
    model: ir.Model,
    regions: Sequence[Region],
    sketches: Mapping[str, Sketch],
    method: RangeMethod,
    never_taken: Collection[str] = (),
    *,
    ordered: bool = True,
) -> Plan:
    """Every region that is legal and whose values and weights are finite at INT8.

    Args:
        sketches: statistics of `watched_values`.
        method: how ranges are found.
        never_taken: branches that no sample took; what stands in them keeps its precision.
        ordered: take the regions too that are not expected to gain.
    """
    initializers = ir.initializers(model)
    seen = [region for region in regions if region.scope not in never_taken]
    ranges = ValueRanges.of(model, seen, sketches, method)
    choices: dict[str, Choice] = {}
    quantized: list[Scheme] = []
    for region in regions:
        scheme = region.scheme(INT8)
        doubt = None if scheme is None else scheme.doubt
        if scheme is not None and region.scope in never_taken:
            fault: str | None = f"never seen: no calibration sample takes `{region.scope}`"
        else:
            fault = region.reason or "no INT8 kernel" if scheme is None else ranges.fault(scheme)
        if scheme is None or fault is not None:
            choices[region.name] = Choice(region.own, str(fault))
        elif doubt is not None and not ordered:
            choices[region.name] = Choice(region.own, doubt)
        else:
            reason = "legal in the dialect, ranges finite"
            choices[region.name] = Choice(INT8, reason if doubt is None else f"{reason}; ordered, though {doubt}")
            quantized.append(scheme)
    activations = {
        value: ranges.quantization(value, scheme.activations)
        for scheme in quantized
        if scheme.activations is not None
        for value in scheme.values
    }
    weights = {
        (site.node, site.index): _weight(initializers, site, activations)
        for scheme in quantized
        for site in scheme.weights
    }
    return Plan(INT8, tuple(regions), choices, activations, weights)


def with_method(model: ir.Model, plan: Plan, ranges: ValueRanges, values: Collection[str], method: RangeMethod) -> Plan:
    """A plan with the ranges of some values found anew, and of all that share a scale with them.

    Args:
        ranges: those of the plan.
    """
    together = {name for value in values for name in ranges.sharing(value)}
    activations = dict(plan.activations)
    for _, scheme, form in plan.quantized():
        for value in together.intersection(scheme.values):
            activations[value] = ranges.quantization(value, form, method)
    weights = dict(plan.weights)
    initializers = ir.initializers(model)
    for _, scheme, _ in plan.quantized():
        for site in scheme.weights:
            if site.bias_scale_of in together:
                weights[site.node, site.index] = _weight(initializers, site, activations)
    levels = {key: array for key, array in plan.levels.items() if weights[key] == plan.weights[key]}
    return replace(plan, activations=activations, weights=weights, levels=levels)


def dynamic_plan(model: ir.Model, regions: Sequence[Region]) -> Plan:
    """Every region that may find the range of what it reads at run time, and whose weights are finite, does so."""
    initializers = ir.initializers(model)
    choices: dict[str, Choice] = {}
    weights: dict[tuple[str, int], Quantization] = {}
    for region in regions:
        scheme = region.scheme(DYNAMIC)
        fault = (
            "no INT8 kernel that finds ranges at run time" if scheme is None else _weight_fault(initializers, scheme)
        )
        if scheme is None or fault is not None:
            choices[region.name] = Choice(region.own, str(fault))
            continue
        choices[region.name] = Choice(DYNAMIC, "range of what it reads found at run time, one for the whole batch")
        weights |= {(site.node, site.index): _weight(initializers, site, {}) for site in scheme.weights}
    return Plan(DYNAMIC, tuple(regions), choices, weights=weights)


def _weight_fault(initializers: Mapping[str, ir.Value], scheme: Scheme) -> str | None:
    """Why the weights of a region cannot be quantized, or None."""
    for name in (name for site in scheme.weights for name in (site.value, site.bias) if name is not None):
        # Where nothing watches what the kernel writes, no sketch tells of it.
        if not np.isfinite(ir.array(initializers[name])).all():
            return f"weight `{name}` holds NaN or infinite values"
    return None


def _weight(
    initializers: Mapping[str, ir.Value], site: WeightSite, activations: Mapping[str, Quantization]
) -> Quantization:
    array = site.array(initializers)
    if site.bias is None or site.bias_scale_of is None:
        return from_weights(array, site.axis, site.format)
    bias = np.abs(ir.array(initializers[site.bias]).astype(np.float64)).reshape(-1)
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


class ValueRanges:
    """Ranges by group: values that share a scale are one group, and get the union of their ranges."""

    def __init__(
        self,
        initializers: Mapping[str, ir.Value],
        schemes: Sequence[Scheme],
        sketches: Mapping[str, Sketch | None],
        method: RangeMethod,
    ) -> None:
        self._initializers, self._sketches, self._method = initializers, sketches, method
        self._parent: dict[str, str] = {}
        self._window: dict[str, tuple[float | None, float | None]] = {}
        self._fixed: dict[str, tuple[float, float]] = {}
        for scheme in schemes:
            if scheme.moves_data or scheme.shares_scale:
                for value in (*scheme.reads[1:], *scheme.writes, *scheme.shares_with):
                    self._join(scheme.reads[0], value)
            self._window |= dict.fromkeys(scheme.writes, scheme.window)
            if scheme.fixed_range is not None:
                self._fixed |= dict.fromkeys(scheme.writes, scheme.fixed_range)
        self._members: dict[str, list[str]] = {}
        for value in dict.fromkeys(value for scheme in schemes for value in scheme.values):
            self._members.setdefault(self._root(value), []).append(value)
        self._made: dict[tuple[str, Format, RangeMethod], Quantization] = {}

    @classmethod
    def of(
        cls, model: ir.Model, regions: Iterable[Region], sketches: Mapping[str, Sketch], method: RangeMethod
    ) -> ValueRanges:
        """For all that INT8 regions read and write, constants too."""
        schemes = [scheme for region in regions if (scheme := region.scheme(INT8)) is not None]
        initializers = ir.initializers(model)
        read = {value for scheme in schemes for value in scheme.values} & initializers.keys()
        constants = {
            name: _sketch_of_constant(initializers[name]) for name in read if ir.is_constant(initializers[name])
        }
        return cls(initializers, schemes, {**constants, **sketches}, method)

    def fault(self, scheme: Scheme) -> str | None:
        """Why a region cannot be quantized after all, or None."""
        if (reason := _weight_fault(self._initializers, scheme)) is not None:
            return reason
        for value in scheme.values:
            seen = [sketch for name in self._group(value) if (sketch := self._sketches.get(name)) is not None]
            if any(sketch.nans or sketch.infinities for sketch in seen):
                return f"`{value}` holds NaN or infinite values"
            if not any(name in self._fixed for name in self._group(value)) and not any(
                np.isfinite(sketch.minimum) for sketch in seen
            ):
                return f"`{value}` was never seen with a finite element"
        return None

    def sharing(self, value: str) -> list[str]:
        """The values that have one scale with this one, itself too."""
        return self._group(value)

    def quantization(self, value: str, form: Format, method: RangeMethod | None = None) -> Quantization:
        """Scale and zero point of a value of a region without fault.

        Args:
            method: by another than the usual method.
        """
        method = method or self._method
        key = (self._root(value), form, method)
        if key not in self._made:
            low, high = self._range(value, form, method)
            windows = [self._window[name] for name in self._group(value) if name in self._window]
            self._made[key] = _within(from_range(low, high, form), windows)
        return self._made[key]

    def _range(self, value: str, format_: Format, method: RangeMethod) -> tuple[float, float]:
        fixed = [self._fixed[name] for name in self._group(value) if name in self._fixed]
        lows, highs = [low for low, _ in fixed], [high for _, high in fixed]
        for name in self._group(value):
            sketch = self._sketches.get(name)
            if sketch is None or not np.isfinite(sketch.minimum):
                continue
            low, high = method.range(sketch, format_)
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

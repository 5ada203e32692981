"""The candidates of one compile: what is planned for the optimised graph, and why something is missing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from infer_opt.calibrate.front import LEVELS, pareto_front
from infer_opt.calibrate.mixing import mixed_levels, mixed_plans
from infer_opt.calibrate.planner import float_plan, integer_plan, watched_values
from infer_opt.calibrate.sensing import sense_plan
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.statistics import collect
from infer_opt.calibrate.value_ranges import value_ranges
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt import ir
    from infer_opt.calibrate.feeding import Feeding
    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.original import Original
    from infer_opt.calibrate.plan import Plan, Region
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.target import Target
    from infer_opt.calibrate.value_ranges import ValueRange
    from infer_opt.compile.request import Order, Request

__all__ = ["Planned", "plans"]


class Planned(NamedTuple):
    """What is to be built.

    Args:
        plans: the candidates in the order that decides ties.
        notes: what a user should know of those that are missing.
        integers: the plan with all in INT8 that is legal, or None where INT8 was not tried.
        ranges: of the values that it quantizes.
        sensed: what each of its groups costs, or None where no limit asked for it.
        front: the choices between, of error and latency.
    """

    plans: list[Plan]
    notes: list[str]
    integers: Plan | None = None
    ranges: tuple[ValueRange, ...] = ()
    sensed: Sensed | None = None
    front: tuple[Point, ...] = ()


def plans(
    request: Request,
    order: Order,
    target: Target,
    model: ir.Model,
    samples: Feeding,
    original: Original,
    stages: Stages,
) -> Planned:
    """The candidates, and what was learnt while they were planned."""
    with stages("plan"):
        regions = target.regions(model)
        unchanged = float_plan(regions)
    _check_order(request, order, regions)
    if not order.tries_int8 or not any("int8" in region.precisions for region in regions):
        return Planned([unchanged], [])
    if samples.calibration is None:
        return Planned([unchanged], ["INT8 was not tried: it needs samples (--calib)"])
    if original.runner is None and not order.int8:
        return Planned([unchanged], ["INT8 was not tried: unverified, nothing tells whether it is right enough"])
    values = watched_values(model, regions)
    with stages("calibrate", len(samples.calibration)) as advance:
        found = collect(
            model, values, samples.calibration, threads=request.thread_count, seed=request.seed, advance=advance
        )
    with stages("plan"):
        quantized = integer_plan(model, regions, found.sketches, order.quantize.ranges)
    ranges = value_ranges(quantized, found.sketches)
    notes = [f"NaN or Inf that reaches no output: {sample}" for sample in found.dirty_samples]
    if order.int8:
        return Planned([quantized], notes, quantized, ranges)
    if not request.budget.stated:
        # Unstated, a limit has to hold on inputs worse than the samples too, and nothing checks that yet: a page
        # classifier lost 3 points on noisy pages by a plan that kept 57 dB on clean ones (measured).
        return Planned([unchanged, quantized], notes, quantized, ranges)
    trial = Trial.of_samples(model, samples.calibration, request.thread_count)
    sensed = sense_plan(target, model, quantized, trial, stages)
    front = pareto_front(target, model, sensed, trial, stages, (*LEVELS, *mixed_levels(request.budget)))
    mixed = mixed_plans(sensed, front, request.budget)
    return Planned([unchanged, quantized, *mixed], notes, quantized, ranges, sensed, front)


def _check_order(request: Request, order: Order, regions: Sequence[Region]) -> None:
    """A precision that was asked for by name, and that nothing can have, is an error and no quiet float model."""
    wanted = "int8" if order.int8 else request.precision
    if wanted in {"auto", "fp32"} or any(wanted in region.precisions for region in regions):
        return
    backend = request.profile.backend
    reasons = Counter(region.reason or f"the {backend} backend does not write it yet" for region in regions)
    why = f": {reasons.most_common(1)[0][0]}" if reasons else ""
    raise InputError(
        f"no part of `{request.model}` can run at {wanted} on `{request.profile.name}`{why}", "pass --precision auto"
    )

"""The candidates of one compile: what is planned for the optimised graph, and why something is missing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from infer_opt.calibrate.mixing import mixed_plans
from infer_opt.calibrate.planner import ValueRanges, float_plan, integer_plan, watched_values
from infer_opt.calibrate.repairs import choose_ranges, repair_weights
from infer_opt.calibrate.sensing import sense_plan
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.statistics import collect
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt import ir
    from infer_opt.calibrate.feeding import Feeding
    from infer_opt.calibrate.original import Original
    from infer_opt.calibrate.plan import Plan, Region
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.target import Target
    from infer_opt.compile.request import Order, Request

__all__ = ["plans"]


def plans(
    request: Request,
    order: Order,
    target: Target,
    model: ir.Model,
    samples: Feeding,
    original: Original,
    stages: Stages,
) -> tuple[list[tuple[Plan, bool]], list[str]]:
    """The candidates in the order that decides ties, and what a user should know of those that are missing.

    Returns:
        plans, each with whether it is one of a series that ends where enough are right; and notes.
    """
    with stages("plan"):
        regions = target.regions(model)
        unchanged = float_plan(regions)
    _check_order(request, order, regions)
    if not order.tries_int8 or not any("int8" in region.precisions for region in regions):
        return [(unchanged, False)], []
    if samples.calibration is None:
        return [(unchanged, False)], ["INT8 was not tried: it needs samples (--calib)"]
    if original.runner is None and not order.int8:
        return [(unchanged, False)], ["INT8 was not tried: unverified, nothing tells whether it is right enough"]
    values = watched_values(model, regions)
    with stages("calibrate", len(samples.calibration)) as advance:
        found = collect(
            model, values, samples.calibration, threads=request.thread_count, seed=request.seed, advance=advance
        )
    with stages("plan"):
        quantized = integer_plan(model, regions, found.sketches, order.quantize.ranges)
    notes = [f"NaN or Inf that reaches no output: {sample}" for sample in found.dirty_samples]
    trial = Trial.of_samples(model, samples.calibration, request.thread_count)
    with stages("repair"):
        quantized = repair_weights(model, quantized, samples.calibration, trial, request.seed)
    if order.int8 and not order.quantize.searches_ranges:
        return [(quantized, False)], notes
    sensed = sense_plan(target, model, quantized, trial, stages)
    if order.quantize.searches_ranges:
        ranges = ValueRanges.of(model, regions, found.sketches, order.quantize.ranges)
        sensed = choose_ranges(target, model, sensed, ranges, trial, stages)
    quantized = sensed.plan
    if order.int8:
        return [(quantized, False)], notes
    with stages("plan"):
        mixed = mixed_plans(model, sensed, request.budget)
    return [(unchanged, False), (quantized, False), *((plan, True) for plan in mixed)], notes


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

"""The candidates of one compile: what is planned for the optimised graph, and why something is missing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from infer_opt.calibrate.audit import Auditor
from infer_opt.calibrate.feeding import input_specs
from infer_opt.calibrate.front import pareto_front
from infer_opt.calibrate.mixing import mixed_levels, mixed_plans
from infer_opt.calibrate.planner import float_plan, lowered_plans, watched_values
from infer_opt.calibrate.sensing import sense_plans
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.statistics import collect
from infer_opt.calibrate.value_ranges import value_ranges
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt import ir
    from infer_opt.calibrate.feeding import Feeding
    from infer_opt.calibrate.findings import Audit
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
        searched: more, the fastest first by the prediction; they are built until enough are right.
        notes: what a user should know of those that are missing, and of the samples.
        audit: of the calibration samples, where there was a calibration on real ones.
        integers: the plan with all in INT8 that is legal, or None where INT8 was not tried.
        ranges: of the values that it quantizes.
        sensed: what each of its groups costs, or None where nothing was chosen by it.
        front: the choices between, of error and latency.
    """

    plans: Sequence[Plan]
    searched: Sequence[Plan] = ()
    notes: Sequence[str] = ()
    audit: Audit | None = None
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
    if not order.tries_int8 or not any(region.schemes for region in regions):
        return Planned([unchanged])
    if samples.calibration is None:
        return Planned([unchanged], notes=["INT8 was not tried: it needs samples (--calib)"])
    if original.runner is None and not order.int8:
        why = "INT8 was not tried: unverified, nothing tells whether it is right enough"
        return Planned([unchanged], notes=[why])
    values = watched_values(model, regions)
    auditor = None if samples.is_random else Auditor(samples, input_specs(model), request.seed)
    with stages("calibrate", len(samples.calibration)) as advance:
        found = collect(
            model,
            values,
            samples.calibration,
            threads=request.thread_count,
            seed=request.seed,
            advance=advance,
            onlooker=auditor,
        )
    audit = None if auditor is None else auditor.audit
    with stages("plan"):
        lowered = lowered_plans(model, regions, found.sketches, order.quantize.ranges, found.never_taken)
    integers = lowered[0]  # with the ranges of the samples
    ranges = value_ranges(integers, found.sketches)
    notes = [f"NaN or Inf that reaches no output: {sample}" for sample in found.dirty_samples]
    notes += [] if audit is None else audit.warnings()
    offered = {region.scope for region in regions if "int8" in region.precisions}
    notes += [
        f"no calibration sample takes `{branch}`: what stands in it was not quantized"
        for branch in found.never_taken
        if branch in offered
    ]
    if order.int8:
        return Planned([integers], (), notes, audit, integers, ranges)
    trial = Trial.of_samples(model, samples.calibration, request.thread_count, found.first_samples.values())
    sensed = sense_plans(target, model, lowered, trial, stages)
    front = pareto_front(target, model, sensed, trial, stages, mixed_levels(request.budget))
    mixed = mixed_plans(sensed, front, request.budget)
    return Planned([unchanged, *lowered], mixed, notes, audit, integers, ranges, sensed, front)


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

"""The candidates of one compile: what is planned for the optimised graph, and why something is missing."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from infer_opt.calibrate.audit import Auditor
from infer_opt.calibrate.feeding import input_specs
from infer_opt.calibrate.front import pareto_front
from infer_opt.calibrate.half import half_values, half_verdicts, with_half
from infer_opt.calibrate.lifting import Lifting, lifted
from infer_opt.calibrate.metrics.named import METRICS
from infer_opt.calibrate.mixing import mixed_levels, mixed_plans
from infer_opt.calibrate.plan import DYNAMIC, INT8
from infer_opt.calibrate.planner import float_plan, lowered_plans, watched_values
from infer_opt.calibrate.sensing import sense_plans
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.statistics import collect
from infer_opt.calibrate.value_ranges import value_ranges
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt import ir
    from infer_opt.calibrate.feeding import Feeding
    from infer_opt.calibrate.findings import Audit
    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.original import Original
    from infer_opt.calibrate.plan import Choice, Plan, Region
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.statistics import Statistics
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
    int8, notes = _tries_int8(order, regions, samples, original)
    half = order.half and any("fp16" in region.precisions for region in regions)
    if not int8 and not half:
        return Planned([unchanged], notes=notes)
    wanted = (watched_values(model, regions) if int8 else []) + (half_values(model, regions) if half else [])
    found, audit = (
        _calibrated(request, model, wanted, samples, stages) if int8 or not samples.is_random else (None, None)
    )
    notes += _notes(found, audit, regions)
    verdicts: Mapping[str, Choice] = {}
    if half:
        with stages("plan"):
            verdicts = half_verdicts(model, regions, None if found is None else found.sketches)
    finished = partial(with_half, verdicts=verdicts) if half else _as_it_is
    typed = finished(unchanged)
    if half and not typed.half and not int8:
        notes.append(f"nothing became FP16: {_commonest_reason(typed)}")
    candidates = [typed] if order.named else [unchanged, *([typed] if typed.half else [])]
    if not int8 or found is None or samples.calibration is None:
        return Planned(candidates, notes=notes, audit=audit)
    with stages("plan"):
        lowered = lowered_plans(
            model, regions, found.sketches, order.quantize.ranges, found.never_taken, ordered=order.int8
        )
    if order.int8 and original.runner is None:
        return Planned([finished(lowered[0])], notes=notes, audit=audit)
    if not order.int8 and not any(plan.lowered() for plan in lowered):
        notes.append(f"INT8 was not tried: {_commonest_reason(lowered[0])}")
        return Planned(candidates, notes=notes, audit=audit)
    trial = Trial.of_samples(model, samples.calibration, request.thread_count, found.first_samples.values())
    ranges = value_ranges(lowered[0], found.sketches)
    if order.int8:
        proof = Trial.of_samples(model, samples.held_out or samples.calibration, request.thread_count)
        lifting = Lifting(request.budget, METRICS[request.metric], finished, proof)
        kept, lifts = lifted(target, model, lowered[0], trial, lifting, stages)
        return Planned([finished(kept)], (), notes + lifts, audit, lowered[0], ranges)
    sensed = sense_plans(target, model, lowered, trial, stages)
    front = pareto_front(target, model, sensed, trial, stages, mixed_levels(request.budget))
    mixed = [finished(plan) for plan in mixed_plans(sensed, front, request.budget)]
    return Planned([*candidates, *map(finished, lowered)], mixed, notes, audit, lowered[0], ranges, sensed, front)


def _as_it_is(plan: Plan) -> Plan:
    return plan


def _commonest_reason(plan: Plan) -> str:
    """Why most of a plan's regions are what they are."""
    return Counter(choice.reason for choice in plan.choices.values()).most_common(1)[0][0]


def _tries_int8(
    order: Order, regions: Sequence[Region], samples: Feeding, original: Original
) -> tuple[bool, list[str]]:
    """Whether INT8 is planned, and what a user should know where it is not."""
    if not order.tries_int8 or not any(set(region.precisions) & {INT8, DYNAMIC} for region in regions):
        return False, []
    if samples.calibration is None:
        return False, ["INT8 was not tried: it needs samples (--calib)"]
    if original.runner is None and not order.int8:
        return False, ["INT8 was not tried: unverified, nothing tells whether it is right enough"]
    return True, []


def _calibrated(
    request: Request, model: ir.Model, values: Sequence[str], samples: Feeding, stages: Stages
) -> tuple[Statistics | None, Audit | None]:
    """Statistics of values that plans ask for, and the audit of the samples; none where there are no samples."""
    if samples.calibration is None:
        return None, None
    auditor = None if samples.is_random else Auditor(samples, input_specs(model), request.seed)
    with stages("calibrate", len(samples.calibration)) as advance:
        found = collect(
            model,
            list(dict.fromkeys(values)),
            samples.calibration,
            threads=request.thread_count,
            seed=request.seed,
            advance=advance,
            onlooker=auditor,
        )
    return found, None if auditor is None else auditor.audit


def _notes(found: Statistics | None, audit: Audit | None, regions: Sequence[Region]) -> list[str]:
    """What a user should know of the samples."""
    if found is None:
        return []
    notes = [f"NaN or Inf that reaches no output: {sample}" for sample in found.dirty_samples]
    notes += [] if audit is None else audit.warnings()
    offered = {region.scope for region in regions if "int8" in region.precisions}
    return notes + [
        f"no calibration sample takes `{branch}`: what stands in it was not quantized"
        for branch in found.never_taken
        if branch in offered
    ]


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

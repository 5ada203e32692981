"""The candidates of one compile: what is planned for the optimised graph, and why something is missing."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from infer_opt.calibrate.half import half_values, half_verdicts, with_half
from infer_opt.calibrate.lifting import lifted
from infer_opt.calibrate.mixing import mixed_plans
from infer_opt.calibrate.planner import float_plan, integer_plan, watched_values
from infer_opt.calibrate.sensing import sense_plan
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.statistics import collect
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt import ir
    from infer_opt.calibrate.feeding import Feeding
    from infer_opt.calibrate.original import Original
    from infer_opt.calibrate.plan import Choice, Plan, Region
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.statistics import Statistics
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
) -> tuple[list[Plan], list[str]]:
    """The candidates in the order that decides ties, and what a user should know of those that are missing."""
    with stages("plan"):
        regions = target.regions(model)
        unchanged = float_plan(regions)
    _check_order(request, order, regions)
    int8, missing = _tries_int8(order, regions, samples, original)
    half = order.half and any("fp16" in region.precisions for region in regions)
    if not int8 and not half:
        return [unchanged], missing
    found = _statistics(request, model, regions, samples, stages, int8=int8, half=half)
    dirty = [] if found is None else found.dirty_samples
    notes = missing + [f"NaN or Inf that reaches no output: {sample}" for sample in dirty]
    verdicts: Mapping[str, Choice] = {}
    if half:
        with stages("plan"):
            verdicts = half_verdicts(model, regions, None if found is None else found.sketches)

    def finished(plan: Plan) -> Plan:
        return with_half(plan, verdicts) if half else plan

    typed = finished(unchanged)
    if order.half and not typed.half and not int8:
        notes.append(f"nothing became FP16: {_commonest_reason(typed)}")
    candidates = [typed] if order.named else [unchanged, *([typed] if typed.half else [])]
    if not int8 or found is None or samples.calibration is None:
        return candidates, notes
    with stages("plan"):
        quantized = integer_plan(model, regions, found.sketches, order.quantize.ranges, ordered=order.int8)
    if not quantized.quantized() and not order.int8:
        return candidates, [*notes, f"INT8 was not tried: {_commonest_reason(quantized)}"]
    trial = partial(Trial.of_samples, model, samples.calibration, request.thread_count)
    if order.int8:
        if original.runner is None:
            return [finished(quantized)], notes
        kept, lifts = lifted(target, model, quantized, trial(), request.budget, stages, finished=finished)
        return [finished(kept)], notes + lifts
    candidates.append(finished(quantized))
    if request.budget.stated:
        # Unstated, a limit has to hold on inputs worse than the samples too, and nothing checks that yet: a page
        # classifier lost 3 points on noisy pages by a plan that kept 57 dB on clean ones (measured).
        sensed = sense_plan(target, model, quantized, trial(), stages)
        with stages("plan"):
            candidates += map(finished, mixed_plans(model, sensed, request.budget))
    return candidates, notes


def _commonest_reason(plan: Plan) -> str:
    """Why most of a plan's regions are what they are."""
    return Counter(choice.reason for choice in plan.choices.values()).most_common(1)[0][0]


def _tries_int8(
    order: Order, regions: Sequence[Region], samples: Feeding, original: Original
) -> tuple[bool, list[str]]:
    """Whether INT8 is planned, and what a user should know where it is not."""
    if not order.tries_int8 or not any("int8" in region.precisions for region in regions):
        return False, []
    if samples.calibration is None:
        return False, ["INT8 was not tried: it needs samples (--calib)"]
    if original.runner is None and not order.int8:
        return False, ["INT8 was not tried: unverified, nothing tells whether it is right enough"]
    return True, []


def _statistics(
    request: Request,
    model: ir.Model,
    regions: Sequence[Region],
    samples: Feeding,
    stages: Stages,
    *,
    int8: bool,
    half: bool,
) -> Statistics | None:
    """Of all values that a plan asks for; None where there are no samples. Random ones say nothing of real ranges."""
    if samples.calibration is None or (samples.is_random and not int8):
        return None
    wanted = (watched_values(model, regions) if int8 else []) + (half_values(model, regions) if half else [])
    with stages("calibrate", len(samples.calibration)) as advance:
        return collect(
            model,
            list(dict.fromkeys(wanted)),
            samples.calibration,
            threads=request.thread_count,
            seed=request.seed,
            advance=advance,
        )


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

"""Sensitivity without an artifact: what each group of regions costs at the outputs, for a model and a profile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infer_opt import ir, targets
from infer_opt.calibrate.deadline import Deadline
from infer_opt.calibrate.feeding import feeding
from infer_opt.calibrate.half import half_values, half_verdicts, with_half
from infer_opt.calibrate.plan import DYNAMIC, INT8
from infer_opt.calibrate.planner import watched_values
from infer_opt.calibrate.progress import Silent, Stages
from infer_opt.compile.groundwork import Groundwork
from infer_opt.compile.known import known_latencies, means_of
from infer_opt.compile.optimise import legalized
from infer_opt.compile.request import Order
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.plan import Choice
    from infer_opt.calibrate.progress import Progress
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.target import Target
    from infer_opt.compile.request import Request

__all__ = ["sense"]


def sense(request: Request, progress: Progress | None = None) -> tuple[Sensed, tuple[Point, ...]]:
    """Measure the sensitivity of every group of regions of a request's model to INT8, and the front that it gives.

    Raises:
        InputError, UsageError: model, data, profile or options are at fault, or nothing could run at INT8.
    """
    stages = Stages(progress or Silent())
    order = Order.of(request)
    with stages("load"):
        source = ir.load(request.file)
        ir.fix_input_shapes(source, request.shapes)
    target: Target = targets.create(request.profile)
    target.check(source, request.allowed_ops)
    samples = feeding(source, request.calib, request.preprocess, request.seed, request.augment).calibration
    if samples is None:
        raise InputError("sensitivity is measured on samples", "pass --calib PATH")
    with stages("passes"):
        model, _ = legalized(request.profile, order.pipeline).run(source)
    with stages("plan"):
        regions = target.regions(model)
    if not any({INT8, DYNAMIC} & set(region.precisions) for region in regions):
        reason = next((region.reason for region in regions if region.reason), "the backend writes one precision")
        raise InputError(
            f"no part of `{request.model}` can run at INT8 on `{request.profile.name}`: {reason}",
            "name a --target whose precisions hold int8",
        )
    wanted = [*watched_values(model, regions), *(half_values(model, regions) if order.half else ())]
    verdicts: dict[str, Choice] = {}
    means = means_of(request, known_latencies(request), Deadline())
    if order.half:
        means = replace(means, finished=lambda plan: with_half(plan, verdicts))
    ground = Groundwork(request, order, target, model, regions, samples, stages, means)
    ground.calibrate(wanted)
    ground.equalise()
    if order.half:
        verdicts.update(half_verdicts(ground.model, ground.regions, ground.sketches))
    explorer = ground.explorer()
    sensed = explorer.sensed(explorer.repaired(ground.lowered(), request.seed))
    return sensed, explorer.front(sensed)

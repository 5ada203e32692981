"""Sensitivity without an artifact: what each group of regions costs at the outputs, for a model and a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt import ir, targets
from infer_opt.calibrate.feeding import feeding
from infer_opt.calibrate.grouping import groups
from infer_opt.calibrate.kernel_times import region_times
from infer_opt.calibrate.planner import float_plan, integer_plan, watched_values
from infer_opt.calibrate.progress import Silent, Stages
from infer_opt.calibrate.sensitivity import Trial, measure
from infer_opt.calibrate.statistics import collect
from infer_opt.compile.optimise import legalized
from infer_opt.compile.request import Order
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from infer_opt.calibrate.grouping import Group
    from infer_opt.calibrate.kernel_times import RegionTimes
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.progress import Progress
    from infer_opt.calibrate.sample_set import SampleSet
    from infer_opt.calibrate.sensitivity import Sensitivity
    from infer_opt.calibrate.target import Target
    from infer_opt.compile.request import Request

__all__ = ["Sensed", "sense"]

_MOST_SAMPLES = 8  # noise of one layer hardly differs from sample to sample


@dataclass(frozen=True)
class Sensed:
    """What was found out.

    Args:
        plan: every region that may be lowered is.
        samples: how many were run for each group.
        times: of every region in float, and where all that may be lowered is; None where this host's latency does not
            count.
        unmeasured: why not, or None.
    """

    plan: Plan
    sensitivity: Sensitivity
    samples: int
    times: tuple[RegionTimes, RegionTimes] | None
    unmeasured: str | None


def sense(request: Request, progress: Progress | None = None) -> Sensed:
    """Measure the sensitivity of every group of regions of a request's model to INT8.

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
    samples = feeding(source, request.calib, request.preprocess, request.seed).calibration
    if samples is None:
        raise InputError("sensitivity is measured on samples", "pass --calib PATH")
    with stages("passes"):
        model, _ = legalized(request.profile, order.pipeline).run(source)
    with stages("plan"):
        regions = target.regions(model)
    if not any(region.schemes for region in regions):
        reason = next((region.reason for region in regions if region.reason), "the backend writes one precision")
        raise InputError(
            f"no part of `{request.model}` can run at INT8 on `{request.profile.name}`: {reason}",
            "name a --target whose precisions hold int8",
        )
    with stages("calibrate", len(samples)) as advance:
        found = collect(
            model,
            watched_values(model, regions),
            samples,
            threads=request.thread_count,
            seed=request.seed,
            advance=advance,
        )
    plan = integer_plan(model, regions, found.sketches, order.quantize.ranges)
    together = groups(plan)
    trial = Trial.of(model, _spread(samples), ir.output_parts(source), request.thread_count)

    def alone(group: Group) -> ir.Model:
        return target.rehearse(model, plan.only(group.regions))

    with stages("sensitivity", len(together)) as advance:
        sensitivity = measure(trial, together, alone, advance=advance)
    unmeasured = target.timed_here()
    times = None if unmeasured else _times(target, model, plan, trial)
    return Sensed(plan, sensitivity, len(trial.feeds), times, unmeasured)


def _times(target: Target, model: ir.Model, plan: Plan, trial: Trial) -> tuple[RegionTimes, RegionTimes]:
    in_float, lowered = (
        region_times(model, each, target.rehearse(model, each), trial.feeds[0], trial.threads)
        for each in (float_plan(plan.regions), plan)
    )
    return in_float, lowered


def _spread(samples: SampleSet) -> Sequence[Mapping[str, np.ndarray]]:
    """A few samples from all over the set."""
    step = max(1, len(samples) // _MOST_SAMPLES)
    return [feed for index, feed in enumerate(samples) if index % step == 0][:_MOST_SAMPLES]

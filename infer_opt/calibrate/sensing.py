"""What lowering each part of a model costs and gains, measured: its error alone, and the times of its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.grouping import groups
from infer_opt.calibrate.kernel_times import region_times
from infer_opt.calibrate.planner import float_plan
from infer_opt.calibrate.sensitivity import measure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infer_opt.calibrate.grouping import Group
    from infer_opt.calibrate.kernel_times import RegionTimes
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sensitivity import Sensitivity, Trial
    from infer_opt.calibrate.target import Target

__all__ = ["Sensed", "sense_plan"]

_SAMPLES = 8  # that are run for each group


@dataclass(frozen=True)
class Sensed:
    """What lowering each group of a plan costs and gains.

    Args:
        plan: every region that may be lowered is.
        samples: how many were run for each group.
        times: of every region in float, and where all that may be lowered is; None where this host's latency does not
            count.
        unmeasured: why not, or None.
        sizes: elements of the values by name, for the sample that was timed.
    """

    plan: Plan
    sensitivity: Sensitivity
    samples: int
    times: tuple[RegionTimes, RegionTimes] | None
    unmeasured: str | None
    sizes: Mapping[str, int]

    def seconds(self, group: Group) -> tuple[float, float] | None:
        """Measured time of a group's kernels in float, and lowered."""
        if self.times is None:
            return None
        before, after = (sum(each.regions.get(name, 0.0) for name in group.regions) for each in self.times)
        return before, after

    @property
    def total_in_float(self) -> float | None:
        """Measured time of all kernels in float: one run without what lies between them."""
        return None if self.times is None else sum(self.times[0].regions.values()) + self.times[0].other


def sense_plan(target: Target, model: ir.Model, plan: Plan, trial: Trial, stages: Stages) -> Sensed:
    """Measure every group of a plan alone, and the times of all.

    Args:
        trial: samples; those that hold most of the outputs' power are run for each group.
    """
    few = trial.strongest(_SAMPLES)

    def alone(group: Group) -> ir.Model:
        return target.rehearse(model, plan.only(group.regions))

    together = groups(plan)
    with stages("sensitivity", len(together)) as advance:
        sensitivity = measure(few, together, alone, advance=advance)
        unmeasured = target.timed_here()
        times = None if unmeasured else _times(target, model, plan, few)
    sizes = ir.value_sizes(model, {name: array.shape for name, array in few.feeds[0].items()})
    return Sensed(plan, sensitivity, len(few.feeds), times, unmeasured, sizes)


def _times(target: Target, model: ir.Model, plan: Plan, trial: Trial) -> tuple[RegionTimes, RegionTimes]:
    in_float, lowered = (
        region_times(model, each, target.rehearse(model, each), trial.feeds, trial.threads)
        for each in (float_plan(plan.regions), plan)
    )
    return in_float, lowered

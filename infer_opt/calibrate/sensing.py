"""What lowering each part of a model costs and gains: its error alone, measured, and the times of its kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infer_opt import __version__, ir
from infer_opt.calibrate.deadline import Deadline
from infer_opt.calibrate.digest import digest
from infer_opt.calibrate.grouping import alternatives
from infer_opt.calibrate.journal import Journal
from infer_opt.calibrate.kernel_times import region_times
from infer_opt.calibrate.latency_table import LatencyTable
from infer_opt.calibrate.planner import float_plan
from infer_opt.calibrate.runner import runtime_version
from infer_opt.calibrate.sensitivity import measure
from infer_opt.calibrate.tails import Tails

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from infer_opt.calibrate.grouping import Alternative
    from infer_opt.calibrate.kernel_times import RegionTimes
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sensitivity import Sensitivity, Trial
    from infer_opt.calibrate.target import LatencyModel, Target

__all__ = ["Means", "Sensed", "next_telling", "sense_plans", "takes_long", "telling"]

_SAMPLES = 8  # that are run for each group
_FEW = 4  # where one run is long
_LONG = 2e9  # multiply-adds of one run: some 30 ms in float on one core


@dataclass(frozen=True)
class Sensed:
    """What lowering each group costs and gains, each way it may be lowered.

    Args:
        plans: by name; each lowers every region that it may.
        samples: how many were run for each alternative.
        in_float: times of every region where nothing is lowered; None where nothing tells.
        lowered: and by name of each plan.
        unmeasured: why this host's latency does not count, or None.
        model: where that is so, what the times are of instead; None where they were measured, or there are none.
        sizes: elements of the values by name, for the sample that was timed.
    """

    plans: Mapping[str, Plan]
    sensitivity: Sensitivity
    samples: int
    in_float: RegionTimes | None
    lowered: Mapping[str, RegionTimes]
    unmeasured: str | None
    sizes: Mapping[str, int]
    model: LatencyModel | None = None

    @property
    def kind(self) -> str | None:
        """Of the times: `measured` or `modelled`; None where there are none."""
        if self.in_float is None:
            return None
        return "measured" if self.model is None else "modelled"

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """All that were measured."""
        return tuple(noise.alternative for noise in self.sensitivity.noises)

    def seconds(self, way: Alternative) -> tuple[float, float] | None:
        """Time of a group's kernels in float, and lowered."""
        if self.in_float is None:
            return None
        before, after = (
            sum(times.regions.get(name, 0.0) for name in way.group.regions)
            for times in (self.in_float, self.lowered[way.plan])
        )
        return before, after

    @property
    def total_in_float(self) -> float | None:
        """Time of all kernels in float: one run without what lies between them."""
        return None if self.in_float is None else sum(self.in_float.regions.values()) + self.in_float.other


@dataclass(frozen=True)
class Means:
    """What sensing has at hand besides the host.

    Args:
        latencies: times that are known, and takes those that are measured.
        cache: folder of the journals that outlive a killed run, or None.
        setting: digest of what noises depend on beside models, plans and samples: the device and this host's CPU.
        deadline: ends the measuring.
        threads: to time kernels with.
        finished: what is done to a plan before it is written.
    """

    latencies: LatencyTable = field(default_factory=lambda: LatencyTable({}))
    cache: Path | None = None
    setting: str = ""
    deadline: Deadline = field(default_factory=Deadline)
    threads: int = 1
    finished: Callable[[Plan], Plan] = lambda plan: plan


def sense_plans(
    target: Target, model: ir.Model, plans: Sequence[Plan], trial: Trial, stages: Stages, means: Means | None = None
) -> Sensed:
    """Measure every group alone as each plan lowers it, and the times of all.

    Args:
        plans: of the same regions, at least one.
        trial: samples; those that `telling` picks are run for each group.
    """
    by_name, few, means = {plan.name: plan for plan in plans}, telling(model, trial), means or Means()

    def alone(part: ir.Model, way: Alternative) -> ir.Model:
        return target.rehearse(part, by_name[way.plan].only(way.regions))

    unmeasured, shapes = target.timed_here(), {name: array.shape for name, array in few.feeds[0].items()}
    latency = target.latency_model() if unmeasured else None

    def times(plan: Plan) -> RegionTimes:
        def measured() -> RegionTimes:
            return region_times(model, plan, target.rehearse(model, plan), few.feeds, means.threads)

        if latency is not None:
            return latency.times(model, means.finished(plan), shapes)
        return means.latencies.times(plan.name, measured)

    ways = alternatives(plans)
    with stages("sensitivity", len(ways)) as advance:
        timed = unmeasured is None or latency is not None
        in_float = times(float_plan(plans[0].regions)) if timed else None
        lowered = {plan.name: times(plan) for plan in plans} if timed else {}
        journal = Journal(means.cache, _content(means.setting, model, plans, few) if means.cache else "")
        sensitivity = measure(
            Tails(model, few, plans[0].regions), ways, alone, journal=journal, deadline=means.deadline, advance=advance
        )
    sizes = ir.value_sizes(model, shapes)
    return Sensed(by_name, sensitivity, len(few.feeds), in_float, lowered, unmeasured, sizes, latency)


def telling(model: ir.Model, trial: Trial) -> Trial:
    """Samples that hold most of the outputs' power: eight, or fewer where the model is large."""
    return trial.strongest(_count(model, trial))


def next_telling(model: ir.Model, trial: Trial) -> Trial:
    """As many others, which hold most of the rest; where there are too few, some of the same."""
    count = _count(model, trial)
    return trial.strongest(count, after=count)


def takes_long(model: ir.Model, trial: Trial) -> bool:
    """Whether one run is long, so that a search has to do with fewer."""
    shapes = {name: array.shape for name, array in trial.feeds[0].items()}
    return ir.multiply_adds(ir.at_shapes(model, shapes)).multiply_adds > _LONG


def _count(model: ir.Model, trial: Trial) -> int:
    return _FEW if takes_long(model, trial) else _SAMPLES


def _content(setting: str, model: ir.Model, plans: Sequence[Plan], trial: Trial) -> str:
    """Everything that noises depend on: the model, the plans, the samples, and whose kernels run them."""
    kernels = (__version__, runtime_version(), setting)
    return digest(kernels, ir.fingerprint(model), list(plans), list(trial.feeds), trial.threads)

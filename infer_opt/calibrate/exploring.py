"""Exploring plans: what each part of them costs and gains, repaired where that helps, and the choices in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from infer_opt.calibrate.front import LEVELS, pareto_front
from infer_opt.calibrate.repairs import choose_ranges, repair_weights
from infer_opt.calibrate.sensing import Means, next_telling, sense_plans, telling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt import ir
    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.planner import ValueRanges
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sample_set import SampleSet
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.sensitivity import Trial
    from infer_opt.calibrate.target import Target

__all__ = ["Explorer"]


@dataclass(frozen=True)
class Explorer:
    """A model and a target, with samples to try plans on.

    Args:
        samples: all that calibrated.
        trial: some of them, and what the model in float makes of those.
        ranges: other ranges that values may get where these are quieter; None where a method was ordered.
        means: times that are known, results of earlier runs, and when it has to end.
    """

    REPAIRS: ClassVar[str] = "repairs"  # what a deadline calls them

    target: Target
    model: ir.Model
    samples: SampleSet
    trial: Trial
    ranges: ValueRanges | None
    stages: Stages
    means: Means = field(default_factory=Means)

    @cached_property
    def few(self) -> Trial:
        """The samples that each group is run on."""
        return telling(self.model, self.trial)

    def repaired(self, plans: Sequence[Plan], seed: int) -> list[Plan]:
        """The plans with weights rounded by what they meet, where that lowers the noise."""
        if self.means.deadline.leaves_out(self.REPAIRS):
            return list(plans)
        with self.stages("repair"):
            return [repair_weights(self.model, plan, self.samples, self.few, seed) for plan in plans]

    def sensed(self, plans: Sequence[Plan]) -> Sensed:
        """What each group of the plans costs and gains; of the plans with ranges that were found better, if any."""
        found = sense_plans(self.target, self.model, plans, self.trial, self.stages, self.means)
        if self.ranges is None or self.means.deadline.leaves_out(self.REPAIRS):
            return found
        others = next_telling(self.model, self.trial)
        return choose_ranges(self.target, self.model, found, self.ranges, self.few, others, self.stages)

    def front(self, sensed: Sensed, levels: Sequence[float | None] = LEVELS) -> tuple[Point, ...]:
        """The choices between all in float and the plans."""
        return pareto_front(
            self.target, self.model, sensed, self.trial, self.stages, levels, deadline=self.means.deadline
        )

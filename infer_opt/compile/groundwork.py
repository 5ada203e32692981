"""What plans stand on: the regions of a model, what samples show of its values, and channels that fit integers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from infer_opt.calibrate.exploring import Explorer
from infer_opt.calibrate.planner import ValueRanges, lowered_plans
from infer_opt.calibrate.repairs import equalised
from infer_opt.calibrate.sensing import telling
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.statistics import collect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt import ir
    from infer_opt.calibrate.plan import Plan, Region, Repair
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sample_set import SampleSet
    from infer_opt.calibrate.sensing import Means
    from infer_opt.calibrate.sketch import Sketch
    from infer_opt.calibrate.statistics import Onlooker, Statistics
    from infer_opt.calibrate.target import Target
    from infer_opt.compile.request import Order, Request

__all__ = ["Groundwork"]


@dataclass
class Groundwork:
    """A model on its way from its regions to plans that lower all they may.

    Attributes:
        model: as it is planned for; `equalise` may replace it by one that computes the same.
        regions: of the model.
        samples: those that calibrate.
        sketches: statistics of the values that plans ask for, in the model as it is.
        found: all that the one run over the samples showed.
    """

    request: Request
    order: Order
    target: Target
    model: ir.Model
    regions: Sequence[Region]
    samples: SampleSet
    stages: Stages
    means: Means
    found: Statistics = field(init=False)
    sketches: Mapping[str, Sketch] = field(init=False)
    repairs: tuple[Repair, ...] = ()

    def calibrate(self, wanted: Sequence[str], onlooker: Onlooker | None = None) -> None:
        """Run the model once over all samples; comes first.

        Args:
            wanted: values to watch.
        """
        with self.stages("calibrate", len(self.samples)) as advance:
            self.found = collect(
                self.model,
                list(dict.fromkeys(wanted)),
                self.samples,
                threads=self.request.planning_threads,
                seed=self.request.seed,
                advance=advance,
                onlooker=onlooker,
            )
        self.sketches = self.found.sketches

    @cached_property
    def trial(self) -> Trial:
        """Samples to try plans on, with one for each branch of an If; equalising changes none of their outputs."""
        return Trial.of_samples(
            self.model, self.samples, self.request.planning_threads, self.found.first_samples.values()
        )

    def equalise(self) -> None:
        """Move factors of channels between layers, where that lowers the noise of their INT8."""
        if self.means.deadline.leaves_out(Explorer.REPAIRS):
            return
        with self.stages("repair"):
            few = telling(self.model, self.trial)
            done = equalised(
                self.target, self.model, self.sketches, self.samples, few, self._lowered, self.request.seed
            )
        if done.repair is not None:
            self.model, self.sketches, self.repairs = done.model, done.sketches, (done.repair,)
            self.regions = self.target.regions(done.model)

    def lowered(self) -> list[Plan]:
        """The plans that lower all they may, each its own way; of an order, what is not expected to gain too."""
        first, *others = self._lowered(self.model, self.sketches)
        return [replace(first, repairs=self.repairs), *others]

    def _lowered(self, model: ir.Model, sketches: Mapping[str, Sketch]) -> list[Plan]:
        return lowered_plans(
            model,
            self.regions if model is self.model else self.target.regions(model),
            sketches,
            self.order.quantize.ranges,
            self.found.never_taken,
            ordered=self.order.int8,
        )

    def explorer(self) -> Explorer:
        """To try the plans with."""
        ranges = None
        if self.order.quantize.searches_ranges:
            ranges = ValueRanges.of(self.model, self.regions, self.sketches, self.order.quantize.ranges)
        return Explorer(self.target, self.model, self.samples, self.trial, ranges, self.stages, self.means)

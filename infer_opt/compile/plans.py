"""The candidates of one compile: what is planned for the optimised graph, and why something is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from infer_opt.calibrate.audit import Auditor
from infer_opt.calibrate.feeding import input_specs
from infer_opt.calibrate.half import half_values, half_verdicts, with_half
from infer_opt.calibrate.lifting import Lifting, lifted
from infer_opt.calibrate.metrics import METRICS
from infer_opt.calibrate.mixing import mixed_levels, mixed_plans
from infer_opt.calibrate.plan import DYNAMIC, INT8
from infer_opt.calibrate.planner import float_plan, watched_values
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.value_ranges import value_ranges
from infer_opt.compile.groundwork import Groundwork
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt import ir
    from infer_opt.calibrate.exploring import Explorer
    from infer_opt.calibrate.feeding import Feeding
    from infer_opt.calibrate.findings import Audit
    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.original import Original
    from infer_opt.calibrate.plan import Choice, Plan, Region
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sensing import Means, Sensed
    from infer_opt.calibrate.statistics import Statistics
    from infer_opt.calibrate.target import Target
    from infer_opt.calibrate.value_ranges import ValueRange
    from infer_opt.compile.request import Order, Request

__all__ = ["Host", "Planned", "plans"]


@dataclass(frozen=True)
class Planned:
    """What is to be built.

    Args:
        model: that the plans are of: the optimised one, or one that computes the same and suits INT8 better.
        plans: the candidates in the order that decides ties.
        searched: more, the fastest first by the prediction; they are built until enough are right.
        notes: what a user should know of those that are missing, and of the samples.
        audit: of the calibration samples, where there was a calibration on real ones.
        integers: the plan with all in INT8 that is legal, or None where INT8 was not tried.
        ranges: of the values that it quantizes.
        sensed: what each of its groups costs, or None where nothing was chosen by it.
        front: the choices between, of error and latency.
    """

    model: ir.Model
    plans: Sequence[Plan]
    searched: Sequence[Plan] = ()
    notes: Sequence[str] = ()
    audit: Audit | None = None
    integers: Plan | None = None
    ranges: tuple[ValueRange, ...] = ()
    sensed: Sensed | None = None
    front: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Host:
    """What planning has at hand here.

    Args:
        original: run on this host, or why it is not.
        means: times that are known, results of earlier runs, and when it has to end.
    """

    samples: Feeding
    original: Original
    stages: Stages
    means: Means


def plans(asked: tuple[Request, Order], target: Target, model: ir.Model, host: Host) -> Planned:
    """The candidates, and what was learnt while they were planned."""
    (request, order), stages = asked, host.stages
    with stages("plan"):
        regions = target.regions(model)
    _check_order(request, order, regions)
    planning = _Planning(request, order, target, model, host, regions)
    int8 = planning.tries_int8()
    ground = planning.calibrate(int8=int8)
    planned = planning.in_float(ground, int8=int8)
    return planning.in_integers(planned, ground) if int8 and ground is not None else planned


@dataclass
class _Planning:
    """One compile on its way from regions to candidates."""

    request: Request
    order: Order
    target: Target
    model: ir.Model
    host: Host
    regions: Sequence[Region]
    notes: list[str] = field(default_factory=list)
    audit: Audit | None = None
    verdicts: Mapping[str, Choice] = field(default_factory=dict)

    @property
    def half(self) -> bool:
        """Whether whatever stays float is FP16 where the device has it."""
        return self.order.half and any("fp16" in region.precisions for region in self.regions)

    @property
    def runs(self) -> bool:
        """Whether the original runs here."""
        return self.host.original.runner is not None

    def tries_int8(self) -> bool:
        """Whether INT8 is planned; where it is not, a user should know why."""
        offered = any(set(region.precisions) & {INT8, DYNAMIC} for region in self.regions)
        if not self.order.tries_int8 or not offered:
            return False
        if self.host.samples.calibration is None:
            self.notes.append("INT8 was not tried: it needs samples (--calib)")
            return False
        if not self.runs and not self.order.int8:
            self.notes.append("INT8 was not tried: unverified, nothing tells whether it is right enough")
            return False
        return True

    def calibrate(self, *, int8: bool) -> Groundwork | None:
        """Statistics of the values that plans ask for, the audit of the samples, channels that fit INT8.

        None where there are no samples, or nothing asks for them.
        """
        samples = self.host.samples
        if samples.calibration is None or not (int8 or (self.half and not samples.is_random)):
            return None
        wanted = watched_values(self.model, self.regions) if int8 else []
        wanted += half_values(self.model, self.regions) if self.half else []
        auditor = None if samples.is_random else Auditor(samples, input_specs(self.model), self.request.seed)
        stages, means = self.host.stages, replace(self.host.means, finished=self._finished)
        ground = Groundwork(
            self.request, self.order, self.target, self.model, self.regions, samples.calibration, stages, means
        )
        ground.calibrate(wanted, auditor)
        self.audit = None if auditor is None else auditor.audit
        self._note_samples(ground.found)
        if int8 and self.runs:
            ground.equalise()
            self.model, self.regions = ground.model, ground.regions
        return ground

    def _note_samples(self, found: Statistics) -> None:
        self.notes += [f"NaN or Inf that reaches no output: {sample}" for sample in found.dirty_samples]
        self.notes += [] if self.audit is None else self.audit.warnings()
        offered = {region.scope for region in self.regions if INT8 in region.precisions}
        self.notes += [
            f"no calibration sample takes `{branch}`: what stands in it was not quantized"
            for branch in found.never_taken
            if branch in offered
        ]

    def in_float(self, ground: Groundwork | None, *, int8: bool) -> Planned:
        """The model as it is, and in FP16 where the device has it."""
        unchanged = float_plan(self.regions)
        if self.half:
            with self.host.stages("plan"):
                sketches = None if ground is None else ground.sketches
                self.verdicts = half_verdicts(self.model, self.regions, sketches)
        typed = self._finished(unchanged)
        if self.half and not typed.half and not int8:
            self.notes.append(f"nothing became FP16: {_commonest_reason(typed)}")
        named = [typed] if self.order.named else [unchanged, *([typed] if typed.half else [])]
        return Planned(self.model, named, notes=self.notes, audit=self.audit)

    def _finished(self, plan: Plan) -> Plan:
        """With all that stays float in FP16, where that is so."""
        return with_half(plan, self.verdicts) if self.half else plan

    def in_integers(self, planned: Planned, ground: Groundwork) -> Planned:
        """The candidates in INT8 beside those in float; of an order, the one that is ordered."""
        with self.host.stages("plan"):
            lowered = ground.lowered()
        if not self.runs:
            return replace(planned, plans=[self._finished(lowered[0])])
        if not self.order.int8 and not any(plan.lowered() for plan in lowered):
            self.notes.append(f"INT8 was not tried: {_commonest_reason(lowered[0])}")
            return planned
        explorer = ground.explorer()
        lowered = explorer.repaired(lowered, self.request.seed)
        known = replace(planned, integers=lowered[0], ranges=value_ranges(lowered[0], ground.sketches))
        if self.order.int8:
            return self._ordered(known, explorer)
        return self._mixed(known, explorer, lowered)

    def _ordered(self, known: Planned, explorer: Explorer) -> Planned:
        """All of it in INT8, but for what makes an output collapse."""
        samples = self.host.samples
        proof = Trial.of_samples(self.model, samples.held_out or explorer.samples, self.request.planning_threads)
        assert known.integers is not None  # noqa: S101 - set by `in_integers`
        lifting = Lifting(self.request.budget, METRICS[self.request.metric], self._finished, proof)
        kept, lifts = lifted(explorer, known.integers, lifting)
        self.notes += lifts
        return replace(known, plans=[self._finished(kept)])

    def _mixed(self, known: Planned, explorer: Explorer, lowered: Sequence[Plan]) -> Planned:
        """All of it each way, and the choices in between."""
        sensed = explorer.sensed(lowered)
        front = explorer.front(sensed, mixed_levels(self.request.budget))
        return replace(
            known,
            plans=[*known.plans, *map(self._finished, sensed.plans.values())],
            searched=[self._finished(plan) for plan in mixed_plans(sensed, front, self.request.budget)],
            sensed=sensed,
            front=front,
        )


def _commonest_reason(plan: Plan) -> str:
    """Why most of a plan's regions are what they are."""
    return Counter(choice.reason for choice in plan.choices.values()).most_common(1)[0][0]


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

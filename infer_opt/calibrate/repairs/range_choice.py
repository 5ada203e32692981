"""The range method of each value, chosen by the noise measured at the outputs.

Which method is best depends on what the network does with large values, which no statistic of the value tells: where a
saturating function follows, clipping costs nothing; where an outlier carries a box, it costs everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from infer_opt.calibrate.plan import Repair
from infer_opt.calibrate.planner import with_method
from infer_opt.calibrate.ranges import Entropy, MeanSquaredError, MinMax, Percentile
from infer_opt.calibrate.repairs.total_noise import TotalNoise
from infer_opt.calibrate.sensitivity import Noise, measure

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from infer_opt import ir
    from infer_opt.calibrate.grouping import Group
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.planner import ValueRanges
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.quantization import Quantization
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.sensitivity import Trial
    from infer_opt.calibrate.target import Target

__all__ = ["choose_ranges"]

_METHODS = (MinMax(), Percentile(99.99), Percentile(99.9), Entropy(), MeanSquaredError())
_MOST_GROUPS = 16  # the noisiest: most of the noise comes from a few
_LEAST_SHARE = 1e-4  # noise by signal: a group that alone keeps 40 dB cannot matter
_GAIN = 0.9  # of the noise: what falls by less may be chance


def choose_ranges(
    target: Target,
    model: ir.Model,
    sensed: Sensed,
    ranges: ValueRanges,
    trial: Trial,
    stages: Stages,
) -> Sensed:
    """Try other range methods on the noisiest groups, one after the other, and keep what lowers the noise.

    A value has one quantization and may belong to several groups: a change is kept where the noise of all groups that
    it touches, each alone in INT8, falls together. The sensitivities are then those measured with it.

    Args:
        ranges: of the plan's values.
    """
    noises = {noise.group: noise for noise in sensed.sensitivity.noises}
    search = _Search(target, model, ranges, trial, sensed.sensitivity.signals, sensed.plan, dict(noises))
    noisiest = search.noisiest()
    with stages("repair", len(noisiest)) as advance:
        for group in noisiest:
            search.improve(group)
            advance()
    if not search.changed:
        return sensed
    before, after = (
        search.total([each[group] for group in each if group in search.changed]) for each in (noises, search.noises)
    )
    repair = Repair(
        "method of ranges",
        tuple(group.name for group in search.changed),
        before.least_db,
        after.least_db,
        f"sum of these groups, each alone in INT8, on {len(trial.feeds)} calibration samples",
    )
    plan = replace(search.plan, repairs=(*search.plan.repairs, repair))
    return replace(sensed, plan=plan, sensitivity=replace(sensed.sensitivity, noises=tuple(search.noises.values())))


@dataclass
class _Search:
    """The best plan so far, and the noise of each of its groups alone."""

    target: Target
    model: ir.Model
    ranges: ValueRanges
    trial: Trial
    signals: Mapping[str, float]
    plan: Plan
    noises: dict[Group, Noise]
    changed: list[Group] = field(default_factory=list)

    def total(self, noises: Collection[Noise]) -> TotalNoise:
        """Of several groups; powers add."""
        return TotalNoise.of(self.signals, {part: sum(each.powers[part] for each in noises) for part in self.signals})

    def noisiest(self) -> list[Group]:
        """The groups whose ranges are worth a look, the noisiest first."""
        shares = {group: self.total([noise]).share for group, noise in self.noises.items()}
        ranked = sorted(shares, key=lambda group: -shares[group])
        return [group for group in ranked if shares[group] > _LEAST_SHARE][:_MOST_GROUPS]

    def improve(self, group: Group) -> None:
        """Keep the best of all methods for the values of a group, if it is better for all that it touches."""
        own = [scheme for region, scheme in self.plan.lowered() if region.name in group.regions]
        values = [value for scheme in own for value in scheme.values]
        tried = {_ranges(self.plan, values)}
        best, least = None, self.noises[group]
        for method in _METHODS:
            plan = with_method(self.model, self.plan, self.ranges, values, method)
            if _ranges(plan, values) in tried:
                continue
            tried.add(_ranges(plan, values))
            (noise,) = self._measured(plan, [group])
            if self.total([noise]).share < _GAIN * self.total([least]).share:
                best, least = plan, noise
        if best is not None:
            self._keep(best, group, least)

    def _keep(self, plan: Plan, group: Group, noise: Noise) -> None:
        """Take a plan over, unless other groups lose by it more than this one gains."""
        moved = {value for value, found in plan.activations.items() if found != self.plan.activations[value]}
        touching = {region.name for region, scheme in plan.lowered() if moved.intersection(scheme.values)}
        others = [each for each in self.noises if each != group and touching.intersection(each.regions)]
        after = {each.group: each for each in (noise, *self._measured(plan, others))}
        before = [self.noises[each] for each in after]
        if self.total(list(after.values())).share < _GAIN * self.total(before).share:
            self.plan = plan
            self.noises.update(after)
            self.changed.append(group)

    def _measured(self, plan: Plan, groups: Sequence[Group]) -> tuple[Noise, ...]:
        return measure(
            self.trial, groups, lambda group: self.target.rehearse(self.model, plan.only(group.regions))
        ).noises


def _ranges(plan: Plan, values: Sequence[str]) -> tuple[Quantization, ...]:
    return tuple(plan.activations[value] for value in values)

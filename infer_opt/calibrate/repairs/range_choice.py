"""The range method of each value, chosen by the noise measured at the outputs.

Which method is best depends on what the network does with large values, which no statistic of the value tells: where a
saturating function follows, clipping costs nothing; where an outlier carries a box, it costs everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from infer_opt.calibrate.plan import INT8, Repair
from infer_opt.calibrate.planner import with_method
from infer_opt.calibrate.ranges import Entropy, MeanSquaredError, MinMax, Percentile
from infer_opt.calibrate.repairs.total_noise import TotalNoise
from infer_opt.calibrate.sensitivity import Noise, measure

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from infer_opt import ir
    from infer_opt.calibrate.grouping import Alternative
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.planner import ValueRanges
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.quantization import Quantization
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.sensitivity import Trial
    from infer_opt.calibrate.target import Target

__all__ = ["choose_ranges"]

_METHODS = (MinMax(), Percentile(99.99), Percentile(99.9), Entropy(), MeanSquaredError())
_MOST_GROUPS = 10  # the noisiest: most of the noise comes from a few
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
    if INT8 not in sensed.plans:
        return sensed
    noises = {noise.alternative: noise for noise in sensed.sensitivity.noises}
    search = _Search(target, model, ranges, trial, sensed.sensitivity.signals, sensed.plans[INT8], dict(noises))
    noisiest = search.noisiest()
    with stages("repair", len(noisiest)) as advance:
        for way in noisiest:
            search.improve(way)
            advance()
    if not search.changed:
        return sensed
    before, after = (search.total([each[way] for way in search.changed]) for each in (noises, search.noises))
    repair = Repair(
        "method of ranges",
        tuple(way.group.name for way in search.changed),
        before.least_db,
        after.least_db,
        f"sum of these groups, each alone in INT8, on {len(trial.feeds)} calibration samples",
    )
    plan = replace(search.plan, repairs=(*search.plan.repairs, repair))
    sensitivity = replace(sensed.sensitivity, noises=tuple(search.noises.values()))
    return replace(sensed, plans={**sensed.plans, INT8: plan}, sensitivity=sensitivity)


@dataclass
class _Search:
    """The best plan so far, and the noise of each of its groups alone."""

    target: Target
    model: ir.Model
    ranges: ValueRanges
    trial: Trial
    signals: Mapping[str, float]
    plan: Plan
    noises: dict[Alternative, Noise]
    changed: list[Alternative] = field(default_factory=list)

    def total(self, noises: Collection[Noise]) -> TotalNoise:
        """Of several groups; powers add."""
        return TotalNoise.of(self.signals, {part: sum(each.powers[part] for each in noises) for part in self.signals})

    def noisiest(self) -> list[Alternative]:
        """The groups whose ranges are worth a look, the noisiest first."""
        shares = {way: self.total([noise]).share for way, noise in self.noises.items() if way.plan == INT8}
        ranked = sorted(shares, key=lambda way: -shares[way])
        return [way for way in ranked if shares[way] > _LEAST_SHARE][:_MOST_GROUPS]

    def improve(self, way: Alternative) -> None:
        """Keep the best of all methods for the values of a group, if it is better for all that it touches."""
        own = [scheme for region, scheme, _ in self.plan.quantized() if region.name in way.regions]
        values = [value for scheme in own for value in scheme.values]
        tried = {_ranges(self.plan, values)}
        best, least = None, self.noises[way]
        for method in _METHODS:
            plan = with_method(self.model, self.plan, self.ranges, values, method)
            if _ranges(plan, values) in tried:
                continue
            tried.add(_ranges(plan, values))
            (noise,) = self._measured(plan, [way])
            if self.total([noise]).share < _GAIN * self.total([least]).share:
                best, least = plan, noise
        if best is not None:
            self._keep(best, way, least)

    def _keep(self, plan: Plan, way: Alternative, noise: Noise) -> None:
        """Take a plan over, unless other groups lose by it more than this one gains."""
        moved = {value for value, found in plan.activations.items() if found != self.plan.activations[value]}
        touching = {region.name for region, scheme, _ in plan.quantized() if moved.intersection(scheme.values)}
        others = [
            each for each in self.noises if each.plan == INT8 and each != way and touching.intersection(each.regions)
        ]
        after = {each.alternative: each for each in (noise, *self._measured(plan, others))}
        before = [self.noises[each] for each in after]
        if self.total(list(after.values())).share < _GAIN * self.total(before).share:
            self.plan = plan
            self.noises.update(after)
            self.changed.append(way)

    def _measured(self, plan: Plan, ways: Sequence[Alternative]) -> tuple[Noise, ...]:
        def alone(way: Alternative) -> ir.Model:
            return self.target.rehearse(self.model, plan.only(way.regions))

        return measure(self.trial, ways, alone).noises


def _ranges(plan: Plan, values: Sequence[str]) -> tuple[Quantization, ...]:
    return tuple(plan.activations[value] for value in values)

"""The range method of each value, chosen by the noise measured at the outputs.

Which method is best depends on what the network does with large values, which no statistic of the value tells: where a
saturating function follows, clipping costs nothing; where an outlier carries a box, it costs everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from infer_opt.calibrate.plan import INT8, Repair
from infer_opt.calibrate.planner import with_method
from infer_opt.calibrate.ranges import MeanSquaredError, MinMax, Percentile
from infer_opt.calibrate.repairs.total_noise import TotalNoise, total_noise
from infer_opt.calibrate.sensing import takes_long
from infer_opt.calibrate.sensitivity import measure
from infer_opt.calibrate.tails import Tail, Tails

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from infer_opt import ir
    from infer_opt.calibrate.grouping import Alternative
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.planner import ValueRanges
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.quantization import Quantization
    from infer_opt.calibrate.ranges import RangeMethod
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.sensitivity import Noise, Trial
    from infer_opt.calibrate.target import Target

__all__ = ["choose_ranges"]

# Entropy was best in 8 of 212 groups of four models, and takes as long as any (measured).
_METHODS = (MinMax(), MeanSquaredError(), Percentile(99.99), Percentile(99.9))
_MOST_GROUPS = 32  # the noisiest
_MOST_OF_LONG = 16  # of a model whose runs are long
_FIRST = 6  # of them, which are worth all methods; of the others, the two that differ most are tried
_LEAST_SHARE = 1e-4  # noise by signal: a group that alone keeps 40 dB cannot matter
_MOST_SHARE = 0.95  # one that loses all, such as a Concat of boxes and scores, is not mended by a range
_GAIN = 0.9  # of the noise: what falls by less may be chance
_PLAIN = 0.25  # of the noise: what falls below this needs no proof


def choose_ranges(
    target: Target,
    model: ir.Model,
    sensed: Sensed,
    ranges: ValueRanges,
    trial: Trial,
    others: Trial,
    stages: Stages,
) -> Sensed:
    """Try other range methods on the noisiest groups, one after the other, and keep what lowers the noise.

    A value has one quantization and may belong to several groups: a change is kept where the noise of all groups that
    it touches, each alone in INT8, falls together. The sensitivities are then those measured with it.

    Args:
        ranges: of the plan's values.
        trial: the samples on which `sensed` was measured.
        others: more samples, on which a method has to prove itself too: the least of several noises is smaller than
            what it stands for.
    """
    if INT8 not in sensed.plans:
        return sensed
    noises = {noise.alternative: noise for noise in sensed.sensitivity.noises}
    plan = sensed.plans[INT8]
    tails = Tails(model, trial, plan.regions)
    search = _Search(target, model, ranges, Tail(model, others), tails, sensed.sensitivity.signals, plan, dict(noises))
    noisiest = search.noisiest(_MOST_OF_LONG if takes_long(model, trial) else _MOST_GROUPS)
    with stages("repair", len(noisiest)) as advance:
        for place, way in enumerate(noisiest):
            search.improve(way, _METHODS if place < _FIRST else _METHODS[:2])
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
    others: Tail
    tails: Tails
    signals: Mapping[str, float]
    plan: Plan
    noises: dict[Alternative, Noise]
    changed: list[Alternative] = field(default_factory=list)

    def total(self, noises: Collection[Noise]) -> TotalNoise:
        """Of several groups; powers add."""
        return TotalNoise.of(self.signals, {part: sum(each.powers[part] for each in noises) for part in self.signals})

    def noisiest(self, most: int) -> list[Alternative]:
        """The groups whose ranges are worth a look, the noisiest first."""
        shares = {way: self.total([noise]).share for way, noise in self.noises.items() if way.plan == INT8}
        ranked = sorted(shares, key=lambda way: -shares[way])
        return [way for way in ranked if _LEAST_SHARE < shares[way] < _MOST_SHARE][:most]

    def improve(self, way: Alternative, methods: Sequence[RangeMethod]) -> None:
        """Keep the best of some methods for the values of a group, if it is better for all that it touches."""
        own = [scheme for region, scheme, _ in self.plan.quantized() if region.name in way.regions]
        values = [value for scheme in own for value in scheme.values]
        tried = {_ranges(self.plan, values)}
        before = least = self.total([self.noises[way]]).share
        best: tuple[Plan, Noise] | None = None
        for method in methods:
            plan = with_method(self.model, self.plan, self.ranges, values, method)
            if _ranges(plan, values) in tried:
                continue
            tried.add(_ranges(plan, values))
            [noise] = self._measured([way], plan)
            share = self.total([noise]).share
            if share < _GAIN * least:
                best, least = (plan, noise), share
        if best is not None and (least < _PLAIN * before or self._proves(best[0], way, before - least)):
            self._keep(*best)

    def _proves(self, plan: Plan, way: Alternative, gain: float) -> bool:
        """Whether the other samples do not lose more than those gain on which the plan was found."""
        return self._other_share(plan, way) < self._other_share(self.plan, way) + _GAIN * gain

    def _keep(self, plan: Plan, noise: Noise) -> None:
        """Take a plan over, unless other groups lose by it more than the one gains whose noise with it this is."""
        moved = {value for value, found in plan.activations.items() if found != self.plan.activations[value]}
        touching = {region.name for region, scheme, _ in plan.quantized() if moved.intersection(scheme.values)}
        touched = [each for each in self.noises if each.plan == INT8 and touching.intersection(each.regions)]
        others = [each for each in touched if each != noise.alternative]
        after = {each.alternative: each for each in (noise, *self._measured(others, plan))}
        before = [self.noises[each] for each in after]
        if self.total(list(after.values())).share < _GAIN * self.total(before).share:
            self.plan = plan
            self.noises.update(after)
            self.changed.append(noise.alternative)

    def _measured(self, ways: Sequence[Alternative], plan: Plan) -> tuple[Noise, ...]:
        """Of groups alone."""
        return measure(self.tails, ways, self._alone(plan)).noises

    def _other_share(self, plan: Plan, way: Alternative) -> float:
        """Noise of a group alone on the other samples, by the signal."""
        return total_noise(self.others.trial.last_errors(self._alone(plan)(self.others.model, way))).share

    def _alone(self, plan: Plan) -> Callable[[ir.Model, Alternative], ir.Model]:
        return lambda part, way: self.target.rehearse(part, plan.only(way.regions))


def _ranges(plan: Plan, values: Sequence[str]) -> tuple[Quantization, ...]:
    return tuple(plan.activations[value] for value in values)

"""Mixed plans: for a few errors, the fastest choice of groups that keeps them by the prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infer_opt.calibrate.explaining import price
from infer_opt.calibrate.plan import Choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.budget import Budget
    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.grouping import Group
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.sensing import Sensed

__all__ = ["mixed_levels", "mixed_plans"]

_LEVELS = (
    20.0,
    32.0,
)  # dB that every part keeps, where no limit is stated: what scores need, and what other numbers do
_SPARE_DB = 2.0  # above a stated limit: what the prediction may be off


def mixed_levels(budget: Budget) -> tuple[float, ...]:
    """The errors, in dB, that mixed plans are to keep; where no limit is stated on them, what outputs tend to need."""
    stated = budget.min_sqnr
    return _LEVELS if stated is None else (stated + _SPARE_DB, stated + 3 * _SPARE_DB)


def mixed_plans(sensed: Sensed, front: Sequence[Point], budget: Budget) -> list[Plan]:
    """Plans between all in float and all that may be lowered, each once: of each level the fastest that keeps it.

    Args:
        front: made with `mixed_levels` among its levels.
        budget: what the user stated; its SQNR is the error that a plan has to keep.
    """
    every = {noise.group for noise in sensed.sensitivity.noises}
    found: dict[tuple[Group, ...], Plan] = {}
    for level in mixed_levels(budget):
        point = max((point for point in front if point.weakest >= level), key=lambda point: point.gain, default=None)
        if point is not None and set(point.lowered) not in (set(), every) and point.lowered not in found:
            found[point.lowered] = _mixed(sensed, point.lowered, f"mixed-{level:g}db")
    return list(found.values())


def _mixed(sensed: Sensed, chosen: Sequence[Group], name: str) -> Plan:
    """The plan with only these groups lowered, and in words what the others would have cost and gained."""
    lowered = {region for group in chosen for region in group.regions}
    reasons = {
        region: Choice("fp32", price(sensed, noise.group))
        for noise in sensed.sensitivity.noises
        for region in noise.group.regions
    }
    plan = sensed.plan.only(lowered)
    choices = {
        region: reasons.get(region, sensed.plan.choices[region]) if region not in lowered else choice
        for region, choice in plan.choices.items()
    }
    return replace(plan, name=name, choices=choices)

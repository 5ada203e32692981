"""Mixed plans: for a few errors, the fastest choice of groups that keeps them by the prediction."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from infer_opt.calibrate.explaining import price
from infer_opt.calibrate.front import LEVELS
from infer_opt.calibrate.plan import Choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.budget import Budget
    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.grouping import Group
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.sensing import Sensed

__all__ = ["mixed_levels", "mixed_plans"]

_SPARE_DB = 2.0  # above a stated limit: what held-out samples may cost more than those that a choice was rehearsed on


def mixed_levels(budget: Budget) -> tuple[float | None, ...]:
    """The errors in dB that choices are made for: some spare above a stated limit, and what outputs tend to need."""
    return LEVELS if budget.min_sqnr is None else (*LEVELS, budget.min_sqnr + _SPARE_DB)


def mixed_plans(sensed: Sensed, front: Sequence[Point], budget: Budget) -> list[Plan]:
    """Plans between all in float and all that may be lowered, the fastest first: of the front, what keeps the limit.

    Args:
        front: made for `mixed_levels`.
        budget: what the user stated; its SQNR is the error that a plan has to keep.
    """
    every = {noise.group for noise in sensed.sensitivity.noises}
    least = -math.inf if budget.min_sqnr is None else budget.min_sqnr
    return [
        _mixed(sensed, point.lowered, point.name)
        for point in reversed(front)
        if point.weakest >= least and set(point.lowered) not in (set(), every)
    ]


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

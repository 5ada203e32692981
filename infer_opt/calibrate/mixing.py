"""Mixed plans: of the front, the fastest choices of what to lower, and how, that keep an error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from infer_opt.calibrate.explaining import price
from infer_opt.calibrate.front import LEVELS
from infer_opt.calibrate.plan import combined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.budget import Budget
    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.grouping import Alternative
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.sensing import Sensed

__all__ = ["mixed_levels", "mixed_plans"]

_SPARE_DB = 2.0  # above a stated limit: what held-out samples may cost more than those that a choice was rehearsed on


def mixed_levels(budget: Budget) -> tuple[float | None, ...]:
    """The errors in dB that choices are made for: some spare above a stated limit, and what outputs tend to need."""
    return LEVELS if budget.min_sqnr is None else (*LEVELS, budget.min_sqnr + _SPARE_DB)


def mixed_plans(sensed: Sensed, front: Sequence[Point], budget: Budget) -> list[Plan]:
    """Plans between all in float and all that may be lowered one way, the fastest first: what keeps the limit.

    Args:
        front: made for `mixed_levels`.
        budget: what the user stated; its SQNR is the error that a plan has to keep.
    """
    pure = {tuple(way for way in sensed.alternatives if way.plan == name) for name in sensed.plans}
    least = -math.inf if budget.min_sqnr is None else budget.min_sqnr
    return [
        _mixed(sensed, point.lowered, point.name)
        for point in reversed(front)
        if point.weakest >= least and point.lowered not in {(), *pure}
    ]


def _mixed(sensed: Sensed, chosen: Sequence[Alternative], name: str) -> Plan:
    """The plan of these alternatives, and in words what the others would have cost and gained."""
    lowered = {region: sensed.plans[way.plan] for way in chosen for region in way.regions}
    reasons = {region: price(sensed, way.group) for way in sensed.alternatives for region in way.group.regions}
    return combined(name, list(sensed.plans.values()), lowered, reasons)

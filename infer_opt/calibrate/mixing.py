"""Mixed plans: for a few errors, the fastest choice of groups that keeps them by the prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.metrics import sqnr_db
from infer_opt.calibrate.plan import Choice
from infer_opt.calibrate.selection import Boundary, select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.budget import Budget
    from infer_opt.calibrate.grouping import Group
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.sensing import Sensed

__all__ = ["mixed_plans"]

# dB that every part keeps, from what only scores bear to what nobody sees; None is no limit.
_LEVELS = (None, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0, 36.0, 40.0, 46.0, 52.0, 58.0, 64.0)
_SPARE_DB = 2.0  # above a stated limit: what the prediction may be off
# An element: 0.2 ns to quantize or turn back, as much to change the layout that integer kernels want, and the copy
# between (measured on AVX-512; sums of kernels then predict the whole of YOLOv8n's plans to 6 %).
_BOUNDARY_SECONDS = 8e-10


def mixed_plans(model: ir.Model, sensed: Sensed, budget: Budget) -> list[Plan]:
    """Plans between all in float and all that may be lowered, each once, the fastest first.

    Args:
        budget: what the user stated; its SQNR is the error that a plan has to keep.
    """
    stated = budget.min_sqnr
    levels = [level for level in _LEVELS if stated is None or (level is not None and level > stated)]
    if stated is not None:
        levels.insert(0, stated + _SPARE_DB)
    gains = _gains(model, sensed)
    boundaries = _boundaries(sensed)
    every = tuple(noise.group for noise in sensed.sensitivity.noises)
    found: dict[tuple[Group, ...], Plan] = {}
    for level in levels:
        chosen = select(sensed.sensitivity, gains, boundaries, level)
        if chosen not in {(), every, *found}:
            found[chosen] = _mixed(sensed, chosen, "mixed" if level is None else f"mixed-{level:g}db")
    return list(found.values())


def _gains(model: ir.Model, sensed: Sensed) -> dict[Group, float]:
    """Seconds that each group saves; where nothing was timed, the weights that it makes smaller stand for them."""
    constants = ir.initializers(model)
    held = {
        name: sum(ir.elements(constants[site.value]) or 0 for site in scheme.weights)
        for name, scheme in ((region.name, scheme) for region, scheme in sensed.plan.lowered())
    }
    gains: dict[Group, float] = {}
    for noise in sensed.sensitivity.noises:
        times = sensed.seconds(noise.group)
        smaller = 1e-12 * (1 + sum(held[name] for name in noise.group.regions))
        gains[noise.group] = smaller if times is None else times[0] - times[1]
    return gains


def _boundaries(sensed: Sensed) -> list[Boundary]:
    """None where nothing was timed: sizes of weights cannot be weighed against them."""
    if sensed.times is None:
        return []
    group_of = {name: noise.group for noise in sensed.sensitivity.noises for name in noise.group.regions}
    makers = {value: group_of[region.name] for region, scheme in sensed.plan.lowered() for value in scheme.writes}
    return [
        Boundary(makers[value], group_of[region.name], _BOUNDARY_SECONDS * sensed.sizes.get(value, 0))
        for region, scheme in sensed.plan.lowered()
        for value in scheme.reads
        if value in makers and makers[value] is not group_of[region.name]
    ]


def _mixed(sensed: Sensed, chosen: Sequence[Group], name: str) -> Plan:
    """The plan with only these groups lowered, and in words what the others would have cost and gained."""
    lowered = {region for group in chosen for region in group.regions}
    reasons = {
        region: Choice("fp32", _why_not(sensed, noise.group))
        for noise in sensed.sensitivity.noises
        for region in noise.group.regions
    }
    plan = sensed.plan.only(lowered)
    choices = {
        region: reasons.get(region, sensed.plan.choices[region]) if region not in lowered else choice
        for region, choice in plan.choices.items()
    }
    return replace(plan, name=name, choices=choices)


def _why_not(sensed: Sensed, group: Group) -> str:
    noise = next(each for each in sensed.sensitivity.noises if each.group == group)
    signals = sensed.sensitivity.signals
    weakest = min(signals, key=lambda part: sqnr_db(signals[part], noise.powers[part]))
    error = f"INT8 alone leaves {sqnr_db(signals[weakest], noise.powers[weakest]):.1f} dB at `{weakest}`"
    times = sensed.seconds(group)
    if times is None:
        return error
    change = 1e6 * (times[0] - times[1])
    return f"{error} and {'saves' if change >= 0 else 'loses'} {abs(change):.0f} us (measured)"

"""Mixed plans: for a few errors, the fastest choice of what to lower, and how, that keeps them by the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.boundaries import boundaries
from infer_opt.calibrate.metrics import sqnr_db
from infer_opt.calibrate.plan import INT8, combined
from infer_opt.calibrate.selection import select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.budget import Budget
    from infer_opt.calibrate.grouping import Alternative, Group
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.sensitivity import Noise

__all__ = ["mixed_plans"]

# dB that every part keeps, from what only scores bear to what nobody sees; None is no limit.
_LEVELS = (None, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0, 36.0, 40.0, 46.0, 52.0, 58.0, 64.0)
_SPARE_DB = 2.0  # above a stated limit: what the prediction may be off


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
    between = boundaries(model, sensed)
    pure = {tuple(way for way in sensed.alternatives if way.plan == name) for name in sensed.plans}
    found: dict[tuple[Alternative, ...], Plan] = {}
    for level in levels:
        chosen = select(sensed.sensitivity, gains, between, level)
        if chosen not in {(), *pure, *found}:
            found[chosen] = _mixed(sensed, chosen, "mixed" if level is None else f"mixed-{level:g}db")
    return list(found.values())


def _gains(model: ir.Model, sensed: Sensed) -> dict[Alternative, float]:
    """Seconds that each saves; where nothing was timed, the weights that it makes smaller stand for them."""
    constants = ir.initializers(model)
    held = {
        (plan.name, region.name): sum(ir.elements(constants[site.value]) or 0 for site in scheme.weights)
        for plan in sensed.plans.values()
        for region, scheme in plan.lowered()
    }
    gains: dict[Alternative, float] = {}
    for way in sensed.alternatives:
        times = sensed.seconds(way)
        smaller = 1e-12 * (1 + sum(held[way.plan, name] for name in way.regions))
        gains[way] = smaller if times is None else times[0] - times[1]
    return gains


def _mixed(sensed: Sensed, chosen: Sequence[Alternative], name: str) -> Plan:
    """The plan of these alternatives, and in words what the others would have cost and gained."""
    lowered = {region: sensed.plans[way.plan] for way in chosen for region in way.regions}
    reasons = {region: _why_not(sensed, way.group) for way in sensed.alternatives for region in way.group.regions}
    plans = list(sensed.plans.values())
    return combined(name, plans, lowered, reasons)


def _why_not(sensed: Sensed, group: Group) -> str:
    return "; ".join(_cost(sensed, noise) for noise in sensed.sensitivity.noises if noise.alternative.group == group)


def _cost(sensed: Sensed, noise: Noise) -> str:
    signals = sensed.sensitivity.signals
    weakest = min(signals, key=lambda part: sqnr_db(signals[part], noise.powers[part]))
    name = noise.alternative.plan.replace(INT8, INT8.upper())
    error = f"{name} alone leaves {sqnr_db(signals[weakest], noise.powers[weakest]):.1f} dB at `{weakest}`"
    times = sensed.seconds(noise.alternative)
    if times is None:
        return error
    change = 1e6 * (times[0] - times[1])
    return f"{error} and {'saves' if change >= 0 else 'loses'} {abs(change):.0f} us (measured)"

"""Why a region stays at higher precision, in words: what INT8 would have cost at the outputs, and saved in time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infer_opt.calibrate.metrics import sqnr_db
from infer_opt.calibrate.plan import INT8, Choice

if TYPE_CHECKING:
    from infer_opt.calibrate.choice import Judged
    from infer_opt.calibrate.grouping import Group
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.sensitivity import Noise

__all__ = ["explained", "lost", "price"]


def price(sensed: Sensed, group: Group) -> str:
    """What lowering a group alone costs at the outputs and saves, each way, by the original's node it begins with."""
    return "; ".join(_cost(sensed, noise) for noise in sensed.sensitivity.noises if noise.alternative.group == group)


def _cost(sensed: Sensed, noise: Noise) -> str:
    signals, way = sensed.sensitivity.signals, noise.alternative
    weakest = min(signals, key=lambda part: sqnr_db(signals[part], noise.powers[part]))
    name = way.plan.replace(INT8, INT8.upper())
    error = f"{name} alone leaves {sqnr_db(signals[weakest], noise.powers[weakest]):.1f} dB at `{weakest}`"
    if len(way.regions) > 1:
        first = next(region for region in sensed.plans[way.plan].regions if region.name == way.regions[0])
        error += f" (`{(*first.origin, first.name)[0]}` and what follows it, {len(way.regions)} kernels)"
    times = sensed.seconds(way)
    if times is None:
        return error
    before, change = 1e6 * times[0], 1e6 * (times[0] - times[1])
    gain = f"saves {change:.0f} of {before:.0f}" if change >= 0 else f"adds {-change:.0f} to {before:.0f}"
    return f"{error} and {gain} us ({sensed.kind})"


def lost(integers: Judged, winner: Judged) -> str | None:
    """Why the candidate with all in INT8 that is legal is not the artifact, or None where that was not settled here."""
    if integers.failed is not None:
        return f"INT8 wherever it is legal does not run: {integers.failed}"
    if integers.refused is not None:
        return f"INT8 wherever it is legal was refused: {integers.refused}"
    if integers.latency is None or winner.latency is None:
        return None
    taken, best = integers.latency.p50_ms, winner.latency.p50_ms
    return f"INT8 wherever it is legal takes {taken:.3g} ms, {winner.name} {best:.3g} ms (measured, P50)"


def explained(plan: Plan, integers: Plan, why: str | None, sensed: Sensed | None) -> Plan:
    """A plan that stayed in float as a whole, with the reason of each region that INT8 was tried for.

    Args:
        integers: the plan with all in INT8 that is legal, of the optimised graph.
        why: why that plan lost, or None.
        sensed: what each of its groups costs, or None where that was not measured.
    """
    lowered = {region.name: region for region, _ in integers.lowered()}
    ways = () if sensed is None else sensed.alternatives
    groups = {name: way.group for way in ways for name in way.group.regions}
    # The original as it came has kernels of its own: they meet those of the optimised graph in the original's nodes.
    by_node = {node: region.name for region in integers.regions for node in (*region.origin, region.name)}
    choices = dict(plan.choices)
    for region in plan.regions:
        name = next((by_node[node] for node in (region.name, *region.origin) if node in by_node), None)
        if name is None:
            continue
        if name not in lowered and name not in groups:
            words = [integers.choices[name].reason]
        else:
            costs = [price(sensed, groups[name])] if sensed is not None and name in groups else []
            words = [*filter(None, [why]), *costs]
        if words:
            choices[region.name] = Choice(plan.choices[region.name].precision, "; ".join(words))
    return replace(plan, choices=choices)

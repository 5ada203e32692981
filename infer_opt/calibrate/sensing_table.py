"""What sensitivity tells as data: of each group its error alone and its times, and the front of choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infer_opt.calibrate.metrics import sqnr_db

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.sensitivity import Noise

__all__ = ["sensing_table"]


def sensing_table(sensed: Sensed, front: Sequence[Point]) -> dict[str, Any]:
    """JSON-able form, the most costly group first."""
    sensitivity = sensed.sensitivity
    regions = {region.name: region for region in sensed.plan.regions}
    together = sensitivity.sqnr([noise.group for noise in sensitivity.noises])
    weakest = min(together, key=lambda part: together[part])

    def entry(noise: Noise) -> dict[str, Any]:
        group = noise.group
        alone = {part: sqnr_db(signal, noise.powers[part]) for part, signal in sensitivity.signals.items()}
        times = sensed.seconds(group)
        return {
            "name": group.name,
            "regions": list(group.regions),
            "nodes": [name for region in group.regions for name in regions[region].origin],
            "sqnr_db": {part: round(decibels, 2) for part, decibels in alone.items()},
            "milliseconds": None if times is None else [round(1e3 * time, 5) for time in times],
        }

    kept = [region for region in sensed.plan.regions if sensed.plan.choices[region.name].precision == region.own]
    return {
        "samples": sensed.samples,
        "groups": [entry(noise) for noise in sorted(sensitivity.noises, key=lambda noise: -noise.powers[weakest])],
        "together_db": {part: round(decibels, 2) for part, decibels in together.items()},
        "front": [point.table() for point in front],
        "unmeasured": sensed.unmeasured,
        "kept": [{"name": region.name, "reason": sensed.plan.choices[region.name].reason} for region in kept],
    }

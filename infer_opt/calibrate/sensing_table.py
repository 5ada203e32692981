"""What sensitivity tells as data: of each group its error alone and its times, and the front of choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infer_opt.calibrate.metrics import sqnr_db

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.sensitivity import Noise

__all__ = ["sensing_table"]


def sensing_table(sensed: Sensed, front: Sequence[Point]) -> dict[str, Any]:
    """JSON-able form, the most costly group first."""
    sensitivity = sensed.sensitivity
    first = next(iter(sensed.plans.values()))
    regions = {region.name: region for region in first.regions}
    together = {
        name: sensitivity.sqnr([way for way in sensed.alternatives if way.plan == name])
        for name, plan in sensed.plans.items()
        if plan.lowered()
    }
    weakest = min(sensitivity.signals, key=lambda part: min(found[part] for found in together.values()), default="")

    def entry(noise: Noise) -> dict[str, Any]:
        way = noise.alternative
        alone = {part: sqnr_db(signal, noise.powers[part]) for part, signal in sensitivity.signals.items()}
        times = sensed.seconds(way)
        return {
            "name": way.group.name,
            "precision": way.plan,
            "regions": list(way.regions),
            "nodes": [name for region in way.regions for name in regions[region].origin],
            "sqnr_db": _rounded(alone),
            "milliseconds": None if times is None else [round(1e3 * time, 5) for time in times],
        }

    lowered = {name for way in sensed.alternatives for name in way.regions}
    return {
        "samples": sensed.samples,
        "groups": [entry(noise) for noise in sorted(sensitivity.noises, key=lambda noise: -noise.powers[weakest])],
        "together_db": {name: _rounded(found) for name, found in together.items()},
        "front": [point.table() for point in front],
        "times": sensed.kind,
        "unmeasured": sensed.unmeasured,
        "latency_model": None if sensed.model is None else sensed.model.basis,
        "kept": [
            {"name": region.name, "reason": first.choices[region.name].reason}
            for region in first.regions
            if region.name not in lowered
        ],
    }


def _rounded(decibels: Mapping[str, float]) -> dict[str, float]:
    return {part: round(value, 2) for part, value in decibels.items()}

"""The Pareto front of error and latency: at each of a few errors the fastest choice of what to lower, and how.

What a plan lowers is decided by noises that add (`selection`). What the plan then costs is not added up but
rehearsed: the plan is run on many calibration samples with the kernels of this host. Sums over few samples mislead, the
more so as a choice takes what looks quiet, where a part of the outputs has most of its power in few samples: of 48
images, four held 62 % of the power of YOLOv8n's scores, and a choice that a sum over eight others gave 40 dB kept 23
on images that were held out (measured).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infer_opt import ir
from infer_opt.calibrate.boundaries import Boundary, boundaries
from infer_opt.calibrate.metrics import EXACT_DB
from infer_opt.calibrate.plan import combined
from infer_opt.calibrate.selection import select

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt.calibrate.deadline import Deadline
    from infer_opt.calibrate.grouping import Alternative
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.sensitivity import Trial
    from infer_opt.calibrate.target import Target

__all__ = ["LEVELS", "Point", "pareto_front"]

# dB that every part keeps, from what nobody sees to what only scores bear; None is no limit.
LEVELS: tuple[float | None, ...] = (64.0, 58.0, 52.0, 46.0, 40.0, 36.0, 34.0, 32.0, 28.0, 24.0, 20.0, 16.0, 12.0, None)


@dataclass(frozen=True)
class Point:
    """One choice of what to lower.

    Args:
        level: SQNR in dB that it was made to keep: infinite of all in float, minus infinite without a limit.
        lowered: in the order of the graph.
        sqnr: in dB by part of the outputs, with these lowered together, on calibration samples.
        gain: seconds that it saves, modelled from kernel times; where there are none, a stand-in that only orders
            choices.
        seconds: of one run, modelled as the sum of kernel times, or None where there are none.
        speedup: of the run with all in float by this one's, modelled likewise, or None.
    """

    level: float
    lowered: tuple[Alternative, ...]
    sqnr: Mapping[str, float]
    gain: float
    seconds: float | None
    speedup: float | None

    @property
    def words(self) -> str:
        """The level for people."""
        return {math.inf: "all in float", -math.inf: "no limit"}.get(self.level, f"{self.level:g} dB")

    @property
    def name(self) -> str:
        """Of the candidate that is built of it."""
        return "mixed" if self.level == -math.inf else f"mixed-{self.level:g}db"

    def table(self) -> dict[str, Any]:
        """JSON-able form."""
        return {
            "level": self.words,
            "groups": [way.group.name for way in self.lowered],
            "sqnr_db": {part: round(value, 2) for part, value in self.sqnr.items()},
            "modelled_ms": None if self.seconds is None else round(1e3 * self.seconds, 4),
            "modelled_speedup": None if self.speedup is None else round(self.speedup, 3),
        }

    @property
    def weakest(self) -> float:
        """SQNR in dB of the part that keeps least."""
        return min(self.sqnr.values(), default=EXACT_DB)


def pareto_front(
    target: Target,
    model: ir.Model,
    sensed: Sensed,
    trial: Trial,
    stages: Stages,
    levels: Sequence[float | None] = LEVELS,
    *,
    deadline: Deadline | None = None,
) -> tuple[Point, ...]:
    """The choices that no other beats in both, error and time: from all in float on, fewer dB and less time.

    Args:
        trial: the samples to rehearse the choices on.
        levels: SQNR in dB that every part has to keep by the prediction; None is no limit.
        deadline: ends the rehearsing; choices that were not run by then are left out.
    """
    gains, between = _gains(model, sensed), boundaries(model, sensed)
    chosen: dict[tuple[Alternative, ...], float] = {(): math.inf}
    with stages("plan"):
        for level in sorted((-math.inf if level is None else level for level in levels), reverse=True):
            least = None if level == -math.inf else level
            chosen.setdefault(select(sensed.sensitivity, gains, between, least), level)
    points = []
    with stages("rehearse", len(chosen)) as advance:
        for lowered, level in chosen.items():
            if lowered and deadline is not None and deadline.leaves_out("choices between float and INT8"):
                continue
            gain = _gain(lowered, gains, between)
            points.append(_point(target, model, sensed, trial, level, lowered, gain))
            advance()
    return _undominated(points)


def _point(
    target: Target,
    model: ir.Model,
    sensed: Sensed,
    trial: Trial,
    level: float,
    lowered: tuple[Alternative, ...],
    gain: float,
) -> Point:
    of_region = {region: sensed.plans[way.plan] for way in lowered for region in way.regions}
    plan = combined("rehearsed", list(sensed.plans.values()), of_region, {})
    errors = trial.last_errors(target.rehearse(model, plan)) if lowered else []
    silent = {part for part, signal in sensed.sensitivity.signals.items() if not signal > 0.0}
    found = {error.name: error.sqnr for error in errors if error.name not in silent}
    sqnr = {part: found.get(part, EXACT_DB) for part in sensed.sensitivity.signals if part not in silent}
    in_float = sensed.total_in_float
    if in_float is None:
        return Point(level, lowered, sqnr, gain, None, None)
    return Point(level, lowered, sqnr, gain, in_float - gain, in_float / (in_float - gain))


def _undominated(points: Sequence[Point]) -> tuple[Point, ...]:
    """Slowest first; of equally fast ones the most exact."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda point: (-point.gain, -point.weakest)):
        if not kept or point.weakest > kept[-1].weakest:
            kept.append(point)
    return tuple(reversed(kept))


def _gain(lowered: Sequence[Alternative], gains: Mapping[Alternative, float], between: Sequence[Boundary]) -> float:
    return sum(gains[way] for way in lowered) - sum(each.cost(lowered) for each in between)


def _gains(model: ir.Model, sensed: Sensed) -> dict[Alternative, float]:
    """Seconds that each saves; where there are no times, the weights that it makes smaller stand for them."""
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

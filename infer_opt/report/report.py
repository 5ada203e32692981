"""report.json: what each pass did and why, what each region got, errors and latency. Schema in docs/schemas/."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from infer_opt.calibrate.plan import INT8
from infer_opt.calibrate.sensing_table import sensing_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from infer_opt.calibrate.choice import Judged
    from infer_opt.calibrate.front import Point
    from infer_opt.calibrate.metrics import OutputError
    from infer_opt.calibrate.plan import Plan, Repair
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.timing import Latency
    from infer_opt.calibrate.value_ranges import ValueRange

__all__ = [
    "LATENCIES",
    "REPORT",
    "PassReport",
    "Report",
    "error_table",
    "samples_in_words",
    "write_latencies",
    "write_report",
]

REPORT = "report.json"
LATENCIES = "latency.json"
SCHEMA = 1


@dataclass(frozen=True)
class PassReport:
    """One pass that ran.

    Args:
        changes: how often each rule fired.
        misses: rewrites that nearly fired: rule, node, reason.
        seconds: measured.
        undone: why its work was dropped, or None.
    """

    text: str
    nodes_before: int
    nodes_after: int
    seconds: float
    changes: dict[str, int]
    misses: tuple[tuple[str, str, str], ...]
    undone: str | None


@dataclass(frozen=True)
class Report:
    """Everything `compile` can tell of one target. `table()` is the content of report.json.

    Args:
        plans: of all candidates by name.
        original_latency: measured here, or None; float_modelled: where the device's is modelled, seconds with all in
            FP32.
        sensed, front: what groups of regions cost and gain, and the choices between, where that was measured.
        ranges: of the values that INT8 quantizes, or would, the widest first.
    """

    source: str
    target: str
    out: str
    pipeline: str
    chosen: str
    why: str
    plan: Plan
    passes: tuple[PassReport, ...]
    candidates: tuple[Judged, ...]
    original_latency: Latency | None
    float_modelled: float | None
    latency_note: str | None
    original_bytes: int
    artifact_bytes: int
    samples: dict[str, Any]
    checked: str
    unchecked: tuple[str, ...]
    warnings: tuple[str, ...]
    budget_faults: tuple[str, ...]
    stages: Mapping[str, float] = field(default_factory=dict)
    surgery: dict[str, str] | None = None
    plans: Mapping[str, Plan] = field(default_factory=dict)
    sensed: Sensed | None = None
    front: tuple[Point, ...] = ()
    ranges: tuple[ValueRange, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> Judged:
        """The candidate that became the artifact."""
        return next(item for item in self.candidates if item.name == self.chosen)

    @property
    def speedup(self) -> float | None:
        """Original's latency by the artifact's, or None where it was not measured."""
        latency = self.best.latency
        return None if latency is None else latency.ratio

    def table(self) -> dict[str, Any]:
        """JSON-able form."""
        return {
            "schema": SCHEMA,
            "source": self.source,
            "surgery": self.surgery,
            "target": self.target,
            "artifact": self.out,
            "pipeline": self.pipeline,
            "chosen": self.chosen,
            "why": self.why,
            "checked": self.checked,
            "unchecked": list(self.unchecked),
            "warnings": list(self.warnings),
            "budget_faults": list(self.budget_faults),
            "bytes": {"original": self.original_bytes, "artifact": self.artifact_bytes},
            "latency": self.latency(),
            "outputs": [error_table(error) for error in self.best.errors],
            "samples": self.samples,
            "candidates": [_candidate(item, self.plans.get(item.name)) for item in self.candidates],
            "passes": [asdict(item) | {"misses": [list(miss) for miss in item.misses]} for item in self.passes],
            "regions": _regions(self.plan),
            "repairs": [_repair(item) for item in self.plan.repairs],
            "sensitivity": self._sensitivity(),
            "ranges": [asdict(item) for item in self.ranges],
            "stages": {name: round(seconds, 4) for name, seconds in self.stages.items()},
            "versions": dict(self.versions),
        }

    def _sensitivity(self) -> dict[str, Any] | None:
        if self.sensed is None:
            return None
        found = sensing_table(self.sensed, self.front)
        built = {frozenset(_lowered(plan)): name for name, plan in self.plans.items()}
        for entry, point in zip(found["front"], self.front, strict=True):
            ways = point.lowered
            wanted = {
                (region, self.sensed.plans[way.plan].choices[region].precision)
                for way in ways
                for region in way.regions
            }
            entry["candidate"] = built.get(frozenset(wanted)) if wanted else None
        found["region_ms"] = _region_times(self.sensed)
        return found

    def latency(self) -> dict[str, Any]:
        """Of the original and the artifact, JSON-able, with its `kind`."""
        if self.original_latency is None or self.best.latency is None:
            return {"kind": "not measured", "note": self.latency_note} | self._modelled()
        return {
            "kind": "measured",
            "note": self.latency_note,
            "original_ms": round(self.original_latency.p50_ms, 4),
            "artifact_ms": round(self.best.latency.p50_ms, 4),
            "speedup": round(self.best.latency.ratio, 3),
            "rounds": self.best.latency.rounds,
        }

    def _modelled(self) -> dict[str, Any]:
        """Empty where nothing tells how long the device takes."""
        before, after = self.float_modelled, self.best.modelled
        if not before or not after:
            return {}
        return {
            "kind": "modelled",
            "float_ms": round(1e3 * before, 4),
            "artifact_ms": round(1e3 * after, 4),
            "speedup_over_float": round(before / after, 3),
        }


def _lowered(plan: Plan) -> list[tuple[str, str]]:
    """What a plan has in integers, by name and precision."""
    chosen = ((name, choice.precision) for name, choice in plan.choices.items())
    return [(name, precision) for name, precision in chosen if precision.startswith(INT8)]


def _region_times(sensed: Sensed) -> dict[str, list[float]] | None:
    """Of every region the time in float, and the shortest of those that it may be lowered to; without, only the one."""
    if sensed.in_float is None:
        return None
    times = {name: [seconds] for name, seconds in sensed.in_float.regions.items()}
    for name in dict.fromkeys(name for way in sensed.alternatives for name in way.regions):
        ways = [sensed.lowered[way.plan].regions.get(name, 0.0) for way in sensed.alternatives if name in way.regions]
        times[name] = [*times.get(name, [0.0]), min(ways)]
    return {name: [round(1e3 * seconds, 5) for seconds in found] for name, found in times.items()}


def _candidate(item: Judged, plan: Plan | None) -> dict[str, Any]:
    latency = item.latency
    precisions = Counter(choice.precision for choice in plan.choices.values()) if plan else {}
    return {
        "name": item.name,
        "bytes": item.bytes,
        "refused": item.refused,
        "failed": item.failed,
        "score": None if item.score is None else asdict(item.score),
        "min_sqnr_db": min((round(error.sqnr, 2) for error in item.errors if error.floats), default=None),
        "p50_ms": None if latency is None else round(latency.p50_ms, 4),
        "speedup": None if latency is None else round(latency.ratio, 3),
        "modelled_ms": None if item.modelled is None else round(1e3 * item.modelled, 4),
        "precisions": dict(sorted(precisions.items())),
        "outputs": [error_table(error) for error in item.errors],
    }


def error_table(error: OutputError) -> dict[str, Any]:
    """The error of one output, JSON-able."""
    return {
        "name": error.name,
        "sqnr_db": round(error.sqnr, 2) if error.floats else None,
        "largest_error": error.largest if math.isfinite(error.largest) else None,  # JSON has no infinity
        "unequal": error.unequal,
        "elements": error.elements,
        "kind": error.kind.name if error.floats else "integers",
        "judged": error.judged,
        "drop": None if error.drop is None else round(error.drop, 6),
    }


def _regions(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "name": region.name,
            "nodes": list(region.origin),
            "op_type": region.op_type,
            "precision": plan.choices[region.name].precision,
            "reason": plan.choices[region.name].reason,
        }
        for region in plan.regions
    ]


def _repair(item: Repair) -> dict[str, Any]:
    return asdict(item) | {
        "regions": list(item.regions),
        "before": round(item.before, 2),
        "after": round(item.after, 2),
    }


def samples_in_words(samples: Mapping[str, Any]) -> str:
    """What errors are pooled over, by the report's `samples`."""
    count, also = samples["verification"], samples["also_verified"]
    if samples["random"]:
        return f"{count} random inputs"
    return f"{count} held-out and {also} calibration samples" if also else f"{count} held-out samples"


def count_rules(rules: Sequence[str]) -> dict[str, int]:
    """How often each rule fired, most often first."""
    return dict(Counter(rules).most_common())


def write_report(report: Report, folder: Path) -> None:
    """Write report.json."""
    (folder / REPORT).write_text(json.dumps(report.table(), indent=2) + "\n", encoding="utf-8")


def write_latencies(table: Mapping[str, Any], folder: Path) -> None:
    """Write latency.json, which `--latency-table` takes; not where nothing was timed."""
    if table["kernels"] or table["runs"]:
        (folder / LATENCIES).write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")

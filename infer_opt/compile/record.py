"""What is told of one compile: the content of report.json and manifest.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infer_opt import ir, profiles
from infer_opt.calibrate.explaining import explained, lost
from infer_opt.calibrate.judging import ORIGINAL
from infer_opt.calibrate.plan import INT8
from infer_opt.compile.optimise import undone
from infer_opt.passes import Pipeline
from infer_opt.report import Manifest, PassReport, Report
from infer_opt.report.report import count_rules
from infer_opt.report.versions import versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infer_opt.calibrate.budget import Budget
    from infer_opt.calibrate.choice import Judged
    from infer_opt.calibrate.judging import Built, Verdict
    from infer_opt.calibrate.plan import Plan
    from infer_opt.compile.evidence import Evidence
    from infer_opt.compile.plans import Planned
    from infer_opt.compile.request import Order, Request
    from infer_opt.passes import Step

__all__ = ["Compiled", "manifest_of", "report_of"]


@dataclass(frozen=True)
class Compiled:
    """What a compile came to.

    Args:
        evidence: what the candidates were judged by.
        planned: what was learnt while they were planned.
        why: why the winner won.
        unmeasured: why there is no latency, or None.
        float_modelled: seconds of one run with all in FP32 by the device's latency model, or None.
        doubts: what could not be found out, in words.
        stages: measured seconds.
    """

    request: Request
    order: Order
    evidence: Evidence
    steps: Sequence[Step]
    planned: Planned
    verdict: Verdict
    winner: Built
    why: str
    unmeasured: str | None
    float_modelled: float | None
    doubts: Sequence[str]
    stages: dict[str, float]

    @property
    def best(self) -> Judged:
        """The winner, with what was found out about it."""
        return next(item for item in self.verdict.judged if item.name == self.winner.plan.name)

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that a user should know, in the order of the work."""
        found = (
            *self.evidence.samples.warnings,
            *undone(self.steps),
            self.evidence.original.warning,
            *self.planned.notes,
            *self.doubts,
            self.best.drifts,
        )
        return tuple(filter(None, found))


def report_of(done: Compiled) -> Report:
    """Everything that can be told of a compile."""
    request, best, winner = done.request, done.best, done.winner
    return Report(
        source=str(request.model),
        target=request.profile.name,
        out=str(request.out),
        pipeline=str(_carried_out(done.order, winner)),
        why=done.why,
        chosen=best.name,
        plan=_told(done),
        plans={item.plan.name: item.plan for item in done.verdict.built},
        sensed=done.planned.sensed,
        front=done.planned.front,
        ranges=done.planned.ranges,
        versions=versions(),
        passes=tuple(_pass_report(step) for step in done.steps if best.name != ORIGINAL),
        candidates=done.verdict.judged,
        original_latency=done.verdict.reference,
        float_modelled=done.float_modelled,
        latency_note=done.unmeasured,
        surgery=_surgery(request),
        original_bytes=sum(file.stat().st_size for file in ir.source_files(request.model)),
        artifact_bytes=best.bytes,
        samples=_samples(done),
        checked=_checked(winner),
        unchecked=winner.artifact.unchecked,
        warnings=done.warnings,
        budget_faults=tuple(_budget_faults(request.budget, best, done.unmeasured)),
        stages=done.stages,
    )


def _told(done: Compiled) -> Plan:
    """The winner's plan; where all stayed in float, with the reason why INT8 did not win instead."""
    integers, plan = done.planned.integers, done.winner.plan
    if integers is None or any(choice.precision.startswith(INT8) for choice in plan.choices.values()):
        return plan
    loser = next((item for item in done.verdict.judged if item.name == integers.name), None)
    return explained(plan, integers, None if loser is None else lost(loser, done.best), done.planned.sensed)


def _samples(done: Compiled) -> dict[str, Any]:
    """What was read for which purpose; `verification` counts the held-out samples, `also_verified` others."""
    on, audit = done.evidence.judged_on, done.planned.audit
    also = 0 if on is None else len(on.samples) - on.held_out
    changed = {} if on is None else {name: len(each) for name, each in on.changed.items()}
    found = None if audit is None else audit.table()
    return done.evidence.samples.table() | {"also_verified": also, "changed": changed, "audit": found}


def _carried_out(order: Order, winner: Built) -> Pipeline:
    """The passes that made the winner: none of the original, no quantization of a float model."""
    if winner.plan.name == ORIGINAL:
        return Pipeline()
    quantized = bool(winner.plan.lowered())
    return Pipeline(tuple(item for item in order.pipeline.passes if item.stage == "graph" or quantized))


def manifest_of(done: Compiled) -> Manifest:
    """What the artifact is made of and from."""
    request, winner = done.request, done.winner
    return Manifest(
        model=winner.artifact.main,
        files=winner.artifact.files,
        source={"path": request.model.name, "sha256": ir.source_sha256(request.model)},
        calib=done.evidence.samples.provenance(),
        profile=profiles.to_table(request.profile),
        pipeline=str(_carried_out(done.order, winner)),
        versions=versions(),
        run=dict(winner.artifact.run) | {"threads": request.thread_count},
        interface=ir.interface(done.evidence.source),
        checked=_checked(winner),
        surgery=_surgery(request),
    )


def _checked(winner: Built) -> str:
    return winner.artifact.checked if winner.runs else "rules"


def _surgery(request: Request) -> dict[str, str] | None:
    if request.surgery is None:
        return None
    return {"path": request.surgery.name, "sha256": ir.file_sha256(request.surgery)}


def _budget_faults(budget: Budget, best: Judged, unmeasured: str | None) -> Iterator[str]:
    yield from budget.faults(best.errors, best.speedup, best.score)
    yield from budget.collapses(best.errors, best.score)
    yield from budget.unchecked(best.errors, best.score)
    if budget.min_speedup is not None and best.speedup is None:
        yield f"--min-speedup cannot be checked: latency was not measured: {unmeasured}"


def _pass_report(step: Step) -> PassReport:
    return PassReport(
        text=str(step.ran),
        nodes_before=_nodes(step.before),
        nodes_after=_nodes(step.before if step.undone else step.after),
        seconds=round(step.seconds, 4),
        changes=count_rules([change.rule for change in step.outcome.changes]),
        misses=tuple((miss.rule, miss.node, miss.reason) for miss in step.outcome.misses),
        undone=step.undone,
    )


def _nodes(model: ir.Model) -> int:
    return sum(1 for graph in ir.all_graphs(model) for node in graph if node.op_type != "Constant")

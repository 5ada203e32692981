"""The straight line: from a request to an artifact folder. Read `compile_model` from top to bottom."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infer_opt import ir, targets
from infer_opt.calibrate.choice import choose
from infer_opt.calibrate.deadline import Deadline
from infer_opt.calibrate.judging import ORIGINAL, Candidate, judge
from infer_opt.calibrate.planner import float_plan
from infer_opt.calibrate.progress import Progress, Silent, Stages
from infer_opt.calibrate.target import ANY_SHAPES
from infer_opt.compile.bench import Bench
from infer_opt.compile.doubts import cut_short, stand_ins, unverified_branches
from infer_opt.compile.evidence import gather
from infer_opt.compile.known import known_latencies, means_of
from infer_opt.compile.optimise import run_passes
from infer_opt.compile.plans import Host, plans
from infer_opt.compile.record import Compiled, manifest_of, report_of
from infer_opt.compile.request import Order, Request
from infer_opt.report import Report, write_latencies, write_manifest, write_page, write_report
from infer_opt.report.publish import check_out, publish, staging

if TYPE_CHECKING:
    from infer_opt.calibrate.target import Target

__all__ = ["compile_model"]


def compile_model(request: Request, progress: Progress | None = None) -> Report:
    """Compile a model for a device and write the artifact folder.

    Raises:
        InputError, UsageError: model, data, profile or options are at fault; nothing was written.
    """
    check_out(request.out, force=request.force)
    stages, deadline = Stages(progress or Silent()), Deadline(request.time_budget)
    order = Order.of(request)
    source = _load(request, stages)
    target: Target = targets.create(request.profile)
    target.check(source, request.allowed_ops)  # before any work: what the device cannot run
    latencies = known_latencies(request)
    evidence = gather(request, source)
    unmeasured = "nothing was run here" if evidence.original.runner is None else target.timed_here()
    model, steps = run_passes(request, order, source, evidence.samples, evidence.original, stages)
    unmeasured = unmeasured or stand_ins(source, model)
    host = Host(evidence.samples, evidence.original, stages, means_of(request, latencies, deadline))
    planned = plans((request, order), target, model, host)
    candidates = [Candidate(plan, planned.model) for plan in planned.plans]
    candidates += [Candidate(plan, planned.model, searched=True) for plan in planned.searched]
    if order.free and unmeasured is None:
        # Graph passes may not pay either: the model as it came competes.
        candidates.append(Candidate(replace(float_plan(target.regions(source)), name=ORIGINAL), source))
    contest = evidence.contest(None if order.named else request.budget, latencies, deadline, timed=unmeasured is None)
    with staging(request.out) as folder:
        ranges = ANY_SHAPES if target.takes_any_shape else evidence.ranges
        workshop = Bench(target, folder, evidence.threads, evidence.shapes, ranges)
        verdict = judge(candidates, workshop, contest, stages)
        best, why = choose(verdict.judged, unmeasured)
        winner = next(item for item in verdict.built if item.plan.name == best.name)
        if best.latency is None:
            unmeasured = unmeasured or "it cannot be run here"
        in_float = workshop.modelled(Candidate(float_plan(target.regions(model)), model))
        doubts = [*unverified_branches(winner, planned.model, evidence), *cut_short(deadline)]
        done = Compiled(
            request, order, evidence, steps, planned, verdict, winner, why, unmeasured, in_float, doubts, stages.seconds
        )
        report = report_of(done)
        write_report(report, winner.folder)
        write_manifest(manifest_of(done), winner.folder)
        write_latencies(latencies.table(), winner.folder)
        if not request.dry_run:
            write_page(report.table(), winner.folder)
            publish(winner.folder, request.out)
    return report


def _load(request: Request, stages: Stages) -> ir.Model:
    with stages("load"):
        model = ir.load(request.file)
        ir.fix_input_shapes(model, request.shapes)
    return model

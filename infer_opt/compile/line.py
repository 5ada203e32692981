"""The straight line: from a request to an artifact folder. Read `compile_model` from top to bottom."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infer_opt import ir, targets
from infer_opt.calibrate.choice import choose
from infer_opt.calibrate.deadline import Deadline
from infer_opt.calibrate.evaluation import Evaluation
from infer_opt.calibrate.expected import Expected
from infer_opt.calibrate.feeding import Feeding, feeding, input_specs
from infer_opt.calibrate.fitting import check_metric
from infer_opt.calibrate.judging import ORIGINAL, Candidate, Contest, judge
from infer_opt.calibrate.metrics import AUTO, METRICS
from infer_opt.calibrate.original import Original
from infer_opt.calibrate.planner import float_plan
from infer_opt.calibrate.progress import Progress, Silent, Stages
from infer_opt.calibrate.verifying import Verifying, verifying
from infer_opt.compile.bench import Bench
from infer_opt.compile.doubts import cut_short, stand_ins, unverified_branches
from infer_opt.compile.known import known_latencies, means_of
from infer_opt.compile.optimise import run_passes
from infer_opt.compile.plans import Host, plans
from infer_opt.compile.record import Compiled, manifest_of, report_of
from infer_opt.compile.request import Order, Request
from infer_opt.errors import InputError
from infer_opt.report import Report, write_latencies, write_manifest, write_page, write_report
from infer_opt.report.publish import check_out, publish, staging

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infer_opt.calibrate.target import Target

__all__ = ["compile_model"]

_TIMED_BRANCHES = 8  # held-out samples whose mean time counts where samples take different ways through the model


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
    samples = feeding(source, request.calib, request.preprocess, request.seed, request.augment)
    original = _open_original(request, source, samples)
    judged_on = verifying(samples, input_specs(source), request.seed)
    state = ir.recurrent_state(source)
    _check_metric(request, original, judged_on, state)
    evaluation = _evaluation(request, original)
    unmeasured = "nothing was run here" if original.runner is None else target.timed_here()
    model, steps = run_passes(request, order, source, samples, original, stages)
    unmeasured = unmeasured or stand_ins(source, model)
    host = Host(samples, original, stages, means_of(request, latencies, deadline))
    planned = plans((request, order), target, model, host)
    candidates = [Candidate(plan, model) for plan in planned.plans]
    candidates += [Candidate(plan, model, searched=True) for plan in planned.searched]
    if order.free and unmeasured is None:
        # Graph passes may not pay either: the model as it came competes.
        candidates.append(Candidate(replace(float_plan(target.regions(source)), name=ORIGINAL), source))
    contest = Contest(
        original.runner,
        judged_on,
        ir.output_parts(source),
        state,
        None if order.named else request.budget,
        timed=0 if unmeasured is not None else _TIMED_BRANCHES if ir.branches(source) else 1,
        metric=METRICS[request.metric],
        evaluation=evaluation,
        latencies=latencies,
        deadline=deadline,
    )
    with staging(request.out) as folder:
        threads = None if original.runner is None else request.thread_count
        workshop = Bench(target, folder, threads)
        verdict = judge(candidates, workshop, contest, stages)
        best, why = choose(verdict.judged, unmeasured)
        if best.latency is None:
            unmeasured = unmeasured or "it cannot be run here"
        winner = next(item for item in verdict.built if item.plan.name == best.name)
        done = Compiled(
            request,
            order,
            source,
            steps,
            samples,
            contest.samples,
            verdict,
            planned,
            {item.plan.name: item.plan for item in verdict.built},
            winner,
            why,
            unmeasured,
            [
                *filter(None, [original.warning]),
                *planned.notes,
                *unverified_branches(winner, model, samples, threads),
                *cut_short(deadline),
            ],
            stages.seconds,
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


def _open_original(request: Request, source: ir.Model, samples: Feeding) -> Original:
    if not request.verify or samples.held_out is None:
        return Original(None)
    used = {ir.operator_name(node) for graph in ir.all_graphs(source) for node in graph}
    used &= request.allowed_ops - ir.registered_references()
    if used:
        return Original(None, f"nothing was verified: no kernel of {', '.join(sorted(used))} here (--allow-op)")
    return Original.open(request.file, request.title, source, samples, request.thread_count)


def _check_metric(request: Request, original: Original, judged_on: Verifying | None, state: Mapping[str, str]) -> None:
    """One that was named and fits nothing is an error, and no quiet SQNR."""
    if request.metric == AUTO or original.runner is None or judged_on is None:
        return
    expected = Expected(original.runner, state)
    check_metric(request.metric, METRICS[request.metric], expected, judged_on.samples)


def _evaluation(request: Request, original: Original) -> Evaluation | None:
    """The user's score, with the original's; before the work, since the function may be at fault."""
    if request.evaluate is None:
        return None
    if original.runner is None:
        raise InputError("--eval scores a model that runs here, and nothing is run", "leave --eval or --no-verify out")
    return Evaluation.of(request.evaluate, original.runner)

"""The straight line: from a request to an artifact folder. Read `compile_model` from top to bottom."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infer_opt import ir, targets
from infer_opt.calibrate.choice import choose
from infer_opt.calibrate.feeding import Feeding, feeding
from infer_opt.calibrate.judging import ORIGINAL, Built, judge
from infer_opt.calibrate.original import Original
from infer_opt.calibrate.planner import float_plan
from infer_opt.calibrate.progress import Progress, Silent, Stages
from infer_opt.calibrate.runner import RunError
from infer_opt.compile.optimise import run_passes
from infer_opt.compile.plans import plans
from infer_opt.compile.record import Compiled, manifest_of, report_of
from infer_opt.compile.request import Order, Request
from infer_opt.report import Report, write_manifest, write_page, write_report
from infer_opt.report.publish import check_out, publish, staging

if TYPE_CHECKING:
    from pathlib import Path

    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.target import Target

__all__ = ["compile_model"]


def compile_model(request: Request, progress: Progress | None = None) -> Report:
    """Compile a model for a device and write the artifact folder.

    Raises:
        InputError, UsageError: model, data, profile or options are at fault; nothing was written.
    """
    check_out(request.out, force=request.force)
    stages = Stages(progress or Silent())
    order = Order.of(request)
    source = _load(request, stages)
    target: Target = targets.create(request.profile)
    target.check(source, request.allowed_ops)  # before any work: what the device cannot run
    samples = feeding(source, request.calib, request.preprocess, request.seed)
    original = _open_original(request, source, samples)
    unmeasured = "nothing was run here" if original.runner is None else target.timed_here()
    model, steps = run_passes(request, order, source, samples, original, stages)
    unmeasured = unmeasured or _stand_ins(source, model)
    planned = plans(request, order, target, model, samples, original, stages)
    candidates = [(plan, model) for plan in planned.plans]
    if order.free and unmeasured is None:
        # Graph passes may not pay either: the model as it came competes.
        candidates.append((replace(float_plan(target.regions(source)), name=ORIGINAL), source))
    with staging(request.out) as folder:
        threads = None if original.runner is None else request.thread_count
        built = [_build(target, plan, graph, folder / plan.name, threads, stages) for plan, graph in candidates]
        verdict = judge(
            original.runner,
            built,
            samples,
            ir.output_parts(source),
            None if order.int8 else request.budget,
            stages,
            timed=unmeasured is None,
        )
        best, why = choose(verdict.judged, unmeasured)
        if best.latency is None:
            unmeasured = unmeasured or "it cannot be run here"
        winner = next(item for item in built if item.plan.name == best.name)
        done = Compiled(
            request,
            order,
            source,
            steps,
            samples,
            verdict,
            planned,
            {item.plan.name: item.plan for item in built},
            winner,
            why,
            unmeasured,
            [*filter(None, [original.warning]), *planned.notes],
            stages.seconds,
        )
        report = report_of(done)
        write_report(report, winner.folder)
        write_manifest(manifest_of(done), winner.folder)
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


def _stand_ins(*models: ir.Model) -> str | None:
    """Why latency says nothing where a reference stands for an operator that only the device has."""
    names = {f"`{name}`" for model in models for name in ir.referenced_operators(model)}
    return f"{', '.join(sorted(names))} ran as a reference, not as the device's kernel" if names else None


def _build(target: Target, plan: Plan, model: ir.Model, folder: Path, threads: int | None, stages: Stages) -> Built:
    """Write one candidate, and load it unless nothing is run here (no threads)."""
    folder.mkdir()
    with stages("emit"):
        artifact = target.emit(model, plan, folder)
    if threads is None:
        return Built(plan, folder, artifact, None)
    try:
        return Built(plan, folder, artifact, target.run(folder, artifact, threads))
    except RunError as error:
        return Built(plan, folder, artifact, None, error.message)

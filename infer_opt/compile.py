"""The straight line: from a request to an artifact folder. Read `compile_model` from top to bottom."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from infer_opt import ir, profiles, targets
from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.choice import choose
from infer_opt.calibrate.equality import Equality
from infer_opt.calibrate.feeding import Feeding, feeding
from infer_opt.calibrate.judging import ORIGINAL, Built, judge
from infer_opt.calibrate.original import Original
from infer_opt.calibrate.planner import float_plan, integer_plan, watched_values
from infer_opt.calibrate.progress import Progress, Silent, Stages
from infer_opt.calibrate.runner import RunError
from infer_opt.calibrate.statistics import collect
from infer_opt.errors import InputError
from infer_opt.passes import Pipeline
from infer_opt.passes.engine.observers import DumpGraphs
from infer_opt.passes.legalize import Legalize
from infer_opt.passes.quantize import Quantize
from infer_opt.report import Manifest, PassReport, Report, write_manifest, write_report
from infer_opt.report.publish import check_out, publish, staging
from infer_opt.report.report import count_rules
from infer_opt.report.versions import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from infer_opt.calibrate.choice import Judged
    from infer_opt.calibrate.plan import Plan, Region
    from infer_opt.calibrate.target import Target
    from infer_opt.passes import Observer, Step
    from infer_opt.profiles import Profile

__all__ = ["Precision", "Request", "compile_model", "regions_of"]

Precision = Literal["auto", "fp32", "fp16", "int8", "int4"]


@dataclass(frozen=True)
class Request:
    """What a user asks of one compile. Options mean what docs/cli.md says of them.

    Args:
        pipeline: None runs the profile's own.
        threads: None takes the profile's.
        surgery: the user's script that made `operated`.
        operated: `model` after it: what is compiled then, and compared with.
        allowed_ops: operators (`DOMAIN::OP`) that the device has, though the backend does not know them.
        strict: a graph pass that changes an output is an error, where it is undone otherwise.
        dry_run: do everything but write the folder.
    """

    model: Path
    profile: Profile
    out: Path
    calib: str | None = None
    preprocess: str | None = None
    pipeline: Pipeline | None = None
    precision: Precision = "auto"
    budget: Budget = field(default_factory=Budget)
    shapes: tuple[ir.InputShape, ...] = ()
    threads: int | None = None
    seed: int = 0
    force: bool = False
    verify: bool = True
    surgery: Path | None = None
    operated: Path | None = None
    allowed_ops: frozenset[str] = frozenset()
    strict: bool = False
    dry_run: bool = False
    dump_ir: Path | None = None

    @property
    def file(self) -> Path:
        """The file that is loaded."""
        return self.operated or self.model

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"`{self.model}`" if self.surgery is None else f"`{self.model}` after `{self.surgery}`"

    @property
    def thread_count(self) -> int:
        """Threads for planning, verification and timing."""
        return self.threads or self.profile.threads


def compile_model(request: Request, progress: Progress | None = None) -> Report:
    """Compile a model for a device and write the artifact folder.

    Raises:
        InputError, UsageError: model, data, profile or options are at fault; nothing was written.
    """
    check_out(request.out, force=request.force)
    stages = Stages(progress or Silent())
    order = _Order.of(request)
    source = _load(request, stages)
    target: Target = targets.create(request.profile)
    target.check(source, request.allowed_ops)  # before any work: what the device cannot run
    samples = feeding(source, request.calib, request.preprocess, request.seed)
    original = _open_original(request, source, samples)
    unmeasured = "nothing was run here" if original.runner is None else target.timed_here()
    model, steps = _run_passes(request, order, source, samples, original, stages)
    unmeasured = unmeasured or _stand_ins(source, model)
    plans, notes = _plans(request, order, target, model, samples, original, stages)
    candidates = [(plan, model) for plan in plans]
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
        report = Report(
            source=str(request.model),
            target=request.profile.name,
            out=str(request.out),
            pipeline=str(_carried_out(order, winner)),
            why=why,
            chosen=best.name,
            plan=winner.plan,
            passes=tuple(_pass_report(step) for step in steps if best.name != ORIGINAL),
            candidates=verdict.judged,
            original_latency=verdict.reference,
            latency_note=unmeasured,
            surgery=_surgery(request),
            original_bytes=sum(file.stat().st_size for file in ir.source_files(request.model)),
            artifact_bytes=best.bytes,
            samples=samples.table(),
            checked="rules" if winner.runner is None else winner.artifact.checked,
            unchecked=winner.artifact.unchecked,
            warnings=(*samples.warnings, *filter(None, [original.warning]), *_undone(steps), *notes),
            budget_faults=tuple(_budget_faults(request.budget, best, unmeasured)),
            stages=stages.seconds,
        )
        write_report(report, winner.folder)
        write_manifest(_manifest(request, order, source, samples, winner, report), winner.folder)
        if not request.dry_run:
            publish(winner.folder, request.out)
    return report


def regions_of(model: ir.Model, profile: Profile) -> tuple[Region, ...]:
    """The kernels that a profile's device would run after the profile's graph passes, and their precisions.

    Raises:
        InputError: the device cannot run a node.
    """
    target: Target = targets.create(profile)
    target.check(model)
    optimised, _ = _legalized(profile, Pipeline.parse(profile.pipeline)).run(model)
    return target.regions(optimised)


def _legalized(profile: Profile, pipeline: Pipeline) -> Pipeline:
    """The pipeline, after the opset that the backend needs."""
    return Pipeline((*((Legalize(profile.opset.min),) if profile.opset else ()), *pipeline.passes))


@dataclass(frozen=True)
class _Order:
    """What the request makes of precision.

    Args:
        pipeline: the passes to run.
        int8: INT8 is an order, not one candidate among others.
        tries_int8: INT8 is an order or a candidate.
        free: nothing is ordered; everything competes.
    """

    pipeline: Pipeline
    quantize: Quantize
    int8: bool
    tries_int8: bool
    free: bool

    @classmethod
    def of(cls, request: Request) -> _Order:
        pipeline = request.pipeline or Pipeline.parse(request.profile.pipeline)
        quantize = next((item for item in pipeline.passes if isinstance(item, Quantize)), None)
        # A pass that was named by hand is an order; the profile's own pipeline only says what may compete.
        named = request.pipeline is not None and quantize is not None and request.precision == "auto"
        int8 = request.precision == "int8" or named
        _check_offered(request, "int8" if int8 else request.precision)
        if int8 and request.calib is None:
            raise InputError("INT8 needs samples to find its ranges", "pass --calib PATH, or --precision fp32")
        competes = request.precision == "auto" and quantize is not None and "int8" in request.profile.precisions
        free = request.precision == "auto" and request.pipeline is None
        return cls(pipeline, quantize or Quantize(), int8, int8 or competes, free)


def _check_offered(request: Request, wanted: str) -> None:
    offered = request.profile.precisions
    if wanted not in {"auto", *offered}:
        raise InputError(
            f"profile `{request.profile.name}` offers no {wanted}; it has {', '.join(offered)}",
            "pass --precision auto, or another --target",
        )


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


def _run_passes(
    request: Request, order: _Order, source: ir.Model, samples: Feeding, original: Original, stages: Stages
) -> tuple[ir.Model, list[Step]]:
    pipeline = _legalized(request.profile, order.pipeline)
    observers: list[Observer] = [] if request.dump_ir is None else [DumpGraphs(request.dump_ir)]
    if original.runner is not None:
        observers.append(_KeepsOutputs(Equality(original.runner, samples.for_equality())))
    with stages("passes", len(pipeline.passes)) as advance:
        model, steps = pipeline.run(source, [*observers, _Advance(advance)])
    if request.strict and (broken := _undone(steps)):
        raise ir.IllegalModelError("; ".join(broken))
    return model, steps


def _plans(
    request: Request,
    order: _Order,
    target: Target,
    model: ir.Model,
    samples: Feeding,
    original: Original,
    stages: Stages,
) -> tuple[list[Plan], list[str]]:
    """The candidates in the order that decides ties, and what a user should know of those that are missing."""
    with stages("plan"):
        regions = target.regions(model)
        unchanged = float_plan(regions)
    _check_order(request, order, regions)
    if not order.tries_int8 or not any("int8" in region.precisions for region in regions):
        return [unchanged], []
    if samples.calibration is None:
        return [unchanged], ["INT8 was not tried: it needs samples (--calib)"]
    if original.runner is None and not order.int8:
        return [unchanged], ["INT8 was not tried: unverified, nothing tells whether it is right enough"]
    values = watched_values(model, regions)
    with stages("calibrate", len(samples.calibration)) as advance:
        found = collect(
            model, values, samples.calibration, threads=request.thread_count, seed=request.seed, advance=advance
        )
    with stages("plan"):
        quantized = integer_plan(model, regions, found.sketches, order.quantize.ranges)
    notes = [f"NaN or Inf that reaches no output: {sample}" for sample in found.dirty_samples]
    return ([quantized] if order.int8 else [unchanged, quantized]), notes


def _check_order(request: Request, order: _Order, regions: Sequence[Region]) -> None:
    """A precision that was asked for by name, and that nothing can have, is an error and no quiet float model."""
    wanted = "int8" if order.int8 else request.precision
    if wanted in {"auto", "fp32"} or any(wanted in region.precisions for region in regions):
        return
    backend = request.profile.backend
    reasons = Counter(region.reason or f"the {backend} backend does not write it yet" for region in regions)
    why = f": {reasons.most_common(1)[0][0]}" if reasons else ""
    raise InputError(
        f"no part of `{request.model}` can run at {wanted} on `{request.profile.name}`{why}", "pass --precision auto"
    )


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


def _carried_out(order: _Order, winner: Built) -> Pipeline:
    """The passes that made the winner: none of the original, no quantization of a float model."""
    if winner.plan.name == ORIGINAL:
        return Pipeline()
    quantized = bool(winner.plan.at("int8"))
    return Pipeline(tuple(item for item in order.pipeline.passes if item.stage == "graph" or quantized))


def _manifest(
    request: Request, order: _Order, source: ir.Model, samples: Feeding, winner: Built, report: Report
) -> Manifest:
    return Manifest(
        model=winner.artifact.main,
        files=winner.artifact.files,
        source={"path": request.model.name, "sha256": ir.source_sha256(request.model)},
        calib=samples.provenance(),
        profile=profiles.to_table(request.profile),
        pipeline=str(_carried_out(order, winner)),
        versions=versions(),
        run=dict(winner.artifact.run) | {"threads": request.thread_count},
        interface=ir.interface(source),
        checked=report.checked,
        surgery=report.surgery,
    )


def _surgery(request: Request) -> dict[str, str] | None:
    if request.surgery is None:
        return None
    return {"path": request.surgery.name, "sha256": ir.file_sha256(request.surgery)}


@dataclass(frozen=True)
class _KeepsOutputs:
    """Objects to a pass after which outputs differ from the original's."""

    equality: Equality

    def after_pass(self, step: Step) -> str | None:
        return self.equality.fault(step.after)


@dataclass(frozen=True)
class _Advance:
    """Moves the progress bar."""

    advance: Callable[[], None]

    def after_pass(self, step: Step) -> str | None:
        del step
        self.advance()
        return None


def _budget_faults(budget: Budget, best: Judged, unmeasured: str | None) -> Iterator[str]:
    yield from budget.faults(best.errors, best.speedup)
    yield from budget.collapses(best.errors)
    yield from budget.unchecked(best.errors)
    if budget.min_speedup is not None and best.speedup is None:
        yield f"--min-speedup cannot be checked: latency was not measured: {unmeasured}"


def _undone(steps: Sequence[Step]) -> list[str]:
    return [f"pass `{step.ran}` was undone: {step.undone}" for step in steps if step.undone]


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

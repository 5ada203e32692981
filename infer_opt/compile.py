"""The straight line: from a request to an artifact folder. Read `compile_model` from top to bottom."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from infer_opt import ir, profiles, targets
from infer_opt.calibrate import planner
from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.choice import Judged, choose
from infer_opt.calibrate.equality import Equality
from infer_opt.calibrate.feeding import feeding
from infer_opt.calibrate.progress import Progress, Silent, Stages
from infer_opt.calibrate.runner import RunError, Runner
from infer_opt.calibrate.statistics import collect
from infer_opt.calibrate.timing import interleaved
from infer_opt.calibrate.verification import compare
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
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from infer_opt.calibrate.metrics import OutputError
    from infer_opt.calibrate.plan import Plan, Region
    from infer_opt.calibrate.target import Artifact, Target
    from infer_opt.calibrate.timing import Latency
    from infer_opt.passes import Observer, Step
    from infer_opt.profiles import Profile

__all__ = ["Precision", "Request", "compile_model", "regions_of"]

Precision = Literal["auto", "fp32", "fp16", "int8", "int4"]

_ORIGINAL = "original"
_REFERENCE = "reference"
_ROUNDS = 15


@dataclass(frozen=True)
class Request:
    """What a user asks of one compile. Options mean what docs/cli.md says of them.

    Args:
        pipeline: None runs the profile's own.
        threads: None takes the profile's.
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
    dry_run: bool = False
    dump_ir: Path | None = None


def compile_model(request: Request, progress: Progress | None = None) -> Report:
    """Compile a model for a device and write the artifact folder.

    Raises:
        InputError, UsageError: model, data, profile or options are at fault; nothing was written.
    """
    check_out(request.out, force=request.force)
    job = _Job(request, Stages(progress or Silent()))
    model, steps = job.optimise()
    candidates = [*job.candidates(model), *job.original_as_candidate()]
    with staging(request.out) as folder:
        built = [job.build(plan, graph, folder / plan.name) for plan, graph in candidates]
        judged = job.judge(built)
        best, why = choose(judged, job.unmeasured)
        winner = next(item for item in built if item.plan.name == best.name)
        report = job.report(winner, why, judged, steps)
        job.describe(report, winner)
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
class _Built:
    """A plan, and the artifact that was made of it."""

    plan: Plan
    folder: Path
    artifact: Artifact

    @property
    def bytes(self) -> int:
        return sum((self.folder / name).stat().st_size for name in self.artifact.files)


class _Job:
    """One compile: the loaded model, its target and samples, and the steps of `compile_model` on them."""

    def __init__(self, request: Request, stages: Stages) -> None:
        self.request, self.stages = request, stages
        self.threads = request.threads or request.profile.threads
        self.warnings: list[str] = []
        with stages("load"):
            self.source = ir.load(request.model)
            ir.fix_input_shapes(self.source, request.shapes)
        self.target: Target = targets.create(request.profile)
        self.target.check(self.source)
        self.pipeline = request.pipeline or Pipeline.parse(request.profile.pipeline)
        self._check_precision()
        self.samples = feeding(self.source, request.calib, request.preprocess, request.seed)
        self.warnings += self.samples.warnings
        self.original = self._load_original() if request.verify else None
        self.unmeasured = "nothing was run (--no-verify)" if self.original is None else self.target.timed_here()

    def _check_precision(self) -> None:
        wanted, offered = self.request.precision, self.request.profile.precisions
        if self._orders_int8:
            wanted = "int8"
        if wanted not in {"auto", *offered}:
            raise InputError(
                f"profile `{self.request.profile.name}` offers no {wanted}; it has {', '.join(offered)}",
                "pass --precision auto, or another --target",
            )
        if self._orders_int8 and self.request.calib is None:
            raise InputError("INT8 needs samples to find its ranges", "pass --calib PATH, or --precision fp32")

    @property
    def _quantize(self) -> Quantize:
        return next((item for item in self.pipeline.passes if isinstance(item, Quantize)), Quantize())

    @property
    def _orders_int8(self) -> bool:
        """Whether INT8 is an order, not one candidate among others."""
        named = self.request.pipeline is not None and any(isinstance(item, Quantize) for item in self.pipeline.passes)
        return self.request.precision == "int8" or (named and self.request.precision == "auto")

    @property
    def _wants_int8(self) -> bool:
        if self.request.precision not in {"auto", "int8"} or "int8" not in self.request.profile.precisions:
            return False
        planned = any(isinstance(item, Quantize) for item in self.pipeline.passes)
        return self.request.precision == "int8" or planned

    def _load_original(self) -> Runner | None:
        """The original in onnxruntime, once it was seen to run."""
        runner = Runner(self.request.model, f"`{self.request.model}`", threads=self.threads)
        if not self.samples.is_random:
            return runner
        try:
            for feed in self.samples.for_equality():
                runner.run(feed, "random inputs")
        except RunError as error:
            if all(isinstance(size, int) for value in self.source.graph.inputs for size in ir.dims(value) or ("?",)):
                raise
            self.warnings.append(f"nothing was verified: {error.message}; pass --calib, or --shape for dynamic inputs")
            return None
        return runner

    def optimise(self) -> tuple[ir.Model, list[Step]]:
        """Run the graph passes."""
        observers: list[Observer] = [] if self.request.dump_ir is None else [DumpGraphs(self.request.dump_ir)]
        if self.original is not None:
            observers.append(_KeepsOutputs(Equality(self.original, self.samples.for_equality())))
        pipeline = _legalized(self.request.profile, self.pipeline)
        with self.stages("passes", len(pipeline.passes)) as advance:
            model, steps = pipeline.run(self.source, [*observers, _Advance(advance)])
        self.warnings += [f"pass `{step.ran}` was undone: {step.undone}" for step in steps if step.undone]
        return model, steps

    def candidates(self, model: ir.Model) -> list[tuple[Plan, ir.Model]]:
        """Plans and the graphs they are for, in the order that decides ties."""
        with self.stages("plan"):
            regions = self.target.regions(model)
            unchanged = planner.float_plan(regions)
        self._check_order(regions)
        calibration = self.samples.calibration if self._tries_int8(regions) else None
        if calibration is None:
            return [(unchanged, model)]
        values = planner.watched_values(model, regions)
        with self.stages("calibrate", len(calibration)) as advance:
            found = collect(
                model,
                values,
                calibration,
                threads=self.threads,
                seed=self.request.seed,
                advance=advance,
            )
        self.warnings += [f"NaN or Inf that reaches no output: {sample}" for sample in found.dirty_samples]
        with self.stages("plan"):
            quantized = planner.integer_plan(model, regions, found.sketches, self._quantize.ranges)
        return [(quantized, model)] if self._orders_int8 else [(unchanged, model), (quantized, model)]

    def _check_order(self, regions: Sequence[Region]) -> None:
        """A precision that was asked for by name, and that nothing can have, is an error and no quiet float model."""
        wanted = "int8" if self._orders_int8 else self.request.precision
        if wanted in {"auto", "fp32"} or any(wanted in region.precisions for region in regions):
            return
        name, backend = self.request.profile.name, self.request.profile.backend
        reasons = Counter(region.reason or f"the {backend} backend does not write it yet" for region in regions)
        why = f": {reasons.most_common(1)[0][0]}" if reasons else ""
        raise InputError(
            f"no part of `{self.request.model}` can run at {wanted} on `{name}`{why}", "pass --precision auto"
        )

    def _tries_int8(self, regions: Sequence[Region]) -> bool:
        """Whether INT8 is a candidate; where only samples or verification are missing, a warning says so."""
        if not self._wants_int8 or not any("int8" in region.precisions for region in regions):
            return False
        if self.samples.calibration is None:
            self.warnings.append("INT8 was not tried: it needs samples (--calib)")
            return False
        if self.original is None and not self._orders_int8:
            self.warnings.append("INT8 was not tried: unverified, nothing tells whether it is right enough")
            return False
        return True

    def original_as_candidate(self) -> list[tuple[Plan, ir.Model]]:
        """The model as it came, where latency decides and no order was given: graph passes may not pay either."""
        if self.unmeasured is not None or self.request.pipeline is not None or self.request.precision != "auto":
            return []
        return [(replace(planner.float_plan(self.target.regions(self.source)), name=_ORIGINAL), self.source)]

    def build(self, plan: Plan, model: ir.Model, folder: Path) -> _Built:
        """Write one candidate."""
        folder.mkdir()
        with self.stages("emit"):
            return _Built(plan, folder, self.target.emit(model, plan, folder))

    def judge(self, built: Sequence[_Built]) -> list[Judged]:
        """Errors of every candidate on held-out samples, and latency beside the original's."""
        if self.original is None:
            return [Judged(item.plan.name, item.bytes, (), None, None) for item in built]
        runners = {item.plan.name: self.target.run(item.folder, item.artifact, self.threads) for item in built}
        runnable = {name: runner for name, runner in runners.items() if runner is not None}
        with self.stages("verify", self.samples.verification_count) as advance:
            errors = compare(
                self.original,
                runnable,
                self.samples.verification(),
                self.samples.held_out.describe,
                parts=ir.output_parts(self.source),
                advance=advance,
            )
        latencies: dict[str, Latency] = {}
        if self.unmeasured is None:
            feed = next(iter(self.samples.verification()))
            with self.stages("time", _ROUNDS) as advance:
                latencies = interleaved({_REFERENCE: self.original, **runnable}, feed, rounds=_ROUNDS, advance=advance)
        self.original_latency = latencies.get(_REFERENCE)
        return [self._judged(item, errors.get(item.plan.name, []), latencies.get(item.plan.name)) for item in built]

    def _judged(self, item: _Built, errors: Sequence[OutputError], latency: Latency | None) -> Judged:
        refused = None
        if item.plan.at("int8") and not self._orders_int8:
            refused = self.request.budget.refuses(errors)
        return Judged(item.plan.name, item.bytes, errors, latency, refused)

    def report(self, winner: _Built, why: str, judged: Sequence[Judged], steps: Sequence[Step]) -> Report:
        """Everything that can be told."""
        best = next(item for item in judged if item.name == winner.plan.name)
        speedup = None if best.latency is None else best.latency.ratio
        faults = self.request.budget.faults(best.errors, speedup)
        if self.request.budget.min_speedup is not None and speedup is None:
            faults.append(f"--min-speedup cannot be checked: latency was not measured: {self.unmeasured}")
        return Report(
            source=str(self.request.model),
            target=self.request.profile.name,
            out=str(self.request.out),
            pipeline=str(self.pipeline),
            chosen=best.name,
            why=why,
            plan=winner.plan,
            passes=tuple(_pass_report(step) for step in steps),
            candidates=tuple(judged),
            original_latency=self.original_latency,
            latency_note=self.unmeasured,
            original_bytes=self.request.model.stat().st_size,
            artifact_bytes=best.bytes,
            samples=self.samples.table(),
            checked=winner.artifact.checked if self.original is not None else "rules",
            unchecked=winner.artifact.unchecked,
            warnings=tuple(self.warnings),
            budget_faults=tuple(faults),
            stages=self.stages.seconds,
        )

    def describe(self, report: Report, winner: _Built) -> None:
        """Write report.json and manifest.json into the winner's folder."""
        write_report(report, winner.folder)
        calibration = self.samples.calibration
        manifest = Manifest(
            model=winner.artifact.main,
            files=winner.artifact.files,
            source={"path": self.request.model.name, "sha256": ir.file_sha256(self.request.model)},
            calib=None
            if calibration is None
            else {"path": self.samples.source, "sha256": calibration.sha256, "samples": len(calibration)},
            profile=profiles.to_table(self.request.profile),
            pipeline=str(self.pipeline),
            versions=versions(),
            run=dict(winner.artifact.run) | {"threads": self.threads},
            interface=ir.interface(self.source),
            checked=report.checked,
        )
        write_manifest(manifest, winner.folder)

    original_latency: Latency | None = None


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
    return sum(1 for graph in model.graphs() for node in graph if node.op_type != "Constant")

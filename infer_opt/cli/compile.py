"""`infer-opt compile`: a model and a device in, an artifact folder out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from infer_opt.cli.choices import (
    Augment,
    Json,
    MaxDrop,
    Metric,
    MinSqnr,
    Plugins,
    Preprocess,
    Seed,
    Shapes,
    Surgery,
    Threads,
    augmentations,
    budget_number,
    load_plugins,
    load_profile,
)
from infer_opt.cli.explain import EVERY_PASS, check_pass, explain_passes
from infer_opt.cli.limits import limit_memory, seconds
from infer_opt.cli.output import write, write_json
from infer_opt.cli.surgery import operated_model
from infer_opt.errors import BudgetError, InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.compile import Request
    from infer_opt.profiles import Profile
    from infer_opt.report import Report

__all__ = ["compile_command"]


def compile_command(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.")],
    *,
    target: Annotated[
        str, typer.Option(metavar="NAME|FILE[,...]", help="Device: a shipped profile or a profile file; or several.")
    ],
    calib: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Samples: .npz, .npy, a folder of them or of images, FILE.py:function, or `random`. INT8 needs them.",
        ),
    ] = None,
    preprocess: Preprocess = None,
    augment: Augment = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The artifact's folder, MODEL-TARGET/ by default; with several targets, their parent."
        ),
    ] = None,
    precision: Annotated[
        Literal["auto", "fp32", "fp16", "int8", "int4"],
        typer.Option(help="`auto` lets precisions compete; any other is an order.", show_default=True),
    ] = "auto",
    pipeline: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Exactly these passes, like `simplify,fuse,quantize{method=entropy}`."),
    ] = None,
    metric: Metric = "auto",
    evaluate: Annotated[
        str | None,
        typer.Option(
            "--eval", metavar="FILE.py:FUNC", help="Your own score: takes run(inputs) -> outputs, returns a number."
        ),
    ] = None,
    max_drop: MaxDrop = None,
    min_sqnr: MinSqnr = None,
    min_speedup: Annotated[
        float | None, typer.Option(metavar="X", min=0.0, help="Least latency of the original by the artifact's.")
    ] = None,
    shapes: Shapes = None,
    threads: Threads = None,
    time_budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="End the search with the best so far, like `90s` or `10m`.")
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="End with an error beyond so much memory, like `2GiB`; Linux only."),
    ] = None,
    latency_table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The latency.json of an artifact, in place of measuring: the same choice again."
        ),
    ] = None,
    seed: Seed = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A fact of the profile to change; may be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an artifact that is there.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do and tell everything, but write no artifact.")] = False,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Run nothing; the artifact is unverified.")] = False,
    explain: Annotated[
        str | None,
        typer.Option(metavar="[PASS]", help="Tell what nearly happened and why it did not, of one pass or of all."),
    ] = None,
    dump_ir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the graph after every pass that changed it.")
    ] = None,
    plugins: Plugins = None,
    surgery: Surgery = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="A pass that changes an output is an error, code 70.")
    ] = False,
    allow_ops: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-op", metavar="DOMAIN::OP", help="A custom operator that the device has; may be repeated."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile a model for a device, verified and timed.

    Writes an artifact folder, whole or not at all, and compares it with the original. Prints the artifact's path on
    stdout, or its report with --json; with several targets a line each, or a list. Exit code 3 where the artifact
    was made, but misses a stated budget or has an output that collapsed.
    """
    from infer_opt import ir
    from infer_opt.calibrate.budget import Budget
    from infer_opt.compile import Request
    from infer_opt.passes import Pipeline

    limit_memory("--max-memory", max_memory)
    load_plugins(plugins)
    profiles = _profiles(target, settings or [])
    context.obj["pipeline"] = pipeline or "\n".join(f"{profile.name}: {profile.pipeline}" for profile in profiles)
    request = Request(
        model=model,
        profile=profiles[0],
        out=out or Path(f"{model.stem}-{profiles[0].name}"),
        calib=calib,
        preprocess=preprocess,
        augment=augmentations(augment),
        pipeline=None if pipeline is None else Pipeline.parse(pipeline),
        precision=precision,
        budget=Budget(
            max_drop=budget_number("--max-drop", max_drop),
            min_sqnr=budget_number("--min-sqnr", min_sqnr),
            min_speedup=budget_number("--min-speedup", min_speedup),
        ),
        shapes=tuple(map(ir.InputShape.parse, shapes or ())),
        threads=threads,
        seed=seed,
        force=force,
        verify=not no_verify,
        strict=strict,
        allowed_ops=frozenset(allow_ops or ()),
        dry_run=dry_run,
        dump_ir=_not_a_file("--dump-ir", dump_ir),
        metric=metric,
        evaluate=evaluate,
        latency_table=latency_table,
        time_budget=seconds("--time-budget", time_budget),
    )
    requests = [request] if len(profiles) == 1 else _for_each(profiles, request, out)
    with operated_model(model, surgery) as operated:
        requests = [replace(each, surgery=surgery, operated=operated) for each in requests]
        _compile(requests, explain, as_json=as_json)


def _profiles(target: str, settings: Sequence[str]) -> list[Profile]:
    """Every profile that `--target` names; all are read before any work begins."""
    found = [load_profile(name.strip(), settings) for name in target.split(",")]
    names = [profile.name for profile in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"--target names `{twice}` twice", "keep one of the two")
    return found


def _not_a_file(option: str, folder: Path | None) -> Path | None:
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"{option} `{folder}` exists and is not a folder", "name another")
    return folder


def _for_each(profiles: Sequence[Profile], request: Request, out: Path | None) -> list[Request]:
    """The same request for several profiles, each with folders of its own."""
    return [
        replace(
            request,
            profile=profile,
            out=out / profile.name if out else Path(f"{request.model.stem}-{profile.name}"),
            dump_ir=request.dump_ir and request.dump_ir / profile.name,
        )
        for profile in profiles
    ]


def _compile(requests: Sequence[Request], explain: str | None, *, as_json: bool) -> None:
    """Compile one after the other; what was made is told even where a later one fails."""
    from infer_opt.cli.progress import progress
    from infer_opt.cli.summary import summarise
    from infer_opt.compile import compile_model

    check_pass(explain)
    reports: list[Report] = []
    try:
        for request in requests:
            report = compile_model(request, progress())
            reports.append(report)
            summarise(report, dry_run=request.dry_run)
            if explain:
                explain_passes(report, None if explain == EVERY_PASS else explain)
            if not as_json and not request.dry_run:
                write(report.out)
    finally:
        if as_json and reports:
            write_json(reports[0].table() if len(requests) == 1 else [report.table() for report in reports])
    faults = [_missed(report) for report in reports if report.budget_faults]
    if faults:
        raise BudgetError(f"the budget is missed by {' | '.join(faults)}", "loosen it, or try another --precision")


def _missed(report: Report) -> str:
    """What an artifact misses, and where there was a choice, what came of the other candidates."""
    chosen = [report.why] if len(report.candidates) > 1 else []
    return f"`{report.out}`: {'; '.join([*report.budget_faults, *chosen])}"

"""`infer-opt sensitivity`: what each part of a model costs at the outputs when it runs at INT8."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infer_opt.cli.choices import (
    Augment,
    Json,
    Plugins,
    Preprocess,
    Seed,
    Shapes,
    Threads,
    augmentations,
    load_plugins,
    load_profile,
)
from infer_opt.cli.output import facts, listing, write, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["sensitivity_command"]


def sensitivity_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file.")],
    *,
    target: Annotated[str, typer.Option(metavar="NAME|FILE", help="A profile.")],
    calib: Annotated[str, typer.Option(metavar="PATH", help="Samples, as `compile --calib` takes them.")],
    preprocess: Preprocess = None,
    augment: Augment = None,
    pipeline: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Passes before it; the profile's by default.")
    ] = None,
    shapes: Shapes = None,
    plugins: Plugins = None,
    threads: Threads = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Show what each part of a model costs at the outputs when it alone runs at INT8.

    A part is what would be lowered together: a convolution or matrix product and what follows it in integers. The
    error of each output is measured on a few samples with the kernels of this host, most costly part first, and the
    error of all parts together is predicted from them: noise adds. Beside it, how long the part takes in float and at
    INT8, where the latency of this host counts for the profile. A part that can run at INT8 both ways, with ranges of
    the samples (`int8`) and with ranges found at run time (`int8-dynamic`), has a line for each.

    Below it the Pareto front: of each error, the fastest choice of parts to lower, with the error of the whole choice
    on calibration samples and its latency, modelled from the measured kernel times. Nothing is written.
    """
    from infer_opt import ir
    from infer_opt.calibrate.sensing_table import sensing_table
    from infer_opt.cli.progress import progress
    from infer_opt.compile.request import Request
    from infer_opt.compile.sensing import sense
    from infer_opt.passes import Pipeline

    load_plugins(plugins)
    request = Request(
        model,
        load_profile(target),
        Path(),
        calib=calib,
        preprocess=preprocess,
        augment=augmentations(augment),
        pipeline=None if pipeline is None else Pipeline.parse(pipeline),
        shapes=tuple(ir.InputShape.parse(text) for text in shapes or ()),
        threads=threads,
        seed=seed,
    )
    sensed, front = sense(request, progress())
    table = {"schema": 1, "model": str(model), "target": request.profile.name, **sensing_table(sensed, front)}
    if as_json:
        write_json(table)
        return
    parts = list(sensed.sensitivity.signals)
    rows = [
        (
            entry["name"],
            entry["precision"],
            str(len(entry["regions"])),
            *(_decibels(entry["sqnr_db"][part]) for part in parts),
            *map(_microseconds, entry["milliseconds"] or ()),
        )
        for entry in table["groups"]
    ]
    together = [
        ("all together (predicted)", name, "", *(_decibels(found[part]) for part in parts))
        for name, found in table["together_db"].items()
    ]
    times = ("float us", "INT8 us") if table["times"] is not None else ()
    header = ("part", "precision", "regions", *parts, *times)
    rows += [row + ("",) * len(times) for row in together]
    listing(header, rows, numbers=range(2, len(header)))
    write("")
    _list_front(table)
    write("")
    facts(_notes(table), title=f"SQNR in dB (measured, {table['samples']} samples), {model} for {table['target']}")


def _list_front(table: dict[str, Any]) -> None:
    parts = list(next(iter(table["together_db"].values()), {}))
    timed = table["times"] is not None
    rows = [
        (
            point["level"],
            str(len(point["groups"])),
            *(_decibels(point["sqnr_db"][part]) if part in point["sqnr_db"] else "" for part in parts),
            *((f"{point['modelled_ms']:.3g}", f"{point['modelled_speedup']:.2f}x") if timed else ()),
        )
        for point in table["front"]
    ]
    header = ("every part keeps", "lowered", *parts, *(("modelled ms", "speed-up") if timed else ()))
    listing(header, rows, numbers=range(1, len(header)), title="Pareto front, predicted")


def _notes(table: dict[str, Any]) -> Iterator[tuple[str, str]]:
    kinds = {
        "measured": "measured kernel by kernel on this host, all parts at INT8 together",
        "modelled": table["latency_model"],
    }
    yield "latency", "; ".join(filter(None, (kinds.get(table["times"]), table["unmeasured"])))
    summed = "" if table["times"] is None else f"; latency modelled: {table['times']} kernel times, summed"
    yield "front", f"SQNR of calibration samples run with the whole choice{summed}"
    lowered = {name for entry in table["groups"] for name in entry["regions"]}
    yield "parts", f"{len({entry['name'] for entry in table['groups']})}, of {len(lowered)} regions"
    reasons: dict[str, int] = {}
    for entry in table["kept"]:
        reasons[entry["reason"]] = reasons.get(entry["reason"], 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        yield "kept in float", f"{count} regions: {reason}"


def _microseconds(milliseconds: float) -> str:
    return f"{1e3 * milliseconds:.0f}"


def _decibels(value: float) -> str:
    return f"{value:.1f}"

"""`infer-opt bench`: latency, throughput and memory of models and artifacts on this host, measured in turns."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infer_opt.cli.baseline import grown, read_baseline, read_percent
from infer_opt.cli.choices import Json, Preprocess, Threads, load_profile
from infer_opt.cli.output import bytes_text, listing, note, write_json
from infer_opt.cli.resident import peak_resident
from infer_opt.cli.subjects import Source, Subject, subjects_of
from infer_opt.errors import BudgetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.timing import Latency

__all__ = ["bench_command"]

_ROUNDS = 100
_SECONDS = 20.0  # of timing, where --rounds does not say otherwise


def bench_command(
    models: Annotated[list[str], typer.Argument(metavar="ARTIFACT|MODEL", help="Artifact folders and ONNX files.")],
    *,
    target: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="The profile that MODELs are meant for: its threads.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DATA", help="Samples, as `compile --calib` takes them; random ones if none.")
    ] = None,
    preprocess: Preprocess = None,
    threads: Threads = None,
    rounds: Annotated[
        int | None, typer.Option(min=3, help=f"Rounds; {_ROUNDS} by default, fewer where they take long.")
    ] = None,
    batch: Annotated[str | None, typer.Option(metavar="N[,...]", help="Batch sizes; the samples' if none.")] = None,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A report.json, or an earlier bench's JSON, to compare with.")
    ] = None,
    fail_above: Annotated[
        str | None, typer.Option(metavar="N%", help="Exit code 3 where P50 grew by more; 5% by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure latency, throughput and memory on this host.

    P50, P90 and P99 over single runs, several models in turns; peak memory in a process of its own. With
    --baseline, exit code 3 where P50 grew by more than --fail-above.
    """
    if fail_above and not baseline:
        raise UsageError("--fail-above has nothing to compare with", "pass --baseline FILE")
    limit = read_percent(fail_above or "5%")
    before = read_baseline(baseline) if baseline else None
    profile = load_profile(target) if target else None
    sizes = _sizes(batch)
    twice = next((name for name in models if models.count(name) > 1), None)
    if twice:
        raise UsageError(f"`{twice}` is named twice", "name each model once")
    subjects = [
        subject for name in models for subject in subjects_of(name, profile, Source(data, preprocess), threads, sizes)
    ]
    results = _measure(subjects, rounds)
    compared, faults = grown(results, before, limit) if before else ([], [])
    if as_json:
        write_json({"schema": 1, "kind": "measured", "results": results, "baseline": compared})
    else:
        _print(results, subjects)
    if faults:
        raise BudgetError("; ".join(faults), f"allow more with --fail-above, now {limit:.3g}")


def _sizes(batch: str | None) -> list[int]:
    words = batch.split(",") if batch else []
    if any(not word.strip().isdecimal() or int(word) < 1 for word in words):
        raise UsageError(f"--batch cannot be `{batch}`", "write it like `1,2,4`")
    return sorted({int(word) for word in words})


def _measure(subjects: Sequence[Subject], rounds: int | None) -> list[dict[str, Any]]:
    """Models of one batch size take turns, one batch size after the other."""
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.timing import in_turns
    from infer_opt.cli.progress import progress

    stages = Stages(progress())
    peaks = []
    with stages("memory", len(subjects)) as advance:
        for subject in subjects:
            peaks.append(peak_resident(subject.file, subject.feed, subject.threads))
            advance()
    batches = sorted({subject.batch for subject in subjects})
    seconds = float("inf") if rounds else _SECONDS / len(batches)
    found: dict[str, Latency] = {}
    with stages("time", len(batches) * (rounds or _ROUNDS)) as advance:
        for batch in batches:
            timers = {
                str(index): partial(subject.runner.seconds, subject.feed)
                for index, subject in enumerate(subjects)
                if subject.batch == batch
            }
            found |= in_turns(timers, rounds=rounds or _ROUNDS, seconds=seconds, advance=advance)
    return [
        _result(subject, found[str(index)], peak)
        for index, (subject, peak) in enumerate(zip(subjects, peaks, strict=True))
    ]


def _result(subject: Subject, latency: Latency, peak: int | None) -> dict[str, Any]:
    return {
        "name": subject.name,
        "batch": subject.batch,
        "threads": subject.threads,
        "p50_ms": round(latency.p50_ms, 4),
        "p90_ms": round(latency.p90_ms, 4),
        "p99_ms": round(latency.p99_ms, 4),
        "rounds": latency.rounds,
        "samples_per_second": round(1e3 * subject.batch / latency.p50_ms, 2),
        "speedup": round(latency.ratio, 3),
        "peak_resident_bytes": peak,
        "random_inputs": subject.random,
        "note": subject.note,
    }


def _print(results: Sequence[dict[str, Any]], subjects: Sequence[Subject]) -> None:
    header = ("model", "batch", "P50 ms", "P90 ms", "P99 ms", "samples/s", "speed-up", "peak memory")
    rows = [
        (
            result["name"],
            str(result["batch"]),
            *(f"{result[key]:.3g}" for key in ("p50_ms", "p90_ms", "p99_ms")),
            f"{result['samples_per_second']:,.4g}",
            f"{result['speedup']:.2f}x",
            "unknown" if result["peak_resident_bytes"] is None else bytes_text(result["peak_resident_bytes"]),
        )
        for result in results
    ]
    listing(header, rows, numbers=range(1, len(header)))
    threads = " and ".join(sorted({str(subject.threads) for subject in subjects}))
    inputs = "random inputs" if any(subject.random for subject in subjects) else "the first sample"
    note(f"measured on this host: {results[0]['rounds']} rounds in turns, threads: {threads}, on {inputs}")
    note("peak memory: resident, of a process of its own, beyond what it had before it loaded the model")
    for subject in dict.fromkeys((subject.name, subject.note) for subject in subjects if subject.note):
        note(f"`{subject[0]}` runs here with other kernels than the device's: {subject[1]}")

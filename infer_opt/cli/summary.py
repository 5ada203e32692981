"""What `compile` tells a person about the artifact it made."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from infer_opt.cli.output import bytes_text, facts
from infer_opt.report import missing_for_page, samples_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infer_opt.calibrate.metrics import OutputError
    from infer_opt.report import Report

__all__ = ["error_text", "summarise"]

_MOST_OUTPUTS = 6
_MOST_WARNINGS = 6


def summarise(report: Report, *, dry_run: bool) -> None:
    """Print the report's main lines on stderr."""
    title = f"{report.source} for {report.target}: {report.chosen}, {_speedup(report)}"
    facts(_rows(report, dry_run=dry_run), title=title, stream=sys.stderr)


def _rows(report: Report, *, dry_run: bool) -> Iterator[tuple[str, str]]:
    yield "artifact", f"{report.out} (not written: --dry-run)" if dry_run else report.out
    yield "why", report.why
    if report.passes:
        before, after = report.passes[0].nodes_before, report.passes[-1].nodes_after
        yield "nodes", f"{before} before, {after} after {report.pipeline}"
    regions = Counter(choice.precision for choice in report.plan.choices.values())
    yield "regions", ", ".join(f"{count} at {precision}" for precision, count in regions.most_common()) or "none"
    yield "latency", _latency(report)
    yield "size", f"{bytes_text(report.original_bytes)} before, {bytes_text(report.artifact_bytes)} after"
    yield from _errors(report)
    missing = missing_for_page()
    if missing and not dry_run:
        yield "page", f"not written: {missing}"
    yield from (("unchecked", text) for text in report.unchecked)
    yield from (("warning", text) for text in report.warnings[:_MOST_WARNINGS])
    if len(report.warnings) > _MOST_WARNINGS:
        yield "warning", f"{len(report.warnings) - _MOST_WARNINGS} more in report.json"


def _speedup(report: Report) -> str:
    found = report.latency()
    if found["kind"] == "measured":
        return f"{found['speedup']:.2f}x the original (measured)"
    return (
        f"{found['speedup_over_float']:.2f}x all in FP32 (modelled)"
        if found["kind"] == "modelled"
        else "latency not measured"
    )


def _latency(report: Report) -> str:
    before, after, found = report.original_latency, report.best.latency, report.latency()
    missing = f"not measured: {report.latency_note or 'nothing could be run'}"
    if found["kind"] == "modelled":
        taken = f"{found['float_ms']:.3g} ms in FP32, {found['artifact_ms']:.3g} ms after"
        return f"{taken} (modelled by a roofline; {missing})"
    if before is None or after is None:
        return missing
    return f"{before.p50_ms:.3g} ms before, {after.p50_ms:.3g} ms after (measured here, P50, {after.rounds} rounds)"


def _errors(report: Report) -> Iterator[tuple[str, str]]:
    errors = report.best.errors
    if not errors:
        yield "error", "not measured: nothing was run"
        return
    yield "error", f"on {samples_in_words(report.samples)}, against the original:"
    worst = sorted(errors, key=lambda error: error.sqnr)
    yield from (("error", error_text(error)) for error in worst[:_MOST_OUTPUTS])
    if len(worst) > _MOST_OUTPUTS:
        yield "error", f"{len(worst) - _MOST_OUTPUTS} more outputs, all nearer, in report.json"


def error_text(error: OutputError) -> str:
    """The error of one output, by the measure that fits it."""
    name = f"`{error.name}`"
    if error.shape_differs:
        return f"{name} has another shape"
    if not error.floats:
        return f"{name} {error.unequal} of {error.elements} elements differ" if error.unequal else f"{name} equal"
    if error.noise == 0:
        return f"{name} equal, bit for bit"
    text = f"{name} SQNR {error.sqnr:.1f} dB, largest difference {error.largest:.3g}"
    words = error.kind.words()
    return f"{text}, {words}" if words else text

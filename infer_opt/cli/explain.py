"""`--explain`: what nearly happened in each pass, and why it did not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from infer_opt.cli.output import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infer_opt.report import Report

__all__ = ["EVERY_PASS", "check_pass", "explain_passes"]

EVERY_PASS = "all"  # noqa: S105 - a value of `--explain`, and no password


def check_pass(name: str | None) -> None:
    """Raises UsageError where no pass has that name."""
    from infer_opt.passes.engine.registry import find

    if name not in {None, EVERY_PASS}:
        find(str(name))


def explain_passes(report: Report, only: str | None) -> None:
    """Print on stderr what each pass changed and nearly changed, and why regions kept their precision.

    Args:
        only: the name of one pass, or None for all.
    """
    from infer_opt.calibrate.judging import ORIGINAL

    for item in report.passes:
        if only in {None, item.text.partition("{")[0]}:
            rows = [(f"{count}x", rule) for rule, count in item.changes.items()]
            rows += [("not", f"{rule} at `{node}`: {reason}") for rule, node, reason in item.misses]
            rows += [("undone", item.undone)] if item.undone else []
            facts(rows or [("", "nothing to do")], title=f"{item.text}:", stream=sys.stderr)
    if report.chosen == ORIGINAL:
        facts([("", f"none made the artifact: {report.why}")], title="passes:", stream=sys.stderr)
    if only in {None, "quantize"}:
        facts(_kept(report), title="precision of each region:", stream=sys.stderr)


def _kept(report: Report) -> Iterator[tuple[str, str]]:
    for region in report.plan.regions:
        choice = report.plan.choices[region.name]
        reason = choice.reason if region.schemes else region.reason or choice.reason
        yield choice.precision, f"`{region.name}` ({region.op_type}): {reason}"

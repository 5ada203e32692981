"""`bench --baseline`: has latency grown since a report or an earlier bench?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from infer_opt.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["grown", "read_baseline", "read_percent"]


def read_percent(text: str) -> float:
    """`5%` as 0.05.

    Raises:
        UsageError: it is no percentage of 0 or more.
    """
    number, sign, rest = text.partition("%")
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if not sign or rest or not 0 <= share < float("inf"):
        raise UsageError(f"--fail-above cannot be `{text}`", "write it like `5%`")
    return share


def read_baseline(path: Path) -> dict[tuple[str, int] | None, float]:
    """P50 in milliseconds by name and batch, from `bench --json`; under None, the artifact's, from report.json.

    Raises:
        InputError: the file is neither, or holds no measured latency.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"`{path}` cannot be read: {error.strerror}", "name a report.json") from None
    except ValueError:
        content = None
    try:
        return _figures(content)
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            f"`{path}` holds no measured latency", "name a report.json whose latency was measured, or a `bench --json`"
        ) from None


def _figures(content: Any) -> dict[tuple[str, int] | None, float]:
    if "results" in content:
        return {(str(item["name"]), int(item["batch"])): float(item["p50_ms"]) for item in content["results"]}
    return {None: float(content["latency"]["artifact_ms"])}


def grown(
    results: Sequence[Mapping[str, Any]], baseline: Mapping[tuple[str, int] | None, float], limit: float
) -> tuple[list[dict[str, Any]], list[str]]:
    """Each result beside its baseline, and in words those whose P50 grew by more than `limit`.

    Raises:
        UsageError: a report.json, which has one latency, is to be compared with several.
        InputError: none of the results is in the baseline.
    """
    if None in baseline and len(results) > 1:
        raise UsageError("--baseline is a report.json, which has one latency", "bench one artifact at one batch size")
    compared, faults = [], []
    for result in results:
        before = baseline.get(None, baseline.get((result["name"], result["batch"])))
        if before is None:
            continue
        growth = result["p50_ms"] / before - 1
        compared.append({"name": result["name"], "batch": result["batch"], "p50_ms": before, "growth": growth})
        if growth > limit:
            faults.append(
                f"`{result['name']}` at batch {result['batch']}: P50 {result['p50_ms']:.3g} ms (measured) is"
                f" {growth:+.1%} of the baseline's {before:.3g} ms"
            )
    if not compared:
        raise InputError("the baseline has none of these models at these batch sizes", "name them as it does")
    return compared, faults

"""The figures of one model under one engine, and what is printed of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["KEPT", "OURS", "Means", "Row", "cell", "means", "table"]

OURS = "infer-opt"
KEPT = 0.01  # of the task metric: what an artifact may lose


@dataclass
class Row:
    """One artifact, all figures measured; None where there is none, all of them where it fails."""

    model: str
    engine: str
    seconds: float = 0.0
    peak_mb: float | None = None
    artifact: str | None = None
    artifact_mb: float | None = None
    sqnr_db: float | None = None
    fp32_ms: float | None = None
    ms: float | None = None
    speedup: float | None = None
    fp32_score: float | None = None
    score: float | None = None
    fails: str | None = None
    """Why there is no artifact, or none that runs, in one line."""

    @property
    def change(self) -> float | None:
        """Of the task metric, from FP32; None where there is none."""
        return None if self.score is None or self.fp32_score is None else self.score - self.fp32_score

    @property
    def keeps(self) -> bool:
        """Whether it runs and the task metric drops by no more than `KEPT`."""
        return not self.fails and self.change is not None and self.change >= -KEPT


@dataclass(frozen=True)
class Means:
    """Geometric means of the speed-up over the models that have a metric.

    What a user would be left with: an artifact of ours that loses the metric counts 1.0, and so does a model of which
    no rival keeps it, or none at more than FP32's speed.
    """

    models: int
    ours: float
    best_rival: float
    loses: tuple[str, ...]
    """Models of which our artifact fails or loses the metric."""


def best_rival(rows: Sequence[Row]) -> Row | None:
    """The fastest rival that keeps the metric, of the rows of one model."""
    keeping = [row for row in rows if row.engine != OURS and row.keeps]
    return max(keeping, key=lambda row: row.speedup or 0.0, default=None)


def by_model(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by model, in their order."""
    return {name: [row for row in rows if row.model == name] for name in dict.fromkeys(row.model for row in rows)}


def means(rows: Sequence[Row]) -> Means | None:
    """None where no model has both a metric and a row of ours."""
    scored = {name: found for name, found in by_model(rows).items() if found[0].fp32_score is not None}
    ours = {row.model: row for found in scored.values() for row in found if row.engine == OURS}
    if not ours:
        return None
    best = [best_rival(scored[name]) for name in ours]
    return Means(
        models=len(ours),
        ours=geometric_mean([(row.speedup or 1.0) if row.keeps else 1.0 for row in ours.values()]),
        best_rival=geometric_mean([max(1.0, row.speedup or 1.0) if row else 1.0 for row in best]),
        loses=tuple(name for name, row in ours.items() if not row.keeps),
    )


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def cell(row: Row | None) -> str:
    """Speed-up, bold where the metric is kept, its change, SQNR, seconds and peak MB; or that it fails."""
    if row is None:
        return ""
    if row.fails or row.speedup is None:
        return "fails"
    speedup = f"{row.speedup:.2f}x"
    parts = [f"**{speedup}**" if row.keeps else speedup]
    if row.fp32_score is not None:
        parts.append("no score" if row.change is None else f"{row.change:+.3f}")
    parts += [f"{row.sqnr_db:.0f} dB", f"{row.seconds:.0f} s"]
    parts += [] if row.peak_mb is None else [f"{row.peak_mb:.0f} MB"]
    return ", ".join(parts)


def best_cell(rows: Sequence[Row]) -> str:
    best = best_rival(rows)
    return f"{best.engine} {best.speedup:.2f}x" if best else "none" if rows[0].fp32_score is not None else ""


def table(rows: Sequence[Row]) -> str:
    """Markdown: a line a model, a column an engine; below it what fails and why, and the geometric means."""
    engines = list(dict.fromkeys(row.engine for row in rows))
    lines = [
        f"| model | score of FP32 | {' | '.join(engines)} | best rival that keeps |",
        f"| --- | --- | {'--- | ' * len(engines)}--- |",
    ]
    for name, found in by_model(rows).items():
        score = found[0].fp32_score
        made = {row.engine: row for row in found}
        cells = [name, "" if score is None else f"{score:.4f}", *(cell(made.get(engine)) for engine in engines)]
        lines.append(f"| {' | '.join(cells)} | {best_cell(found)} |")
    lines += ["", *(f"- {row.engine} fails on {row.model}: {row.fails}" for row in rows if row.fails)]
    return "\n".join([*lines, *([""] if lines[-1] else []), *conclusion(rows)])


def conclusion(rows: Sequence[Row]) -> list[str]:
    found = means(rows)
    if found is None:
        return ["No model has a metric, so it is unknown what the artifacts keep: pass --recipes FILE.py."]
    rest = len(by_model(rows)) - found.models
    return [
        f"Speed-up over FP32 (measured), geometric means over {found.models} models with a metric, 1.0 for each model",
        f"where it drops by more than {KEPT:g} or no engine is faster than FP32: infer-opt {found.ours:.2f}x,",
        f"best rival of each model {found.best_rival:.2f}x.",
        f"infer-opt fails or loses it on: {', '.join(found.loses) or 'none'}. Models without a metric: {rest}.",
    ]

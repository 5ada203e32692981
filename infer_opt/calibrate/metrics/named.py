"""Metrics by the name that `--metric` takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from infer_opt.calibrate.metrics.class_scores import ClassScores
from infer_opt.calibrate.metrics.detections import Detections
from infer_opt.calibrate.metrics.directions import Directions
from infer_opt.calibrate.metrics.kind import Kind
from infer_opt.calibrate.metrics.sequences import Sequences
from infer_opt.calibrate.metrics.shares import Shares
from infer_opt.calibrate.metrics.top_classes import TopClasses

__all__ = ["AUTO", "METRICS", "Kinds", "auto_kinds"]

Kinds = Callable[[], tuple[Kind, ...]]

AUTO = "auto"


def auto_kinds() -> tuple[Kind, ...]:
    """The kinds that are told by the original's output, the first that fits before the others."""
    return (ClassScores(), Shares(), Directions())


def _only(kind: Callable[[], Kind]) -> tuple[Kind, ...]:
    return (kind(),)


METRICS: dict[str, Kinds] = {
    AUTO: auto_kinds,
    "sqnr": tuple,
    "cosine": partial(_only, partial(Directions, shortest=1)),
    "top1": partial(_only, TopClasses),
    "top5": partial(_only, partial(TopClasses, 5)),
    "detection": partial(_only, Detections),
    "ctc": partial(_only, Sequences),
}
"""Kinds by name: an output that none of them fits is judged by its noise."""

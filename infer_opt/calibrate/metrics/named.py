"""Metrics by the name that `--metric` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from infer_opt.calibrate.metrics.class_scores import ClassScores
from infer_opt.calibrate.metrics.detections import Detections
from infer_opt.calibrate.metrics.directions import Directions
from infer_opt.calibrate.metrics.kind import Kind
from infer_opt.calibrate.metrics.sequences import Sequences
from infer_opt.calibrate.metrics.shares import Shares
from infer_opt.calibrate.metrics.top_classes import TopClasses

__all__ = ["AUTO", "METRICS", "NOISE", "TOLD", "Metric"]

AUTO = "auto"


@dataclass(frozen=True)
class Metric:
    """How outputs are compared.

    Args:
        makers: of the kinds that an output may be, beside numbers; the first that fits it judges it.
        whole: whether an output that joins several things is judged as it is, where its parts are otherwise: boxes say
            nothing without the scores beside them.
        takes: the outputs that it speaks of, in words.
    """

    makers: tuple[Callable[[], Kind], ...]
    whole: bool
    takes: str

    def kinds(self) -> tuple[Kind, ...]:
        """New accumulators for one output."""
        return tuple(make() for make in self.makers)


TOLD = Metric((ClassScores, Shares, Directions), whole=False, takes="every output")
"""Tells the kind by the numbers."""

NOISE = Metric((), whole=False, takes="every float output")
"""Knows nothing but numbers."""

METRICS: dict[str, Metric] = {
    AUTO: TOLD,
    "sqnr": NOISE,
    "cosine": Metric((partial(Directions, shortest=1),), whole=True, takes="every float output of rank 1 or more"),
    "top1": Metric((TopClasses,), whole=True, takes="[..., classes] or [n, classes, height, width], 2 classes or more"),
    "top5": Metric(
        (partial(TopClasses, 5),), whole=True, takes="[..., classes] or [n, classes, height, width], 6 classes or more"
    ),
    "detection": Metric(
        (Detections,),
        whole=True,
        takes="[n, 4 + classes, places] or [n, places, 4 + classes] in which the original finds something",
    ),
    "ctc": Metric((Sequences,), whole=True, takes="[n, positions, symbols], 2 symbols or more"),
}
"""By name: an output that no kind fits is judged by its noise."""

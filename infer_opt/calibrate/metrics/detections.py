"""`--metric detection`: what a detector finds, on its raw grid of boxes and scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from infer_opt.calibrate.metrics.kind import Array, Kind

__all__ = ["Detections", "intersection_over_union"]

_LEAST_SCORE = 0.25
_SAME = 0.5  # of intersection over union: the same object
_MOST = 300  # objects of one picture
_LARGEST_DROP = 0.03
_COLLAPSE = 0.5
_BOX = 4


@dataclass
class Detections(Kind):
    """F1 of the candidate's detections against the original's, after greedy suppression of overlapping boxes.

    Outputs are [n, 4 + classes, places] or [n, places, 4 + classes], the longer axis being the places: boxes as centre,
    width and height, and one score a class from 0 to 1. Objects are the same where the class is and the boxes overlap
    by half.
    """

    name: ClassVar[str] = "detections"

    wanted: int = 0
    found: int = 0
    hits: int = 0
    unfit: bool = False

    @property
    def fits(self) -> bool:
        """Whether the original finds anything in outputs of such a shape."""
        return bool(self.wanted) and not self.unfit

    @property
    def drop(self) -> float | None:
        """What F1 lacks; None where neither finds anything."""
        both = self.wanted + self.found
        return 1.0 - 2.0 * self.hits / both if both else None

    def add(self, reference: Array, got: Array) -> None:
        """One sample's boxes and scores."""
        if reference.ndim != 3 or min(reference.shape[1:]) <= _BOX:
            self.unfit = self.unfit or reference.size > 0
            return
        turned = reference.shape[1] < reference.shape[2]
        for wanted, found in zip(reference, got, strict=True):
            ours, theirs = (_objects(array.T if turned else array) for array in (wanted, found))
            self.wanted += len(ours)
            self.found += len(theirs)
            self.hits += _matches(ours, theirs)

    def refusal(self, name: str) -> str | None:
        """By F1."""
        drop = self.drop or 0.0
        return (
            f"detections of `{name}` keep F1 {1 - drop:.3f}, under {1 - _LARGEST_DROP}"
            if drop > _LARGEST_DROP
            else None
        )

    def collapse(self, name: str) -> str | None:
        """By F1."""
        drop = self.drop or 0.0
        return f"output `{name}` collapsed: its detections keep F1 {1 - drop:.3f}" if drop > _COLLAPSE else None

    def words(self) -> str:
        """F1."""
        return f"F1 {1 - (self.drop or 0.0):.3f} of {self.wanted} detections"


def intersection_over_union(box: Array, others: Array) -> Array:
    """Of one box with each of others, as centre, width and height: [4] and [n, 4] to [n]."""
    low = np.maximum(box[:2] - box[2:] / 2, others[:, :2] - others[:, 2:] / 2)
    high = np.minimum(box[:2] + box[2:] / 2, others[:, :2] + others[:, 2:] / 2)
    common = np.clip(high - low, 0.0, None).prod(axis=1)
    together = box[2:].prod() + others[:, 2:].prod(axis=1) - common
    return np.asarray(common / np.maximum(together, 1e-12))


def _objects(grid: Array) -> list[tuple[int, Array]]:
    """Class and box of what is found in [places, 4 + classes], the surest first."""
    scores = np.nan_to_num(grid[:, _BOX:])
    classes, best = scores.argmax(axis=1), scores.max(axis=1)
    order = np.argsort(-best, kind="stable")[:_MOST]
    places = order[best[order] >= _LEAST_SCORE]
    kept: list[tuple[int, Array]] = []
    while places.size:
        first, places = places[0], places[1:]
        kept.append((int(classes[first]), grid[first, :_BOX]))
        overlaps = intersection_over_union(grid[first, :_BOX], grid[places, :_BOX])
        places = places[(overlaps < _SAME) | (classes[places] != classes[first])]
    return kept


def _matches(wanted: list[tuple[int, Array]], found: list[tuple[int, Array]]) -> int:
    left, hits = list(found), 0
    for label, box in wanted:
        same = [index for index, (other, _) in enumerate(left) if other == label]
        if not same:
            continue
        overlaps = intersection_over_union(box, np.asarray([left[index][1] for index in same]))
        if overlaps.max() >= _SAME:
            hits += 1
            del left[same[int(overlaps.argmax())]]
    return hits

"""Where candidates are made: each in a folder of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infer_opt.calibrate.judging import Built, Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from infer_opt.calibrate.runner import Runner
    from infer_opt.calibrate.shape_ranges import ShapeRange
    from infer_opt.calibrate.target import Target

__all__ = ["Bench"]


@dataclass(frozen=True)
class Bench:
    """A target, and the folder that its artifacts are written below; see `calibrate.judging.Workshop`.

    Args:
        threads: to load artifacts with, or None where nothing is to be run.
        shapes: of a sample's inputs, by which latency is modelled; None where there is no sample.
        ranges: of the shapes of inputs with open dimensions, over all samples.
    """

    target: Target
    folder: Path
    threads: int | None
    shapes: Mapping[str, Sequence[int]] | None = None
    ranges: Mapping[str, ShapeRange] = field(default_factory=dict)

    def build(self, candidate: Candidate) -> Built:
        """Write the artifact into a folder of the plan's name."""
        folder = self.folder / candidate.name
        folder.mkdir()
        return Built(candidate.plan, folder, self.target.emit(candidate.model, candidate.plan, folder, self.ranges))

    def open(self, built: Built) -> Runner | None:
        """Load it in this process."""
        if self.threads is None:
            return None
        return self.target.run(built.folder, built.artifact, self.threads)

    def modelled(self, candidate: Candidate) -> float | None:
        """By the target's own model."""
        latency = None if self.shapes is None else self.target.latency_model()
        if latency is None or self.shapes is None:
            return None
        times = latency.times(candidate.model, candidate.plan, self.shapes)
        return sum(times.regions.values()) + times.other

"""Tails: what changes only the end of a model is tried on that end alone, from values kept where it begins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.runner import Runner, to_keep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from infer_opt.calibrate.plan import Region
    from infer_opt.calibrate.sensitivity import Trial

__all__ = ["Tail", "Tails"]

Outputs: TypeAlias = "Mapping[str, np.ndarray[Any, Any]]"

_MOST_TAILS = 8  # each more saves less, and has to be kept
_MOST_BYTES = 40 << 20  # of what is kept for all tails
_BYTES = 4  # an element, as most are


@dataclass(frozen=True)
class Tail:
    """A model from a cut on, and a trial of it: its feeds are the values that cross the cut."""

    model: ir.Model
    trial: Trial


@dataclass
class Tails:
    """A model, samples to try changes of it on, and the ends of it that were needed so far.

    Cuts lie evenly among the nodes, each where least crosses; where that is more than may be kept, there are fewer.
    """

    model: ir.Model
    trial: Trial
    regions: Sequence[Region]
    _found: dict[int, Tail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        places = {str(node.name): place for place, node in enumerate(self.model.graph)}
        self._firsts = {
            region.name: min((places.get(node, 0) for node in region.nodes), default=0) for region in self.regions
        }
        self._starts = _starts(self.model, self.trial)

    def of(self, regions: Iterable[str]) -> Tail:
        """The shortest tail that holds the regions of these names: the whole model for one in a branch."""
        first = min(self._firsts[name] for name in regions)
        start = max((start for start in self._starts if start <= first), default=0)
        if start not in self._found:
            self._found[start] = self._cut(start)
        return self._found[start]

    def _cut(self, start: int) -> Tail:
        if start == 0:
            return Tail(self.model, self.trial)
        model, threads = ir.tail(self.model, start), self.trial.threads
        names = {str(value.name) for value in model.graph.inputs}
        head = Runner.of_model(
            ir.with_outputs(self.model, names - self.trial.feeds[0].keys()), "the model", threads=threads
        )
        made = [{**feed, **to_keep(head.run(feed))} for feed in self.trial.feeds]
        feeds = [{name: values[name] for name in names} for values in made]
        trial = self.trial.of(model, feeds, self.trial.parts, threads)
        return Tail(model, replace(trial, outputs=list(map(_shared, self.trial.outputs, trial.outputs))))


def _shared(kept: Outputs, made: Outputs) -> Outputs:
    """The arrays that are kept already, where they are the same: a runtime may fuse what is left in another way."""
    return {name: kept[name] if np.array_equal(array, kept[name]) else array for name, array in made.items()}


def _starts(model: ir.Model, trial: Trial) -> list[int]:
    """Places of nodes, in the order of the graph, before which the model is cut."""
    shapes = {name: array.shape for name, array in trial.feeds[0].items()}
    crossing = ir.crossing_sizes(model, ir.value_sizes(model, shapes))
    most = _MOST_BYTES / (_MOST_TAILS * _BYTES * len(trial.feeds))
    starts = []
    for part in range(1, _MOST_TAILS + 1):
        places = range(
            len(crossing) * (2 * part - 1) // (2 * _MOST_TAILS + 1),
            len(crossing) * (2 * part + 1) // (2 * _MOST_TAILS + 1),
        )
        best = min(places, key=lambda place: crossing[place], default=0)
        if places and 0 < crossing[best] <= most:
            starts.append(best)
    return starts

"""Sensitivity: the noise at the outputs that each group of regions makes when it alone is lowered, each way it may be.

Noise powers of errors that know nothing of each other add. So one measurement for each way to
lower a group predicts the error of every choice; the whole of YOLOv8n, 230 regions, by the sum of its parts to 1.3 dB.

Each measurement runs the real kernels: a session of the graph as the backend would write it for that group alone, from
a cut before it on. It shares its weights with all others, which makes it cheaper than one session with a switch before
every value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.journal import Journal
from infer_opt.calibrate.metrics import NOISE, sqnr_db
from infer_opt.calibrate.runner import Runner, to_keep
from infer_opt.calibrate.verification import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from infer_opt.calibrate.deadline import Deadline
    from infer_opt.calibrate.grouping import Alternative
    from infer_opt.calibrate.metrics import Metric, OutputError
    from infer_opt.calibrate.sample_set import SampleSet
    from infer_opt.calibrate.tails import Tails

__all__ = ["Noise", "Sensitivity", "Trial", "measure"]


_MOST_SAMPLES = 48
_FEWEST_SAMPLES = 8
_MOST_BYTES = 64 << 20  # of feeds and outputs, which are kept: a candidate is run on them, and then the next one


@dataclass(frozen=True)
class Noise:
    """What one lowered group adds: noise power by part of the outputs, summed over all samples and elements."""

    alternative: Alternative
    powers: Mapping[str, float]


@dataclass(frozen=True)
class Sensitivity:
    """All groups, each way they may be lowered.

    Args:
        signals: power of each part of the outputs, summed like the noises.
    """

    signals: Mapping[str, float]
    noises: tuple[Noise, ...]

    def sqnr(self, lowered: Collection[Alternative]) -> dict[str, float]:
        """SQNR of each part in dB, as predicted for these together."""
        chosen = [noise for noise in self.noises if noise.alternative in lowered]
        return {
            part: sqnr_db(signal, sum(noise.powers[part] for noise in chosen)) for part, signal in self.signals.items()
        }


@dataclass(frozen=True)
class Trial:
    """A few samples, and what the model in float makes of them.

    Args:
        outputs: by name, one mapping a sample.
        parts: of outputs that join several things, which count one by one.
        needed: places of samples that take part in any case.
    """

    feeds: Sequence[Mapping[str, np.ndarray]]
    outputs: Sequence[Mapping[str, np.ndarray]]
    parts: Mapping[str, ir.Parts]
    threads: int = 1
    needed: frozenset[int] = frozenset()

    @classmethod
    def of_samples(cls, model: ir.Model, samples: SampleSet, threads: int, besides: Iterable[int | None] = ()) -> Trial:
        """Samples from all over a set, as many as fit in a fixed amount of memory.

        Args:
            besides: indices of samples that take part in any case: one for each branch of an If.
        """
        runner = Runner.of_model(model, "the model", threads=threads)
        first = next(iter(samples))
        held = sum(array.nbytes for arrays in (first, runner.run(first)) for array in arrays.values())
        count = min(_MOST_SAMPLES, max(_FEWEST_SAMPLES, _MOST_BYTES // max(held, 1)), len(samples))
        needed = {index for index in besides if index is not None}
        picked = sorted({index * len(samples) // count for index in range(count)} | needed)
        wanted = set(picked)
        feeds = [feed for index, feed in enumerate(samples) if index in wanted]
        trial = cls.of(model, feeds, ir.output_parts(model), threads)
        return replace(trial, needed=frozenset(place for place, index in enumerate(picked) if index in needed))

    @classmethod
    def of(
        cls, model: ir.Model, feeds: Sequence[Mapping[str, np.ndarray]], parts: Mapping[str, ir.Parts], threads: int = 1
    ) -> Trial:
        """Run the model once on each sample."""
        runner = Runner.of_model(model, "the model", threads=threads)
        return cls(feeds, [to_keep(runner.run(feed)) for feed in feeds], parts, threads)

    def strongest(self, count: int, after: int = 0) -> Trial:
        """The samples that hold the largest share of any one part's power, and those that are needed, in their order.

        A part may have most of its power in few samples, such as the scores of a detector in those that show
        something: an error that is pooled over samples is the error there.

        Args:
            after: how many still stronger ones are left out, as far as there are enough without.
        """
        powers = np.array([self._powers(expected) for expected in self.outputs])
        totals = powers.sum(axis=0)
        shares = np.divide(powers, totals, out=np.zeros_like(powers), where=totals > 0).max(axis=1, initial=0.0)
        first = max(0, min(after, len(shares) - count))
        picked = sorted({*np.argsort(-shares, kind="stable")[first : first + count].tolist(), *self.needed})
        feeds, outputs = [self.feeds[index] for index in picked], [self.outputs[index] for index in picked]
        needed = frozenset(place for place, index in enumerate(picked) if index in self.needed)
        return replace(self, feeds=feeds, outputs=outputs, needed=needed)

    def _powers(self, outputs: Mapping[str, np.ndarray]) -> list[float]:
        """Of every output and part, of one sample."""
        found = Errors(outputs, self.parts, NOISE)
        found.add(outputs, outputs)
        return [error.signal for error in found.all()]

    def errors(self, model: ir.Model, metric: Metric = NOISE) -> list[OutputError]:
        """What another model makes of the samples, held to the outputs in float.

        Args:
            metric: how outputs are compared.
        """
        return self._errors(Runner.of_model(model, "the model", threads=self.threads), metric)

    def _errors(self, runner: Runner, metric: Metric) -> list[OutputError]:
        found = Errors(runner.outputs, self.parts, metric)
        for feed, expected in zip(self.feeds, self.outputs, strict=True):
            found.add(expected, runner.run(feed))
        return found.all()

    def last_errors(self, copy: ir.Model) -> list[OutputError]:
        """`errors` of a copy that nobody needs afterwards: its constants are gone then, and their memory is free."""
        found = self._errors(Runner.of_model(copy, "the model", threads=self.threads, disposable=True), NOISE)
        ir.drop_constants(copy)
        return found


def measure(
    tails: Tails,
    ways: Sequence[Alternative],
    alone: Callable[[ir.Model, Alternative], ir.Model],
    *,
    journal: Journal | None = None,
    deadline: Deadline | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Sensitivity:
    """Run every group alone, each way it may be lowered.

    Args:
        alone: a model, which may be a tail, with one group lowered, as the backend writes it.
        journal: what an earlier run measured, and takes what this one does.
        deadline: ends it; groups that were neither measured by then nor known are left out.
        advance: called after each.
    """
    kept = journal or Journal(None, "")
    signals: dict[str, float] = {}
    noises: list[Noise] = []
    for way in ways:
        key = f"{way.plan} {way.group.name}"
        found = kept.get(key)
        if found is None:
            if deadline is not None and deadline.leaves_out("some sensitivities"):
                continue
            tail = tails.of(way.regions)
            errors = tail.trial.last_errors(alone(tail.model, way))
            found = {
                "signals": {error.name: error.signal for error in errors},
                "powers": {error.name: error.noise for error in errors},
            }
            kept.add(key, found)
        signals = found["signals"]
        noises.append(Noise(way, found["powers"]))
        advance()
    return Sensitivity(signals, tuple(noises))

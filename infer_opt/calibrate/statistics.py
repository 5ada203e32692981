"""Statistics of activations over the calibration samples: one pass, bounded memory, exact extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.dirty import dirty_inputs
from infer_opt.calibrate.extremes import Extremes
from infer_opt.calibrate.hoisting import Hoist
from infer_opt.calibrate.instrument import OFFSETS, Probe, instrument
from infer_opt.calibrate.runner import Runner
from infer_opt.calibrate.sketch import Sketch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from infer_opt.calibrate.sample_set import Feed, SampleSet

__all__ = ["Look", "Onlooker", "Seen", "Statistics", "collect"]

Array = np.ndarray[Any, Any]
Seen = tuple[float, float, Array]
"""Minimum, maximum and subsample of a value for one feed; NaN spreads to the extremes."""


class Look(Protocol):
    """Runs a feed through the instrumented model."""

    def __call__(self, feed: Feed, sample: str) -> Mapping[str, Seen]:
        """What the feed makes of each watched value; `sample` is its name for messages."""
        ...


class Onlooker(Protocol):
    """Looks on while samples are run, and may run feeds of its own before the session ends."""

    def saw(self, feed: Feed, index: int) -> None:
        """A feed of the calibration samples, about to be run."""
        ...

    def finish(self, found: Statistics, look: Look) -> None:
        """All samples were run."""
        ...


class Statistics:
    """What `collect` found.

    Attributes:
        sketches: one for each watched value, by name.
        extremes: of each watched value, with and without any one sample.
        dirty_samples: samples that hold a NaN or Inf which reaches no output, in words.
        first_samples: of each branch of an If, by its name, the index of the first sample that took it; None where
            none did. What stands in a branch was observed on the samples that took it, and on no other.
    """

    def __init__(self, values: Sequence[str], branches: Iterable[str] = ()) -> None:
        self.sketches = {name: Sketch() for name in values}
        self.extremes = {name: Extremes() for name in values}
        self.dirty_samples: list[str] = []
        self.first_samples: dict[str, int | None] = dict.fromkeys(branches)

    def note_branches(self, sample: int, taken: Iterable[str]) -> list[str]:
        """Remember which branches a sample took, and give them back."""
        noted = list(taken)
        for name in noted:
            if self.first_samples[name] is None:
                self.first_samples[name] = sample
        return noted

    @property
    def never_taken(self) -> tuple[str, ...]:
        """Branches that no sample took."""
        return tuple(name for name, first in self.first_samples.items() if first is None)


def collect(
    model: ir.Model,
    values: Sequence[str],
    samples: SampleSet,
    *,
    threads: int = 1,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
    onlooker: Onlooker | None = None,
) -> Statistics:
    """Run the model once over all samples and summarise the named values.

    The extremes are exact. Histograms come from a seeded, evenly spaced subsample of each tensor of each sample
    (`instrument.SUBSAMPLE` elements); `Sketch.quantile_error` gives its standard error.

    Args:
        values: names of float values of the main graph, or of branches of If.
        advance: called after each sample.
        onlooker: is shown every feed, and given the session at the end.

    Raises:
        InputError: a NaN or Inf in a sample reaches an output of the model; file and sample are named.
        RunError: the model does not run on a sample.
    """
    watch = _Watch(model, values, threads, seed)
    found = Statistics(values, watch.branches)
    inspector = _Inspector(model, threads)
    for index, feed in enumerate(samples):
        if onlooker is not None:
            onlooker.saw(feed, index)
        results = watch.run(feed, samples.describe(index))
        own = {name: output for name, output in results.items() if name not in watch.reported}
        dirty = dirty_inputs(feed, own, samples.describe(index))
        if dirty:
            found.dirty_samples.append(f"{samples.describe(index)}: {', '.join(f'`{name}`' for name in dirty)}")
        taken = found.note_branches(index, watch.taken(results))
        probes = list(watch.probes_of(taken))
        suspects = [probe for probe in probes if not np.isfinite(results[probe.sum]).all()]
        whole = inspector.values([probe.value for probe in suspects], feed) if suspects else {}
        for probe in probes:
            minimum, maximum, subsample = _finite(watch.seen(probe, results), whole.get(probe.value))
            nans, infinities = _left_out(whole.get(probe.value))
            found.sketches[probe.value].observe(
                subsample, minimum, maximum, nans=nans, infinities=infinities, sample=index
            )
            found.extremes[probe.value].observe(minimum, maximum, samples.sample_of(index))
        advance()
    if onlooker is not None:
        onlooker.finish(found, watch.look)
    return found


def _finite(seen: Seen, whole: Array | None) -> Seen:
    """The extremes of what is finite; `whole` is the value where not all of it is."""
    minimum, maximum, subsample = seen
    if whole is None:
        # An empty tensor gives +inf and -inf, which is what Sketch takes for none.
        return minimum, maximum, subsample
    # From another session, whose kernels may round otherwise: the extremes have to hold the subsample too.
    finite = np.append(whole[np.isfinite(whole)], subsample[np.isfinite(subsample)])
    return (float(finite.min()), float(finite.max()), subsample) if finite.size else (np.inf, -np.inf, subsample)


def _left_out(whole: Array | None) -> tuple[int, int]:
    """Number of NaN and of infinities."""
    return (0, 0) if whole is None else (int(np.isnan(whole).sum()), int(np.isinf(whole).sum()))


class _Watch:
    """The session of the instrumented model."""

    def __init__(self, model: ir.Model, values: Sequence[str], threads: int, seed: int) -> None:
        instrumented = instrument(model, values)
        self._probes, self._offsets = instrumented.probes, instrumented.offsets
        self.branches = instrumented.branches
        self.reported = {name for probe in self._probes for name in probe.names()} | set(self.branches.values())
        self._rng = np.random.default_rng(seed)
        self._runner = Runner.of_model(instrumented.model, "the model", threads=threads, mode="lean")

    def run(self, feed: Feed, sample: str) -> dict[str, Any]:
        """All outputs, those of the probes too."""
        offsets = self._rng.integers(np.iinfo(np.int64).max, size=OFFSETS, dtype=np.int64)
        return self._runner.run({**feed, self._offsets: offsets}, sample)

    def taken(self, results: Mapping[str, Any]) -> list[str]:
        """The branches of If that the run took."""
        return [name for name, flag in self.branches.items() if results[flag]]

    def probes_of(self, taken: Iterable[str]) -> Iterator[Probe]:
        """The probes of the main graph and of these branches: no other tells anything."""
        told = {None, *taken}
        return (probe for probe in self._probes if probe.branch in told)

    def seen(self, probe: Probe, results: Mapping[str, Any]) -> Seen:
        """What a probe tells."""
        return float(results[probe.minimum]), float(results[probe.maximum]), results[probe.subsample]

    def look(self, feed: Feed, sample: str) -> dict[str, Seen]:
        """See `Look`."""
        results = self.run(feed, sample)
        return {probe.value: self.seen(probe, results) for probe in self.probes_of(self.taken(results))}


class _Inspector:
    """Hands out whole values. Only for those whose sum is not finite, so only few ever live at once."""

    def __init__(self, model: ir.Model, threads: int) -> None:
        self._model, self._threads = model, threads
        self._runners: dict[tuple[str, ...], Runner] = {}

    def values(self, names: Sequence[str], feed: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        key = tuple(names)
        if key not in self._runners:
            self._runners = {key: Runner.of_model(_with_outputs(self._model, names), "the model", arena=False)}
        results = self._runners[key].run(feed)
        return {name: results[name] if name in results else feed[name] for name in names}


def _with_outputs(model: ir.Model, names: Sequence[str]) -> ir.Model:
    copy = ir.clone(ir.expand_references(model))
    wanted = set(names) - {value.name for value in (*copy.graph.inputs, *copy.graph.outputs)}
    hoist = Hoist(copy, ir.Names(copy))
    for value in [value for graph in ir.all_graphs(copy) for node in graph for value in node.outputs]:
        if value.name in wanted:
            hoist.output(value, str(value.name), np.zeros(0, np.float32))
    return copy

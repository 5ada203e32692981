"""Statistics of activations over the calibration samples: one pass, bounded memory, exact extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.dirty import dirty_inputs
from infer_opt.calibrate.hoisting import Hoist
from infer_opt.calibrate.instrument import OFFSETS, Probe, instrument
from infer_opt.calibrate.runner import Runner
from infer_opt.calibrate.sketch import Sketch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from infer_opt.calibrate.sample_set import SampleSet

__all__ = ["Statistics", "collect"]


class Statistics:
    """What `collect` found.

    Attributes:
        sketches: one for each watched value, by name.
        dirty_samples: samples that hold a NaN or Inf which reaches no output, in words.
        first_samples: of each branch of an If, by its name, the index of the first sample that took it; None where
            none did. What stands in a branch was observed on the samples that took it, and on no other.
    """

    def __init__(self, values: Sequence[str], branches: Iterable[str] = ()) -> None:
        self.sketches = {name: Sketch() for name in values}
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
) -> Statistics:
    """Run the model once over all samples and summarise the named values.

    The extremes are exact. Histograms come from a seeded, evenly spaced subsample of each tensor of each sample
    (`instrument.SUBSAMPLE` elements); `Sketch.quantile_error` gives its standard error.

    Args:
        values: names of float values of the main graph, or of branches of If.
        advance: called after each sample.

    Raises:
        InputError: a NaN or Inf in a sample reaches an output of the model; file and sample are named.
        RunError: the model does not run on a sample.
    """
    instrumented = instrument(model, values)
    probes, branches = instrumented.probes, instrumented.branches
    found, rng = Statistics(values, branches), np.random.default_rng(seed)
    runner = Runner.of_model(instrumented.model, "the model", threads=threads, mode="lean")
    inspector = _Inspector(model, threads)
    reported = {name for probe in probes for name in probe.names()} | set(branches.values())
    for index, feed in enumerate(samples):
        offsets = rng.integers(np.iinfo(np.int64).max, size=OFFSETS, dtype=np.int64)
        results = runner.run({**feed, instrumented.offsets: offsets}, samples.describe(index))
        own = {name: output for name, output in results.items() if name not in reported}
        dirty = dirty_inputs(feed, own, samples.describe(index))
        if dirty:
            found.dirty_samples.append(f"{samples.describe(index)}: {', '.join(f'`{name}`' for name in dirty)}")
        taken = {None, *found.note_branches(index, (name for name, flag in branches.items() if results[flag]))}
        suspects = [probe for probe in probes if not np.isfinite(results[probe.sum]).all()]
        whole = inspector.values([probe.value for probe in suspects], feed) if suspects else {}
        for probe in (probe for probe in probes if probe.branch in taken):
            _observe(found.sketches[probe.value], probe, results, whole.get(probe.value), index)
        advance()
    return found


def _observe(
    sketch: Sketch, probe: Probe, results: dict[str, Any], whole: np.ndarray[Any, Any] | None, index: int
) -> None:
    subsample = results[probe.subsample]
    if whole is None:
        # An empty tensor gives +inf and -inf, which is what Sketch takes for none.
        low, high = float(results[probe.minimum]), float(results[probe.maximum])
        sketch.observe(subsample, low, high, sample=index)
        return
    # From another session, whose kernels may round otherwise: the extremes have to hold the subsample too.
    finite = np.append(whole[np.isfinite(whole)], subsample[np.isfinite(subsample)])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (np.inf, -np.inf)
    nans, infinities = int(np.isnan(whole).sum()), int(np.isinf(whole).sum())
    sketch.observe(subsample, low, high, nans=nans, infinities=infinities, sample=index)


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

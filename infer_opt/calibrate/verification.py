"""A candidate against the original: error of every output, on samples that did not take part in calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt.calibrate.metrics import TOLD, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from infer_opt import ir
    from infer_opt.calibrate.expected import Expected
    from infer_opt.calibrate.metrics import Metric
    from infer_opt.calibrate.runner import Runner

__all__ = ["Errors", "compare"]


def compare(
    expected: Expected,
    candidate: Runner,
    feeds: Iterable[Mapping[str, np.ndarray]],
    describe: Callable[[int], str] = "sample {}".format,
    *,
    parts: Mapping[str, ir.Parts] | None = None,
    metric: Metric = TOLD,
    advance: Callable[[], None] = lambda: None,
) -> list[OutputError]:
    """Run the candidate on each feed; errors of all outputs.

    One feed at a time, so memory does not grow with their number. Where a model hands on a state, each feed is run
    once more from the state it left: an error in a state is as large as what comes of it.

    Args:
        parts: of outputs that join several things, which are judged one by one: pooled, large boxes would hide the
            loss of all scores. Not where the metric takes them whole.
        metric: how outputs are compared.

    Raises:
        InputError: the original does not run on a feed, or a NaN or Inf in it reaches an output.
        RunError: the candidate does not run on a feed.
    """
    errors = Errors(expected.runner.outputs, parts or {}, metric, state=expected.state)
    for index, feed in enumerate(feeds):
        wanted = expected.outputs(feed, describe(index))
        got = candidate.run(feed, describe(index))
        errors.add(wanted, got)
        later, own = (_later(feed, outputs, expected.state) for outputs in (wanted, got))
        if later is not None and own is not None:
            again = f"{describe(index)}, run again from the state that it left"
            errors.add_later(expected.outputs(later, again), candidate.run(own, again))
        advance()
    return errors.all()


def _later(
    feed: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], state: Mapping[str, str]
) -> dict[str, np.ndarray] | None:
    """The feed with the state that a run left; None where there is none, or none that could be fed."""
    left = {given: outputs[name] for name, given in state.items() if given in feed}
    fits = all(array.shape == feed[given].shape and np.isfinite(array).all() for given, array in left.items())
    return {**feed, **left} if left and fits else None


class Errors:
    """Errors of every output of one candidate, and of the parts of those that have some, over samples.

    Args:
        state: names of outputs that are handed on to the next run.
    """

    def __init__(
        self,
        outputs: Iterable[str],
        parts: Mapping[str, ir.Parts],
        metric: Metric = TOLD,
        *,
        state: Collection[str] = (),
    ) -> None:
        self._parts = {} if metric.whole else parts
        self._whole = {name: self._of_whole(name, metric, state=name in state) for name in outputs}
        self._part = {
            (name, bounds): OutputError(f"{name}[{bounds[0]}:{bounds[1]}]", kinds=metric.kinds())
            for name, joined in self._parts.items()
            for bounds in joined.bounds()
        }

    def _of_whole(self, name: str, metric: Metric, *, state: bool) -> OutputError:
        joined = name in self._parts
        return OutputError(name, kinds=() if joined else metric.kinds(), joined=joined, state=state)

    def add(self, expected: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> None:
        """The outputs for one sample, by name."""
        for name in self._whole:
            self._add(name, expected[name], got[name])

    def add_later(self, expected: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> None:
        """The outputs of a run from a state that was handed on; the state's own are not added."""
        for name, error in self._whole.items():
            if not error.state:
                self._add(name, expected[name], got[name])

    def _add(self, name: str, expected: np.ndarray, got: np.ndarray) -> None:
        self._whole[name].add(expected, got)
        for (owner, (begin, end)), error in self._part.items():
            if owner == name:
                along = range(begin, end), self._parts[name].axis
                error.add(np.take(expected, *along), np.take(got, *along))

    def all(self) -> list[OutputError]:
        """Of outputs first, then of their parts."""
        return [*self._whole.values(), *self._part.values()]

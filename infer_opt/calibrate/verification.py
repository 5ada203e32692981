"""Candidates against the original: error of every output, on samples that did not take part in calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt.calibrate.dirty import dirty_inputs
from infer_opt.calibrate.metrics import OutputError
from infer_opt.calibrate.runner import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from infer_opt import ir
    from infer_opt.calibrate.runner import Runner

__all__ = ["Errors", "compare"]


def compare(
    reference: Runner,
    candidates: Mapping[str, Runner],
    feeds: Iterable[Mapping[str, np.ndarray]],
    describe: Callable[[int], str] = "sample {}".format,
    *,
    parts: Mapping[str, ir.Parts] | None = None,
    failures: dict[str, str] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, list[OutputError]]:
    """Run the original and every candidate on each feed; errors of all outputs, by candidate.

    One feed at a time, so memory does not grow with their number.

    Args:
        parts: of outputs that join several things, which are judged one by one: pooled, large boxes would hide the
            loss of all scores.
        failures: gets the reason of each candidate that fails on a feed, and is then left out; without it, the first
            failure is raised.

    Raises:
        InputError: a NaN or Inf in a feed reaches an output of the original.
        RunError: the original does not run on a feed, or a candidate whose failure nobody asked for.
    """
    errors = {name: Errors(reference.outputs, parts or {}) for name in candidates}
    for index, feed in enumerate(feeds):
        expected = reference.run(feed, describe(index))
        dirty_inputs(feed, expected, describe(index))
        for name in tuple(errors):
            failure = errors[name].add_run(expected, candidates[name], feed, describe(index))
            if failure is not None and failures is None:
                raise failure
            if failure is not None and failures is not None:
                failures[name] = failure.message
                del errors[name]
        advance()
    return {name: found.all() for name, found in errors.items()}


class Errors:
    """Errors of every output of one candidate, and of the parts of those that have some, over samples."""

    def __init__(self, outputs: Iterable[str], parts: Mapping[str, ir.Parts]) -> None:
        self._parts = parts
        self._whole = {name: OutputError(name) for name in outputs}
        self._part = {
            (name, bounds): OutputError(f"{name}[{bounds[0]}:{bounds[1]}]", part=True)
            for name, joined in parts.items()
            for bounds in joined.bounds()
        }

    def add(self, expected: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> None:
        """The outputs for one sample, by name."""
        for name, error in self._whole.items():
            error.add(expected[name], got[name])
        for (name, (begin, end)), error in self._part.items():
            along = range(begin, end), self._parts[name].axis
            error.add(np.take(expected[name], *along), np.take(got[name], *along))

    def add_run(
        self, expected: Mapping[str, np.ndarray], candidate: Runner, feed: Mapping[str, np.ndarray], sample: str
    ) -> RunError | None:
        """Run the candidate and add what it gives; its failure, if it fails."""
        try:
            self.add(expected, candidate.run(feed, sample))
        except RunError as error:
            return error
        return None

    def all(self) -> list[OutputError]:
        """Of outputs first, then of their parts."""
        return [*self._whole.values(), *self._part.values()]

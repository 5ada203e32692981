"""Candidates against the original: error of every output, on samples that did not take part in calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt.calibrate.dirty import dirty_inputs
from infer_opt.calibrate.metrics import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from infer_opt import ir
    from infer_opt.calibrate.runner import Runner

__all__ = ["compare"]


def compare(
    reference: Runner,
    candidates: Mapping[str, Runner],
    feeds: Iterable[Mapping[str, np.ndarray]],
    describe: Callable[[int], str] = "sample {}".format,
    *,
    parts: Mapping[str, ir.Parts] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, list[OutputError]]:
    """Run the original and every candidate on each feed; errors of all outputs, by candidate.

    One feed at a time, so memory does not grow with their number.

    Args:
        parts: of outputs that join several things, which are judged one by one: pooled, large boxes would hide the
            loss of all scores.

    Raises:
        InputError: a NaN or Inf in a feed reaches an output of the original.
        RunError: a model does not run on a feed.
    """
    errors = {name: _Errors(reference.outputs, parts or {}) for name in candidates}
    for index, feed in enumerate(feeds):
        expected = reference.run(feed, describe(index))
        dirty_inputs(feed, expected, describe(index))
        for name, candidate in candidates.items():
            errors[name].add(expected, candidate.run(feed, describe(index)))
        advance()
    return {name: found.all() for name, found in errors.items()}


class _Errors:
    """Errors of every output of one candidate, and of the parts of those that have some."""

    def __init__(self, outputs: Iterable[str], parts: Mapping[str, ir.Parts]) -> None:
        self._parts = parts
        self._whole = {name: OutputError(name) for name in outputs}
        self._part = {
            (name, bounds): OutputError(f"{name}[{bounds[0]}:{bounds[1]}]", part=True)
            for name, joined in parts.items()
            for bounds in joined.bounds()
        }

    def add(self, expected: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> None:
        for name, error in self._whole.items():
            error.add(expected[name], got[name])
        for (name, (begin, end)), error in self._part.items():
            along = range(begin, end), self._parts[name].axis
            error.add(np.take(expected[name], *along), np.take(got[name], *along))

    def all(self) -> list[OutputError]:
        return [*self._whole.values(), *self._part.values()]

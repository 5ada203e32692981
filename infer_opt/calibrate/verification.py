"""Candidates against the original: error of every output, on samples that did not take part in calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt.calibrate.dirty import dirty_inputs
from infer_opt.calibrate.metrics import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np

    from infer_opt.calibrate.runner import Runner

__all__ = ["compare"]


def compare(
    reference: Runner,
    candidates: Mapping[str, Runner],
    feeds: Iterable[Mapping[str, np.ndarray]],
    describe: Callable[[int], str] = "sample {}".format,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, list[OutputError]]:
    """Run the original and every candidate on each feed; errors of all outputs, by candidate.

    One feed at a time, so memory does not grow with their number.

    Raises:
        InputError: a NaN or Inf in a feed reaches an output of the original.
        RunError: a model does not run on a feed.
    """
    errors = {name: {output: OutputError(output) for output in reference.outputs} for name in candidates}
    for index, feed in enumerate(feeds):
        expected = reference.run(feed, describe(index))
        dirty_inputs(feed, expected, describe(index))
        for name, candidate in candidates.items():
            got = candidate.run(feed, describe(index))
            for output, error in errors[name].items():
                error.add(expected[output], got[output])
        advance()
    return {name: list(found.values()) for name, found in errors.items()}

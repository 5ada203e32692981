"""Equality of graph passes, proved on every compile: outputs after a pass against the original's, on a few samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt.calibrate.metrics import OutputError
from infer_opt.calibrate.runner import RunError, Runner, to_keep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt import ir

__all__ = ["Equality"]

LEAST_DB = 60.0  # float32 sums in another order keep more than this; an error of a rewrite keeps far less
_FLOOR_DB = 20.0  # below it two outputs are not the same for any purpose, however badly the model is conditioned
_MARGIN_DB = 10.0  # a graph rounds at every node, the probe of its conditioning at its inputs only


class Equality:
    """Compares models with the original on a few feeds.

    A model may magnify rounding: a saturated detector on noise keeps 55 dB when its input moves by one unit in the last
    place. So each output's limit is the lower of `LEAST_DB` and what the original itself keeps under such a move, less
    a margin; but never under 20 dB: what cannot be told from an error is undone.

    Args:
        original: a session of the original.
        feeds: a few samples; their outputs are kept.
    """

    def __init__(self, original: Runner, feeds: Sequence[Mapping[str, np.ndarray]]) -> None:
        self._feeds = feeds
        self._expected = [to_keep(original.run(feed)) for feed in feeds]
        moved = _errors(original, [_moved(feed) for feed in feeds], self._expected)
        self._least = {name: max(_FLOOR_DB, min(LEAST_DB, error.sqnr - _MARGIN_DB)) for name, error in moved.items()}

    def fault(self, model: ir.Model) -> str | None:
        """Why the model does not equal the original, or None."""
        try:
            runner = Runner.of_model(model, "the rewritten model", arena=False)
            errors = _errors(runner, self._feeds, self._expected)
        except RunError as failure:
            return failure.message
        for name, error in errors.items():
            least = self._least[name] if error.floats else LEAST_DB
            if error.sqnr < least:
                return f"output `{name}` changed: {error.sqnr:.1f} dB, at least {least:.0f} dB wanted"
        return None


def _errors(
    runner: Runner, feeds: Sequence[Mapping[str, np.ndarray]], expected: Sequence[Mapping[str, np.ndarray]]
) -> dict[str, OutputError]:
    errors = {name: OutputError(name, kinds=()) for name in runner.outputs}
    for feed, outputs in zip(feeds, expected, strict=True):
        for name, output in runner.run(feed).items():
            errors[name].add(outputs[name], output)
    return errors


def _moved(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The feed with every float moved by one unit in the last place, up or down at random."""
    rng = np.random.default_rng(0)
    return {
        name: np.nextafter(array, rng.choice(np.asarray([-np.inf, np.inf], array.dtype), array.shape))
        if array.dtype.kind == "f"
        else array
        for name, array in feed.items()
    }

"""Equality of graph passes, proved on every compile: outputs after a pass against the original's, on a few samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.metrics import OutputError
from infer_opt.calibrate.runner import RunError, Runner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

__all__ = ["Equality"]

LEAST_DB = 60.0  # float32 sums in another order keep more than this; an error of a rewrite keeps far less


class Equality:
    """Compares models with the original on a few feeds.

    Args:
        original: a session of the original.
        feeds: a few samples; their outputs are kept.
    """

    def __init__(self, original: Runner, feeds: Sequence[Mapping[str, np.ndarray]]) -> None:
        self._feeds = feeds
        self._expected = [original.run(feed) for feed in feeds]

    def fault(self, model: ir.Model) -> str | None:
        """Why the model does not equal the original, or None."""
        try:
            runner = Runner(ir.serialize(model), "the rewritten model", arena=False)
            errors = {name: OutputError(name) for name in runner.outputs}
            for feed, expected in zip(self._feeds, self._expected, strict=True):
                for name, output in runner.run(feed).items():
                    errors[name].add(expected[name], output)
        except RunError as failure:
            return failure.message
        for error in errors.values():
            if error.sqnr < LEAST_DB:
                return f"output `{error.name}` changed: {error.sqnr:.1f} dB, at least {LEAST_DB:.0f} dB wanted"
        return None

"""What the original makes of the samples: run once for all candidates, as far as memory is allowed for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt.calibrate.dirty import dirty_inputs
from infer_opt.calibrate.runner import RunError, to_keep
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from infer_opt.calibrate.runner import Runner

__all__ = ["Expected"]

_MOST_BYTES = 32 << 20  # of outputs that are kept; beyond that the original runs again


class Expected:
    """The original's outputs, sample by sample.

    Args:
        state: outputs that are fed back as an input of the next run, as `ir.recurrent_state` finds them.
    """

    def __init__(self, runner: Runner, state: Mapping[str, str] | None = None) -> None:
        self.runner, self.state = runner, state or {}
        self._kept: dict[str, dict[str, np.ndarray]] = {}
        self._bytes = 0

    def outputs(self, feed: Mapping[str, np.ndarray], sample: str) -> dict[str, np.ndarray]:
        """The outputs for a sample.

        Args:
            sample: its name, another for each; messages call it so.

        Raises:
            InputError: the original does not run on the feed, or a NaN or Inf in it reaches an output. Never a
                RunError: a candidate fails with that, and the original's failure is nobody else's.
        """
        if sample in self._kept:
            return self._kept[sample]
        try:
            outputs = to_keep(self.runner.run(feed, sample))
        except RunError as error:
            raise InputError(error.message, error.hint) from error
        dirty_inputs(dict(feed), outputs, sample)
        size = sum(array.nbytes for array in outputs.values())
        if self._bytes + size <= _MOST_BYTES:
            self._kept[sample] = outputs
            self._bytes += size
        return outputs

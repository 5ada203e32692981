"""Whether a metric that was named speaks of any output, found out before anything is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt.calibrate.verification import Errors
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from infer_opt.calibrate.expected import Expected
    from infer_opt.calibrate.metrics import Metric
    from infer_opt.calibrate.sample_set import SampleSet

__all__ = ["check_metric"]


def check_metric(name: str, metric: Metric, expected: Expected, samples: SampleSet) -> None:
    """See that a metric fits an output of the original, which runs on samples until one does: mostly the first.

    Raises:
        InputError: none is fitted, and the noise would be judged in its place without a word.
    """
    errors = Errors(expected.runner.outputs, {}, metric, state=expected.state)
    outputs: Mapping[str, np.ndarray] = {}
    for index, feed in enumerate(samples):
        outputs = expected.outputs(feed, samples.describe(index))
        errors.add(outputs, outputs)
        if any(error.judged and (error.kind in error.kinds or not metric.makers) for error in errors.all()):
            return
    shapes = ", ".join(f"`{key}` {array.dtype}{list(array.shape)}" for key, array in outputs.items())
    raise InputError(
        f"--metric {name} fits no output of {expected.runner.what}: {shapes}",
        f"it takes {metric.takes}; pass another metric, or leave --metric out",
    )

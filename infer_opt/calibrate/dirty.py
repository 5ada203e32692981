"""NaN and Inf in samples: an error where they reach an output of the float model, a counted warning elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt.calibrate.feed_checks import non_finite
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["dirty_inputs"]

Array = np.ndarray[Any, Any]


def dirty_inputs(feed: Mapping[str, Array], outputs: Mapping[str, Array], sample: str) -> dict[str, int]:
    """Number of NaN and Inf elements of each input that has any, where none of them reaches an output.

    Args:
        outputs: of the float model on `feed`.
        sample: the sample's name for messages.

    Raises:
        InputError: an output is NaN or Inf too; names sample, input and output.
    """
    dirty = {name: count for name, count in non_finite(dict(feed)).items() if count}
    if not dirty:
        return {}
    for name, output in outputs.items():
        if output.dtype.kind == "f" and not np.isfinite(output).all():
            inputs = ", ".join(f"`{key}` ({count} elements)" for key, count in dirty.items())
            raise InputError(
                f"{sample}: NaN or Inf in input {inputs} reaches output `{name}`",
                "remove the sample, or mend the preprocessing that made it",
            )
    return dirty

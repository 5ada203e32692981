"""Shapes and dtypes of values, as they are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

__all__ = ["dims", "elements", "numpy_dtype", "proven_dims", "rank"]


def dims(value: ir.Value | None) -> tuple[int | str | None, ...] | None:
    """Dimensions of a value: an int is fixed, a str is a symbol, None is unknown. None for an unknown rank."""
    if value is None or value.shape is None:
        return None
    return tuple(d if isinstance(d, int) else d.value for d in value.shape)


def proven_dims(value: ir.Value | None) -> tuple[int | str | None, ...] | None:
    """Dimensions without the symbols that the file declares for an output: exporters name them as they please."""
    declared = dims(value)
    if value is None or declared is None or not value.is_graph_output():
        return declared
    return tuple(size if isinstance(size, int) else None for size in declared)


def rank(value: ir.Value | None) -> int | None:
    """Number of dimensions, or None where it is unknown."""
    return None if value is None or value.shape is None else len(value.shape)


def elements(value: ir.Value | None) -> int | None:
    """Number of elements where every dimension is fixed, otherwise None."""
    shape = dims(value)
    if shape is None or not all(isinstance(d, int) for d in shape):
        return None
    return math.prod(d for d in shape if isinstance(d, int))


def numpy_dtype(value: ir.Value) -> np.dtype[Any]:
    """The numpy dtype of a value's elements.

    Raises:
        ValueError: the dtype is unknown, or is one numpy cannot hold.
    """
    if value.dtype is None:
        message = f"the dtype of `{value.name}` is unknown"
        raise ValueError(message)
    if value.dtype == ir.DataType.STRING:
        return np.dtype(np.object_)
    return np.dtype(value.dtype.numpy())

"""The rules one feed must meet, and the words of the errors where it does not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from infer_opt.calibrate.sample_set import Feed, InputSpec
from infer_opt.errors import InputError, nearest

__all__ = [
    "ElementKind",
    "as_declared",
    "check_dtype",
    "check_feedable",
    "check_names",
    "check_shape",
    "element_kind",
    "non_finite",
    "rank_error",
    "shape_text",
    "ticked",
]

ElementKind = Literal["float", "int", "bool", "string", "object", "other"]

# What NumPy makes by default is taken as what models are exported with; nothing else is converted.
_TAKEN_AS = {(np.dtype(np.float64), np.dtype(np.float32)), (np.dtype(np.int32), np.dtype(np.int64))}


def element_kind(dtype: np.dtype[Any]) -> ElementKind:
    """The family of an element type; bfloat16, float8 and int4, which NumPy calls void, are told by name."""
    if dtype.kind == "b":
        return "bool"
    if dtype.kind == "f" or dtype.name.startswith(("float", "bfloat")):
        return "float"
    if dtype.kind in "iu" or dtype.name.startswith(("int", "uint")):
        return "int"
    if dtype.kind in "SUT":
        return "string"
    return "object" if dtype.hasobject else "other"


def ticked(names: Iterable[str]) -> str:
    """Names as a message lists them: each in backticks."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def shape_text(shape: Sequence[int | str | None]) -> str:
    """A shape as a message shows it: `[batch, 3, ?]`, with `?` for an unknown dimension."""
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def check_feedable(inputs: Sequence[InputSpec]) -> None:
    """Raises InputError where an input takes strings: there is nothing in them to calibrate."""
    for spec in inputs:
        if element_kind(spec.dtype) in ("string", "object"):
            raise InputError(
                f"the input `{spec.name}` takes strings, which cannot be fed",
                "export the model without its text processing",
            )


def check_names(where: str, names: Collection[str], inputs: Sequence[InputSpec]) -> None:
    """Raises InputError unless `names` are exactly those of `inputs`; `where` is the file, for messages."""
    wanted = [spec.name for spec in inputs]
    # Unknown names first: a misspelt name is also a missing one, and only this hint says which.
    for name in names:
        if name not in wanted:
            near = nearest(name, (other for other in wanted if other not in names))
            advice = f"rename it to `{near}`" if near else "remove it"
            raise InputError(
                f"`{where}` holds `{name}`, which is no input of the model",
                f"{advice}; the model's inputs are {ticked(wanted)}",
            )
    for name in wanted:
        if name not in names:
            raise InputError(
                f"`{where}` has no array for the input `{name}`",
                f"add an array of that name; it holds {ticked(names)}",
            )


def check_dtype(where: str, spec: InputSpec, dtype: np.dtype[Any]) -> None:
    """Raises InputError unless elements of `dtype` may be fed to the input.

    They may where they are what the model declares, in either byte order, or float64 for float32, or int32
    for int64.
    """
    native = dtype.newbyteorder("=")
    if native == spec.dtype or (native, spec.dtype) in _TAKEN_AS:
        return
    held = {"string": "holds strings", "object": "holds Python objects"}
    found = held.get(element_kind(dtype), f"is {dtype.name}")
    raise InputError(
        f"`{where}`: `{spec.name}` {found}, and the model wants {spec.dtype.name}",
        f"yield it from FILE.py:function, because NumPy's files cannot hold {spec.dtype.name}"
        if spec.dtype.kind == "V"
        else f"save it as numbers of type {spec.dtype.name}",
    )


def check_shape(where: str, spec: InputSpec, shape: tuple[int, ...]) -> None:
    """Raises InputError unless a feed of `shape` has the rank and the fixed dimensions of the input."""
    if spec.shape is None:
        return
    if len(shape) != len(spec.shape):
        raise rank_error(where, spec, shape, f"rank {len(spec.shape)}")
    if any(isinstance(want, int) and have != want for have, want in zip(shape, spec.shape, strict=True)):
        raise InputError(
            f"`{where}`: `{spec.name}` gives a feed of shape {shape_text(shape)}, and the model wants"
            f" {shape_text(spec.shape)}",
            "prepare the samples at the model's size, or export the model with dynamic dimensions",
        )


def rank_error(where: str, spec: InputSpec, shape: tuple[int, ...], wanted: str) -> InputError:
    """The error for an array of the wrong rank; `wanted` names the ranks that would do."""
    missing_batch = len(shape) + 1 == len(spec.shape or ())
    advice = "add the batch dimension with `array[None]`" if missing_batch else "reshape it"
    return InputError(
        f"`{where}`: `{spec.name}` has rank {len(shape)}, shape {shape_text(shape)}, and the model wants {wanted}",
        f"{advice}; the model declares {shape_text(spec.shape or ())}",
    )


def as_declared(array: NDArray[Any], spec: InputSpec) -> NDArray[Any]:
    """The array in the declared element type, native byte order and C order; copied only where needed."""
    # A float64 beyond float32's range becomes Inf here without a warning: the runner reports it as one.
    with np.errstate(over="ignore"):
        return np.asarray(array, dtype=spec.dtype, order="C")


def non_finite(feed: Feed) -> dict[str, int]:
    """How many elements are NaN or infinite, for each floating-point input of a feed, 0 where none are."""
    return {
        name: array.size - int(np.count_nonzero(np.isfinite(array)))
        for name, array in feed.items()
        if element_kind(array.dtype) == "float"
    }

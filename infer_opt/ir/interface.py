"""What a caller of a model sees: inputs and outputs by name, dtype and shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["Interface", "Port", "interface"]


@dataclass(frozen=True)
class Port:
    """One input or output.

    Args:
        name: as in the graph.
        dtype: ONNX element type in lower case (`float`, `int64`, ...); `?` where the file gives none.
        shape: an int is fixed, a str is a symbol, None is unknown; the whole is None where the rank is unknown.
        optional: an input with a default value.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    optional: bool = False


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs, in order. No pass may change it."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def interface(model: ir.Model) -> Interface:
    """The interface of a model."""
    return Interface(
        inputs=tuple(_port(value) for value in model.graph.inputs),
        outputs=tuple(_port(value) for value in model.graph.outputs),
    )


def _port(value: ir.Value) -> Port:
    shape = None
    if value.shape is not None:
        shape = tuple(d if isinstance(d, int) else d.value for d in value.shape)
    dtype = value.dtype.name.lower() if value.dtype is not None else "?"
    return Port(str(value.name), dtype, shape, optional=value.is_initializer())

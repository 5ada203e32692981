"""What a caller of a model sees: inputs and outputs by name, dtype and shape."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from infer_opt.ir.edit import attribute
from infer_opt.ir.shapes import dims

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["Interface", "Parts", "Port", "interface", "output_parts"]


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

    @property
    def is_open(self) -> bool:
        """Whether a size, or the rank, is left to whoever feeds it."""
        return self.shape is None or not all(isinstance(size, int) for size in self.shape)


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs, in order. No pass may change it."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class Parts:
    """The inputs of the Concat that makes an output: a detector's boxes and scores, say.

    Args:
        axis: along which they are joined.
        sizes: their sizes along it, in order.
    """

    axis: int
    sizes: tuple[int, ...]

    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Begin and end of each part along the axis."""
        ends = tuple(accumulate(self.sizes))
        return tuple(zip((0, *ends[:-1]), ends, strict=True))


def output_parts(model: ir.Model) -> dict[str, Parts]:
    """Outputs that a Concat of several values of known size makes, by name."""
    found: dict[str, Parts] = {}
    for output in model.graph.outputs:
        maker = output.producer()
        while maker is not None and maker.op_type == "Identity" and maker.inputs[0] is not None:
            maker = maker.inputs[0].producer()
        if maker is None or maker.op_type != "Concat" or len(maker.inputs) < 2:
            continue
        shapes = [dims(value) for value in maker.inputs]
        axis = attribute(maker, "axis", 0)
        sizes = [shape[axis] for shape in shapes if shape is not None and -len(shape) <= axis < len(shape)]
        fixed = tuple(size for size in sizes if isinstance(size, int))
        if len(fixed) == len(maker.inputs):
            found[str(output.name)] = Parts(int(axis), fixed)
    return found


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

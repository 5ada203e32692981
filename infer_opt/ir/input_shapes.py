"""`--shape name:1x3x224x224`: fixing dimensions of inputs, read from text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from infer_opt.errors import UsageError, nearest
from infer_opt.ir.edit import clone, every_value
from infer_opt.ir.inference import infer_shapes
from infer_opt.ir.shapes import dims, elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["InputShape", "at_shapes", "fix_input_shapes", "value_sizes"]

_DIMENSION = re.compile(r"(\d+)(?:\.\.(\d+))?")


@dataclass(frozen=True)
class InputShape:
    """The shape of one input: a pair of smallest and largest size for each dimension."""

    name: str
    bounds: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str) -> InputShape:
        """Read `name:1x3x224x224` or `name:1..8x3x224x224`.

        Raises:
            UsageError: names the part that is no dimension.
        """
        name, colon, shape = text.rpartition(":")
        if not colon or not name:
            raise UsageError(f"--shape `{text}` names no input", "write it like `input:1x3x224x224`")
        return cls(name, tuple(_bounds(part, text) for part in shape.split("x")))


def _bounds(part: str, text: str) -> tuple[int, int]:
    match = _DIMENSION.fullmatch(part)
    if match is None:
        raise UsageError(f"--shape `{text}`: `{part}` is no dimension", "give numbers, like `1x3x224x224` or `1..8x3`")
    low = int(match[1])
    high = int(match[2] or low)
    if not 1 <= low <= high:
        raise UsageError(f"--shape `{text}`: `{part}` is an empty range", "give sizes of 1 or more, smallest first")
    return low, high


def fix_input_shapes(model: ir.Model, shapes: Sequence[InputShape]) -> None:
    """Set the dimensions of inputs that are given as one number; ranges stay symbolic. Outputs are inferred anew.

    Raises:
        UsageError: no such input, another rank, or a dimension that the model fixes to another size.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    for shape in shapes:
        value = inputs.get(shape.name)
        if value is None:
            near = nearest(shape.name, inputs)
            hint = f"did you mean `{near}`?" if near else f"the inputs are {', '.join(f'`{name}`' for name in inputs)}"
            raise UsageError(f"--shape: the model has no input `{shape.name}`", hint)
        value.shape = _fixed(value, shape)
    if shapes:
        for output in model.graph.outputs:
            output.shape = None if output.shape is None else ir.Shape([None] * len(output.shape))
        infer_shapes(model, outputs=True)


def at_shapes(model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> ir.Model:
    """A copy whose inputs have these shapes, with all that follows from them; it shares the weights."""
    copy = clone(model)
    inputs = {str(value.name) for value in copy.graph.inputs}
    fixed = [
        InputShape(name, tuple((size, size) for size in shape)) for name, shape in shapes.items() if name in inputs
    ]
    fix_input_shapes(copy, fixed)
    return copy


def value_sizes(model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Elements of each value, those of subgraphs too, where inputs have these shapes, as far as inference tells."""
    copy = at_shapes(model, shapes)
    sizes = {str(value.name): elements(value) for value in every_value(copy)}
    return {name: size for name, size in sizes.items() if size is not None}


def _fixed(value: ir.Value, shape: InputShape) -> ir.Shape:
    declared = dims(value)
    if declared is not None and len(declared) != len(shape.bounds):
        raise UsageError(
            f"--shape: input `{value.name}` has {len(declared)} dimensions, not {len(shape.bounds)}",
            f"the model declares {list(declared)}",
        )
    sizes: list[int | str | None] = []
    for index, (low, high) in enumerate(shape.bounds):
        old = declared[index] if declared is not None else None
        if isinstance(old, int) and not low <= old <= high:
            raise UsageError(
                f"--shape: dimension {index} of input `{value.name}` is fixed to {old} by the model",
                "export the model with a dynamic dimension there",
            )
        sizes.append(low if low == high else (old if old is not None else f"{value.name}_{index}"))
    return ir.Shape(sizes)

"""A random graph while hypothesis draws it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

Draw = Callable[[st.SearchStrategy[Any]], Any]
Shape = tuple[int, ...]

# Since these opsets.
AXES_ARE_INPUTS = {"ReduceMax": 18, "ReduceMean": 18, "ReduceSum": 13, "Squeeze": 13, "Unsqueeze": 13}


@dataclass
class Drawing:
    """A graph while it is drawn: its nodes, initializers, and the shape of every value.

    Args:
        opset: which form operators have.
        prefix: of every name; a branch has its own.
    """

    draw: Draw
    opset: int = 13
    prefix: str = ""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)  # of constants

    def one_of(self, *options: Any) -> Any:
        """One of the options; hypothesis shrinks to the first."""
        return self.draw(st.sampled_from(options))

    def flip(self) -> bool:
        """True or false; hypothesis shrinks to false."""
        return bool(self.draw(st.booleans()))

    def rarely(self) -> bool:
        """True in one of six draws or so; hypothesis shrinks to false."""
        return bool(self.draw(st.integers(0, 5)) == 5)

    def numbers(self, shape: Shape, choices: Sequence[float] = (1, 0.5, -1, 2, 0, -0.5)) -> str:
        """A new float32 initializer."""
        count = math.prod(shape)
        start = self.draw(st.integers(0, len(choices) - 1))
        stride = self.draw(st.integers(1, 5))
        values = [choices[(start + index * stride) % len(choices)] for index in range(count)]
        return self.constant(np.array(values, np.float32).reshape(shape))

    def number(self, value: float, shape: Shape = ()) -> str:
        """A new float32 constant of one number."""
        return self.constant(np.full(shape, value, np.float32))

    def integers(self, *values: int) -> str:
        """A new constant vector of int64."""
        return self.constant(np.array(values, np.int64))

    def constant(self, array: np.ndarray) -> str:
        """A new initializer, or a Constant node."""
        name = f"{self.prefix}c{len(self.initializers) + len(self.nodes)}"
        tensor = numpy_helper.from_array(array, name)
        self.ranks[name] = array.ndim
        if self.draw(st.booleans()):
            self.initializers.append(tensor)
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def node(self, op: str, inputs: Sequence[str], shape: Shape, **attributes: object) -> str:
        """A new node with one output of that shape, of floats, which other operators may read."""
        name = self.inner(op, inputs, **attributes)
        self.shapes[name] = shape
        return name

    def inner(self, op: str, inputs: Sequence[str], **attributes: object) -> str:
        """A new node whose output only whoever asked for it reads: a part of a formula, or no floats."""
        name = f"{self.prefix}v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def swapped(self, op: str, left: str, right: str) -> str:
        """An operator that commutes, its inputs in either order."""
        return self.inner(op, [right, left] if self.flip() else [left, right])

    def along(self, op: str, x: str, axes: Sequence[int], **attributes: object) -> str:
        """An operator with axes, in the form of the opset."""
        if self.opset >= AXES_ARE_INPUTS[op]:
            return self.inner(op, [x, self.integers(*axes)], **attributes)
        return self.inner(op, [x], axes=list(axes), **attributes)

    def kept(self, name: str, shape: Shape) -> str:
        """An inner value that other operators may read."""
        self.shapes[name] = shape
        return name

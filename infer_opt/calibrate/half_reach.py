"""How far what leaves FP16's range reaches: through which operators, until one brings it back.

A gain is told of every value: by how much a constant outside of FP16's range, or an operator that is known to leave it,
made it larger or smaller than its usual size, which counts as 1. A factor of 2e5 gives 2e5, and one of 5e-6 behind it
gives 1 again; a Softmax brings everything back to 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.half_rules import LARGEST, SMALLEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infer_opt.calibrate.half_rules import Measured

__all__ = ["Gains", "exact_arithmetic"]

_SPARE = 64.0  # usual numbers may be as large as this
_GROWN = LARGEST  # the gain of what may have overflowed, where nothing was measured
_BOUNDED = frozenset(
    {"Softmax", "LogSoftmax", "Sigmoid", "HardSigmoid", "Tanh", "Erf", "Sign", "Sin", "Cos", "LayerNormalization"}
    | {"InstanceNormalization", "GroupNormalization", "RMSNormalization", "LpNormalization", "Hardmax"}
)
_PRODUCTS = frozenset({"Mul", "MatMul", "Gemm", "Conv", "ConvTranspose"})
_WEIGHTED = _PRODUCTS - {"Mul"}
_KEEPING = frozenset({"Add", "Sub", "Max", "Min", "Where", "Concat"})  # one extreme operand still stands beside others
_GROWING = frozenset({"Exp", "Pow", "ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceProd", "Mul", "CumSum"})

_EXACT_INTEGERS = 2048
_ARITHMETIC = frozenset(
    {"Add", "Sub", "Mul", "Div", "Mod", "Floor", "Ceil", "Round", "Clip", "Min", "Max", "Neg", "Abs", "Cast", "Where"}
    | {"Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose", "Concat", "Slice", "Split", "Gather", "Expand"}
    | {"Tile", "Identity", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceSumSquare", "CumSum"}
    | {"Pow", "Sqrt", "Relu", "Exp", "MatMul", "Gemm"}
)


class Gains:
    """Gains of the values of a graph, node by node in its order."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._gain: dict[ir.Value, float] = {}

    def source_of_fault(self, node: ir.Node) -> ir.Value | None:
        """The value out of range that a node reads, or None."""
        return next((value for value in node.inputs if value is not None and _is_out(self._gain.get(value, 1.0))), None)

    def follow(self, node: ir.Node, *, faulty_constant: bool, faulty_inside: bool) -> None:
        """Note what a node writes.

        Args:
            faulty_constant: a constant of its is lost in FP16.
            faulty_inside: it is an operator that is known to leave the range.
        """
        gain = 1.0
        if node.op_type not in _BOUNDED:
            gain = self._combined(node, faulty_constant=faulty_constant)
        if faulty_inside and node.op_type in _GROWING and self._measured.largest(node.outputs[0]) is None:
            gain = max(gain, _GROWN)
        for value in node.outputs:
            settled = node.op_type not in _KEEPING and self._is_settled(value)
            if _is_out(gain) and not settled and value.dtype == ir.DataType.FLOAT:
                self._gain[value] = gain

    def _is_settled(self, value: ir.Value) -> bool:
        """Samples showed it inside of the range."""
        largest = self._measured.largest(value)
        return largest is not None and SMALLEST <= largest <= LARGEST

    def _combined(self, node: ir.Node, *, faulty_constant: bool) -> float:
        tracked = any(value in self._gain for value in node.inputs if value is not None)
        if not tracked and not faulty_constant:
            return 1.0
        floats = [value for value in node.inputs if value is not None and value.dtype == ir.DataType.FLOAT]
        gains = [self._of(node, value) for value in floats]
        if not gains:
            return 1.0
        if node.op_type in _PRODUCTS:
            return _bounded_product(gains[:2])
        if node.op_type == "Div" and len(gains) > 1:
            return _bounded_product([gains[0], 1.0 / gains[1]]) if ir.is_constant(node.inputs[1]) else 1.0
        if node.op_type == "Sqrt":
            return math.sqrt(gains[0])
        return max(gains, key=lambda gain: abs(math.log(gain)))

    def _of(self, node: ir.Node, value: ir.Value) -> float:
        if not ir.is_constant(value):
            return self._gain.get(value, 1.0)
        array = np.abs(ir.array(value).astype(np.float64))
        array = array[np.isfinite(array) & (array > 0)]
        if not array.size:
            return 1.0
        if node.op_type in _WEIGHTED:
            root = float(np.sqrt(np.square(array).mean() * max(1, array.size // _outputs(node, value))))
            return root if _is_out(root) else 1.0
        return float(array.max())


def _outputs(node: ir.Node, weight: ir.Value) -> int:
    """Output channels of a weight, about: its longest side that no sum runs along."""
    shape = [size for size in ir.dims(weight) or () if isinstance(size, int)]
    if not shape:
        return 1
    return shape[0] if node.op_type == "Conv" else shape[-1]


def _is_out(gain: float) -> bool:
    return gain * _SPARE > LARGEST or gain < SMALLEST


def _bounded_product(gains: list[float]) -> float:
    """Never 0 or infinite, whose logarithm nobody has."""
    return float(np.clip(math.prod(gains), 1e-300, 1e300))


def exact_arithmetic(graph: ir.Graph, measured: Measured) -> dict[ir.Node, str]:
    """Nodes whose numbers have to be finer than FP16 for what is made of them at the end, and why that matters.

    Two ends are known: a Cast to integers (a row times a width plus a column), followed back through arithmetic and
    products with whole numbers; and a logarithm, for which a small number counts as much as a large one, followed back
    through arithmetic.
    """
    found: dict[ir.Node, str] = {}
    for end in graph:
        if _makes_integers(end):
            reason = _beyond_integers(end, measured)
        elif end.op_type == "Log" and not end.domain:
            reason = _of_small_numbers(end, measured)
        else:
            continue
        if reason is not None:
            found |= {node: reason for node in _behind(end) if node not in found}
    return found


def _beyond_integers(end: ir.Node, measured: Measured) -> str | None:
    largest = measured.largest(end.inputs[0])
    if largest is not None and largest <= _EXACT_INTEGERS:
        return None
    known = "not measured" if largest is None else f"measured: {largest:.0f}"
    return f"`{end.name}` makes integers of it, which FP16 holds only up to {_EXACT_INTEGERS} ({known})"


def _of_small_numbers(end: ir.Node, measured: Measured) -> str | None:
    smallest = measured.smallest(end.inputs[0])
    if smallest is not None and smallest >= SMALLEST:
        return None
    known = "not measured" if smallest is None else f"measured: {smallest:.2g}"
    return f"`{end.name}` takes its logarithm, and small numbers lose their digits in FP16 ({known})"


def _makes_integers(node: ir.Node) -> bool:
    into = node.outputs[0].dtype if node.op_type == "Cast" and not node.domain else None
    from_float = bool(node.inputs) and node.inputs[0] is not None and node.inputs[0].dtype == ir.DataType.FLOAT
    return from_float and into in {ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT32, ir.DataType.UINT64}


def _behind(end: ir.Node) -> Iterator[ir.Node]:
    waiting, seen = [end], {end}
    while waiting:
        node = waiting.pop()
        yield node
        for value in node.inputs:
            producer = None if value is None or value.dtype != ir.DataType.FLOAT else value.producer()
            if producer is not None and producer not in seen and _is_arithmetic(producer, end):
                seen.add(producer)
                waiting.append(producer)


def _is_arithmetic(node: ir.Node, end: ir.Node) -> bool:
    if node.op_type not in _ARITHMETIC or node.domain:
        return False
    if node.op_type not in {"MatMul", "Gemm"}:
        return True
    weight = ir.constant(node.inputs[1])
    return end.op_type == "Cast" and weight is not None and bool(np.all(weight == np.rint(weight)))

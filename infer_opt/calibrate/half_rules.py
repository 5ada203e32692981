"""What FP16 would do to a node: overflow, lose what is small, or round what has to be exact. In words, with figures.

Three things are asked of every node. What numbers it reads and writes, where samples were run; where none were, whether
its kind is known to leave the range (squares, long sums, exponentials). What its constants become. And how far an
extreme constant reaches: a mask of -3e38 or a floor of 1e-12 still stands in the results of the operators behind it.

Source of the limits: IEEE 754 binary16. The largest number is 65504, the smallest normal one 2**-14, and integers are
exact up to 2048.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from infer_opt.calibrate.sketch import Sketch

__all__ = ["LARGEST", "SMALLEST", "Measured", "constant_fault", "operator_fault"]

LARGEST = 65504.0
SMALLEST = 2.0**-14
_EXACT_INTEGERS = 2048
_SPARE = 2.0  # inputs may go beyond the samples by so much
_LEAST_KEPT_DB = 50.0  # of a constant's energy: rounding alone costs 70 dB and more
_LONG_SUM = 256  # elements: as many of 255 fit
_UNMEASURED = "not measured"
_NORMS = frozenset(
    {"LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization"}
    | {"MeanVarianceNormalization", "LpNormalization"}
)
_INTEGERS = frozenset({ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT32, ir.DataType.UINT64})


class Measured:
    """Magnitudes over the samples, where there were some."""

    def __init__(self, sketches: Mapping[str, Sketch] | None) -> None:
        self._sketches = sketches or {}

    def largest(self, value: ir.Value | None) -> float | None:
        """Largest finite magnitude of a value; None where it was not watched or held nothing finite."""
        sketch = None if value is None else self._sketches.get(str(value.name))
        if sketch is None or not math.isfinite(sketch.minimum):
            return None
        return max(abs(sketch.minimum), abs(sketch.maximum))

    def smallest(self, value: ir.Value | None) -> float | None:
        """Smallest element, with its sign."""
        sketch = None if value is None else self._sketches.get(str(value.name))
        return sketch.minimum if sketch is not None and math.isfinite(sketch.minimum) else None

    def spread(self, value: ir.Value | None) -> float | None:
        """Largest distance of two elements."""
        sketch = None if value is None else self._sketches.get(str(value.name))
        return sketch.maximum - sketch.minimum if sketch is not None and math.isfinite(sketch.minimum) else None

    def fault(self, value: ir.Value) -> str | None:
        """What is wrong with a value's measured range."""
        largest = self.largest(value)
        if largest is None or largest == 0.0:
            return None
        if largest * _SPARE > LARGEST:
            return f"`{value.name}` reaches {largest:.3g} (measured), FP16 ends at {LARGEST:.0f}"
        if largest < SMALLEST:
            return f"`{value.name}` stays under {largest:.2g} (measured), where FP16 loses digits"
        return None


def constant_fault(value: ir.Value) -> str | None:
    """What FP16 would do to a constant: overflow it, or round away more of its energy than 1e-5."""
    array = ir.array(value)
    if array.dtype != np.float32 or array.size == 0:
        return None
    finite = array[np.isfinite(array)]
    reach = float(np.abs(finite).max(initial=0.0))
    if reach > LARGEST:
        return f"constant `{value.name}` reaches {reach:.3g}, FP16 ends at {LARGEST:.0f}"
    exact = finite.astype(np.float64)
    signal, noise = np.square(exact).sum(), np.square(exact - finite.astype(np.float16)).sum()
    if noise > signal * 10 ** (-_LEAST_KEPT_DB / 10):
        return f"constant `{value.name}` (up to {reach:.2g}) loses {noise / signal:.2g} of its energy in FP16"
    return None


def operator_fault(node: ir.Node, measured: Measured) -> str | None:
    """What an operator does inside that FP16 may not hold: sums, squares, integers."""
    rule = _RULES.get(node.op_type)
    return rule(node, measured) if rule is not None and not node.domain else None


def _sum(node: ir.Node, measured: Measured) -> str | None:
    count = _summed(node)
    result = measured.largest(node.outputs[0])
    if result is None:
        if count is not None and count <= _LONG_SUM:
            return None
        return f"it adds up {count or 'an unknown number of'} numbers, which may overflow FP16 ({_UNMEASURED})"
    total = result * (count or math.inf) if node.op_type == "ReduceMean" and result else result
    if total * _SPARE <= LARGEST:
        return None
    if count is None:
        return "it adds up an unknown number of numbers"
    return f"its sums reach {total:.3g} (measured), FP16 ends at {LARGEST:.0f}"


def _summed(node: ir.Node) -> int | None:
    """How many elements go into one result; None where the shape does not say."""
    shape = ir.dims(node.inputs[0])
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = ir.constant(given)
    if shape is None or (given is not None and axes is None):
        return None
    sizes = [shape[int(axis)] for axis in axes] if axes is not None and axes.size else list(shape)
    known = [size for size in sizes if isinstance(size, int)]
    return math.prod(known) if len(known) == len(sizes) else None


def _squares(node: ir.Node, measured: Measured) -> str | None:
    """Sums of squares: of ReduceL2 the result squared, of ReduceSumSquare the result."""
    result = measured.largest(node.outputs[0])
    if result is None:
        return f"it adds up squares, which may overflow FP16 ({_UNMEASURED})"
    total = result**2 if node.op_type == "ReduceL2" else result
    return f"its sums reach {total:.3g} (measured), FP16 ends at {LARGEST:.0f}" if total * _SPARE > LARGEST else None


def _norm(node: ir.Node, measured: Measured) -> str | None:
    spread = measured.spread(node.inputs[0])
    if spread is None:
        return f"it squares what it reads, which may overflow FP16 ({_UNMEASURED})"
    if spread**2 > LARGEST:
        return f"its squares reach {spread**2:.3g} (measured), FP16 ends at {LARGEST:.0f}"
    return None


def _power(node: ir.Node, measured: Measured) -> str | None:
    exponent = ir.scalar(node.inputs[1])
    grows = exponent is None or abs(exponent) > 1
    if not grows or measured.largest(node.outputs[0]) is not None:
        return None
    return f"its powers may overflow FP16 ({_UNMEASURED})"


def _product(node: ir.Node, measured: Measured) -> str | None:
    if node.inputs[0] is not node.inputs[1] or measured.largest(node.outputs[0]) is not None:
        return None
    return f"its squares may overflow FP16 ({_UNMEASURED})"


def _exponential(node: ir.Node, measured: Measured) -> str | None:
    return None if measured.largest(node.outputs[0]) is not None else f"it may overflow FP16 ({_UNMEASURED})"


def _from_integers(node: ir.Node, measured: Measured) -> str | None:
    source = node.inputs[0]
    if node.op_type == "Cast" and (source is None or source.dtype not in _INTEGERS):
        return None
    largest = measured.largest(node.outputs[0])
    if largest is None:
        return f"FP16 holds integers exactly only up to {_EXACT_INTEGERS} ({_UNMEASURED})"
    if largest > _EXACT_INTEGERS:
        return f"it counts up to {largest:.0f} (measured), and FP16 is exact only up to {_EXACT_INTEGERS}"
    return None


_RULES: Mapping[str, Callable[[ir.Node, Measured], str | None]] = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceL1"), _sum),
    **dict.fromkeys(("ReduceSumSquare", "ReduceL2"), _squares),
    **dict.fromkeys(_NORMS, _norm),
    **dict.fromkeys(("Exp", "ReduceLogSumExp", "ReduceLogSum", "ReduceProd"), _exponential),
    **dict.fromkeys(("Cast", "CumSum"), _from_integers),
    "Pow": _power,
    "Mul": _product,
}

"""Einsum of two operands as the operators that backends know: MatMul, or Mul where nothing is summed.

    bqhd,bkhd->bhqk    MatMul(Transpose(a), Transpose(b))

An index of both operands is a batch where the output has it too, and is summed where it has not. What is left of the
first operand counts rows, and of the second columns; several of one kind are one axis of the product.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.linear.equations import Equation, parse_equation
from infer_opt.passes.rewrites.linear.moved_constants import moved_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EINSUM_RULES"]

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE})

Sizes = dict[str, int | None]


@dataclass(frozen=True)
class _Facts:
    """Operands by the names of the pattern, in the order of the equation; sizes that are fixed, by index."""

    operands: tuple[str, str]
    equation: Equation
    sizes: Sizes


class _Einsum(Rule):
    root = "Einsum"
    opset = 13  # Unsqueeze with the axes as an input
    near = 1

    def pattern(self, op: Any, a: Any, b: Any) -> Any:
        return op.Einsum(a, b, _outputs=["y"])

    def _equation(self, match: Match) -> tuple[Equation, Sizes]:
        equation = parse_equation(str(ir.attribute(match.root, "equation", "")))
        if match["a"].dtype not in _FLOATS:
            raise Decline("it is not of floats")
        sizes: Sizes = {}
        for name, indices in (("a", equation.first), ("b", equation.second)):
            shape = ir.dims(match[name])
            if shape is None or len(shape) != len(indices):
                raise Decline(f"the rank of `{match[name].name}` is not known")
            sizes |= {
                index: size if isinstance(size, int) else None for index, size in zip(indices, shape, strict=True)
            }
        return equation, sizes


class EinsumToMul(_Einsum):
    """An Einsum that sums nothing, to Mul: each operand in the order of the output, with axes of size 1."""

    name = "Einsum to Mul"

    def check(self, match: Match) -> Equation:
        equation, _ = self._equation(match)
        if equation.summed:
            raise Decline("it sums over an index")
        return equation

    def rewrite(self, op: Builder, match: Match, facts: Equation) -> ir.Value:
        return op.node(
            "Mul", [_spread(op, match["a"], facts.first, facts), _spread(op, match["b"], facts.second, facts)]
        )


class EinsumToMatMul(_Einsum):
    """An Einsum that sums over indices that both operands have, to MatMul."""

    name = "Einsum to MatMul"

    def check(self, match: Match) -> _Facts:
        equation, sizes = self._equation(match)
        if not equation.summed:
            raise Decline("it sums over nothing")
        first, second = (ir.dims(match[name]) or () for name in ("a", "b"))
        for index in equation.summed:
            here, there = first[equation.first.index(index)], second[equation.second.index(index)]
            if here is None or here != there:
                raise Decline("a summed index may have size 1 in one operand, which Einsum repeats")
        if 0 in sizes.values():
            raise Decline("a dimension has size 0")
        operands = ("a", "b")
        if equation.turned_is_nearer:
            operands, equation = ("b", "a"), equation.turned
        for axes in _factors(equation):
            _target(axes, sizes)
        _result_target(equation, sizes)
        return _Facts(operands, equation, sizes)

    def rewrite(self, op: Builder, match: Match, facts: _Facts) -> ir.Value:
        equation, sizes = facts.equation, facts.sizes
        factors = [
            _reshaped(op, _turned(op, match[name], have, "".join(itertools.chain(*axes))), _target(axes, sizes))
            for name, have, axes in zip(
                facts.operands, (equation.first, equation.second), _factors(equation), strict=True
            )
        ]
        made = _reshaped(op, op.node("MatMul", factors), _result_target(equation, sizes))
        return _turned(op, made, equation.product, equation.output)


def _factors(equation: Equation) -> tuple[list[str], list[str]]:
    """The axes of both factors of the product, each with the indices that it stands for."""
    return [*equation.batch, *_rows(equation), equation.summed], [*equation.batch, equation.summed, equation.columns]


def _rows(equation: Equation) -> list[str]:
    """Without a batch the rows need not be one axis: a product with a matrix takes any number of them."""
    return list(equation.rows) if equation.rows and not equation.batch else [equation.rows]


def _target(axes: Sequence[str], sizes: Sizes, kept: int | None = None) -> list[int] | None:
    """The target of a Reshape to axes of these indices, or None where nothing is to be done.

    Args:
        kept: how many axes are there already; those before the first that stands for more or less than one index.

    Raises:
        Decline: the size of one that is not there is not fixed.
    """
    if kept is None:
        kept = next((place for place, axis in enumerate(axes) if len(axis) != 1), len(axes))
        if kept == len(axes):
            return None
    made = [[sizes[index] for index in axis] for axis in axes[kept:]]
    if any(size is None for axis in made for size in axis):
        raise Decline("a dimension that would have to be written down is not fixed")
    return [0] * kept + [math.prod(size for size in axis if size is not None) for axis in made]


def _result_target(equation: Equation, sizes: Sizes) -> list[int] | None:
    """The target of the Reshape behind the product, from its rows and columns to an axis for each index."""
    rows = _rows(equation)
    apart = all(len(axis) == 1 for axis in rows)
    if apart and len(equation.columns) == 1:
        return None
    return _target(list(equation.product), sizes, len(equation.batch) + (len(rows) if apart else 0))


def _reshaped(op: Builder, value: ir.Value, target: Sequence[int] | None) -> ir.Value:
    if target is None:
        return value
    written = moved_constant(
        op, value, lambda array: array.reshape([size or array.shape[axis] for axis, size in enumerate(target)])
    )
    return written or op.node("Reshape", [value, op.initializer(np.array(target, np.int64), "shape")])


def _turned(op: Builder, value: ir.Value, have: str, want: str) -> ir.Value:
    """The value with its axes in another order."""
    if have == want:
        return value
    order = [have.index(index) for index in want]
    return moved_constant(op, value, lambda array: array.transpose(order)) or op.node(
        "Transpose", [value], {"perm": order}
    )


def _spread(op: Builder, value: ir.Value, have: str, equation: Equation) -> ir.Value:
    """The value with its axes as the output has them, and axes of size 1 for what it does not have."""
    made = _turned(op, value, have, "".join(index for index in equation.output if index in have))
    missing = [axis for axis, index in enumerate(equation.output) if index not in have]
    leading = missing == list(range(len(missing)))  # which broadcasting adds itself
    if leading:
        return made
    written = moved_constant(op, made, lambda array: np.expand_dims(array, tuple(missing)))
    return written or op.node("Unsqueeze", [made, op.initializer(np.array(missing, np.int64), "axes")])


EINSUM_RULES: tuple[Rule, ...] = (EinsumToMatMul(), EinsumToMul())

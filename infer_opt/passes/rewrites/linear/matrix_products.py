"""Matrix products: a MatMul and the bias added to it become one Gemm, and two products in a row become one.

(x W1 + b1) W2 + b2 = x (W1 W2) + (b1 W2 + b2)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.linear.linear import LARGEST_FACTOR, Linear, narrow

__all__ = ["MATRIX_RULES"]

Array = np.ndarray[Any, Any]

_MATRIX = 2


class MatMulAddToGemm(Rule):
    """`MatMul(x, W) + b` to `Gemm(x, W, b)`, for a matrix x and one number of b a column.

    Gemm takes matrices only; for a higher rank the pair is what backends fuse themselves.
    """

    name = "MatMul and Add to Gemm"
    root = "Add"
    makes = "Gemm"
    commutes = True

    def pattern(self, op: Any, x: Any, w: Any, b: Any) -> Any:
        return op.Add(op.MatMul(x, w), b)

    def check(self, match: Match) -> Array:
        bias, shape = ir.constant(match["b"]), ir.dims(match["w"])
        if bias is None or bias.dtype.kind != "f":
            raise Decline(f"`{match['b'].name}` is not a constant of floats")
        if ir.rank(match["x"]) != _MATRIX or shape is None or len(shape) != _MATRIX:
            raise Decline("the product is not of two matrices")
        columns = shape[1]
        if bias.size != columns or bias.ndim > _MATRIX or bias.shape[-1:] != (columns,):
            raise Decline(f"the added constant has shape {list(bias.shape)}, not one number a column")
        return bias.reshape(-1)

    def rewrite(self, op: Builder, match: Match, facts: Array) -> ir.Value:
        return op.node("Gemm", [match["x"], match["w"], op.initializer(facts, match["b"].name)])


class ProductOfProduct(Rule):
    """A Gemm or MatMul of a Gemm or MatMul to one Gemm, where that takes no more room and no more work.

    Two MatMuls become a MatMul, which takes more than matrices: that is a rule of its own.
    """

    def __init__(self, first: str, second: str) -> None:
        self.first, self.root = first, second
        self.name = f"{second} of {first}"

    def pattern(self, op: Any, x: Any) -> Any:
        inner = getattr(op, self.first)(x, _allow_other_inputs=True, _outputs=["inner"])
        return getattr(op, self.root)(inner, _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> tuple[Array, Array | None]:
        nodes = (match.node("inner"), match.root)
        if any((ir.elements(node.inputs[1]) or 0) > LARGEST_FACTOR for node in nodes):
            raise Decline("a factor is too large to be read for this")
        if ir.attribute(match.root, "transA", 0):
            raise Decline("the first product is transposed before the second")
        first, second = (Linear.of(node) for node in nodes)
        one, two = (_factor(linear) for linear in (first, second))
        if one.shape[0] * two.shape[1] > one.size + two.size:
            raise Decline("the product is larger than both factors")
        with np.errstate(all="ignore"):  # what is not finite is declined
            parts = [] if first.bias is None else [first.bias @ two]
            parts += [] if second.bias is None else [second.bias]
            dtype = second.weight.dtype
            return narrow(one @ two, dtype), narrow(np.sum(parts, axis=0), dtype) if parts else None

    def rewrite(self, op: Builder, match: Match, facts: tuple[Array, Array | None]) -> ir.Value:
        weight, bias = facts
        first = match.node("inner")
        inputs = [match["x"], op.initializer(weight, match.root.inputs[1].name)]  # type: ignore[union-attr]
        inputs += [] if bias is None else [op.initializer(bias, f"{match.root.name}_bias")]
        attributes = {"transA": 1} if ir.attribute(first, "transA", 0) else {}
        return op.node("Gemm", inputs, attributes)


class TransposeIntoGemm(Rule):
    """A Gemm of a transposed matrix to a Gemm that says so: `transA` or `transB` is turned.

    Args:
        side: which factor is transposed, `A` or `B`.
    """

    name = "Transpose into Gemm"
    root = "Gemm"

    def __init__(self, side: str) -> None:
        self.side = side

    @property
    def pattern(self) -> Any:
        if self.side == "A":
            return lambda op, x: op.Gemm(op.Transpose(x, _outputs=["turned"]), _allow_other_inputs=True, _outputs=["y"])
        return lambda op, a, x: op.Gemm(
            a, op.Transpose(x, _outputs=["turned"]), _allow_other_inputs=True, _outputs=["y"]
        )

    def check(self, match: Match) -> None:
        order = ir.attribute(match.node("turned"), "perm")
        if order is not None and list(order) != [1, 0]:
            raise Decline("the Transpose leaves its matrix as it is")

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        del facts
        inputs = list(match.root.inputs)
        inputs["AB".index(self.side)] = match["x"]
        attributes: dict[str, Any] = dict(match.root.attributes)
        attributes[f"trans{self.side}"] = 1 - int(ir.attribute(match.root, f"trans{self.side}", 0))
        return op.node("Gemm", inputs, attributes)


def _factor(linear: Linear) -> Array:
    """The matrix that x is multiplied with, in float64."""
    weight = linear.weight.astype(np.float64)
    if linear.node.op_type == "MatMul":
        return weight
    alpha = float(ir.attribute(linear.node, "alpha", 1.0))
    return (weight.T if ir.attribute(linear.node, "transB", 0) else weight) * alpha


MATRIX_RULES: tuple[Rule, ...] = (
    MatMulAddToGemm(),
    *(ProductOfProduct(*pair) for pair in (("Gemm", "Gemm"), ("MatMul", "Gemm"), ("Gemm", "MatMul"))),
    TransposeIntoGemm("A"),
    TransposeIntoGemm("B"),
)

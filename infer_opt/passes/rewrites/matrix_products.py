"""Matrix products: a MatMul and the bias added to it become one Gemm."""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule

__all__ = ["MATRIX_RULES"]

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

    def check(self, match: Match) -> np.ndarray[Any, Any]:
        bias, shape = ir.constant(match["b"]), ir.dims(match["w"])
        if bias is None or bias.dtype.kind != "f":
            raise Decline(f"`{match['b'].name}` is not a constant of floats")
        if ir.rank(match["x"]) != _MATRIX or shape is None or len(shape) != _MATRIX:
            raise Decline("the product is not of two matrices")
        columns = shape[1]
        if bias.size != columns or bias.ndim > _MATRIX or bias.shape[-1:] != (columns,):
            raise Decline(f"the added constant has shape {list(bias.shape)}, not one number a column")
        return bias.reshape(-1)

    def rewrite(self, op: Builder, match: Match, facts: np.ndarray[Any, Any]) -> ir.Value:
        return op.node("Gemm", [match["x"], match["w"], op.initializer(facts, match["b"].name)])


MATRIX_RULES: tuple[Rule, ...] = (MatMulAddToGemm(),)

"""Flattened images: the order in which they are flattened goes into the weight of the matrix product behind.

An image with its channels last, flattened, times W, is the image as it was, flattened, times W with its rows in the
order of that image:

    MatMul(Flatten(Transpose<p>(x)), W) = MatMul(Flatten(x), W'),  W'[flat(i)] = W[flat(i in the order p)]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.layout.orders import Order, inverse, order_of

__all__ = ["FLATTENED_RULES"]

Array = np.ndarray[Any, Any]

_MATRIX = 2


class TransposeIntoProduct(Rule):
    """`Gemm(Flatten(Transpose(x)), W)` to `Gemm(Flatten(x), W')`; so for MatMul, and a Reshape that flattens.

    Args:
        product: `Gemm` or `MatMul`.
        flattening: `Flatten` or `Reshape`.
    """

    near = 3

    def __init__(self, product: str, flattening: str) -> None:
        self.root, self.flattening = product, flattening
        self.name = f"flattened Transpose into {product}"

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        turned = op.Transpose(x, _outputs=["turned"])
        flat = getattr(op, self.flattening)(turned, _allow_other_inputs=True, _outputs=["flat"])
        return getattr(op, self.root)(flat, w, _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> Array:
        order, weight = order_of(match.node("turned")), ir.constant(match["w"])
        if weight is None or weight.ndim != _MATRIX:
            raise Decline(f"`{match['w'].name}` is not a constant matrix")
        if order is None or order[0] != 0:
            raise Decline("the Transpose moves the batch")
        if ir.attribute(match.root, "transA", 0):
            raise Decline("the flattened image is transposed")
        sizes = [size for size in (ir.dims(match["turned"]) or ())[1:] if isinstance(size, int)]
        if len(sizes) != len(order) - 1:
            raise Decline("the size of the image is not fixed")
        if not _flattens(match.node("flat"), int(np.prod(sizes))):
            raise Decline("the image is not flattened to one row a sample")
        return _in_order(weight, sizes, order, rows=1 if ir.attribute(match.root, "transB", 0) else 0)

    def rewrite(self, op: Builder, match: Match, facts: Array) -> ir.Value:
        flat, product = match.node("flat"), match.root
        row = op.node(flat.op_type, [match["x"], *flat.inputs[1:]], flat.attributes)
        row.type, row.shape = match["flat"].type, match["flat"].shape
        weight = op.initializer(facts, match["w"].name)
        return op.node(product.op_type, [row, weight, *product.inputs[2:]], product.attributes)


def _flattens(node: ir.Node, count: int) -> bool:
    """Whether the first axis stays and all others become one; a target may copy only the first."""
    if node.op_type == "Flatten":
        return bool(ir.attribute(node, "axis", 1) == 1)
    target, (before, after) = ir.constant(node.inputs[1]), (ir.dims(node.inputs[0]), ir.dims(node.outputs[0]))
    if target is None or len(target) != _MATRIX or target[1] == 0 or before is None or after is None:
        return False
    return count > 0 and (target[1] == count or (target[1] == -1 and (target[0] == 0 or after[1] == count)))


def _in_order(weight: Array, sizes: list[int], order: Order, rows: int) -> Array:
    """The weight with what meets the flattened image in the order of the image as it was."""
    columns = np.moveaxis(weight, rows, 0)
    image = columns.reshape(*sizes, -1)
    back = [axis - 1 for axis in inverse(order)[1:]]
    turned = image.transpose(*back, len(sizes)).reshape(columns.shape)
    return np.ascontiguousarray(np.moveaxis(turned, 0, rows))


FLATTENED_RULES: tuple[Rule, ...] = tuple(
    TransposeIntoProduct(product, flattening) for product in ("Gemm", "MatMul") for flattening in ("Flatten", "Reshape")
)

"""Attention written out: one operator for it.

    softmax(scale * q k^T + mask) v

The operator of the standard takes q, k and v of rank 4, [batch, heads, positions, size], and also of rank 3, where it
splits the last axis into heads itself; the one of onnxruntime takes rank 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.linear.attention_heads import head_count, keys, whole
from infer_opt.passes.rewrites.linear.attention_masks import Mask, fitting_mask

__all__ = ["ATTENTION_RULES"]

_LAST_AXES = (-1, 3)


@dataclass(frozen=True)
class _Spelling:
    """How the formula is written: what scales the product (`Mul`, `Div` or nothing), and whether a mask is added."""

    scale: str
    masked: bool

    def core(self, op: Any, q: Any, k: Any, v: Any, c: Any, mask: Any) -> Any:
        """The formula, with k transposed already."""
        scores = op.MatMul(q, k)
        if self.scale:
            scores = getattr(op, self.scale)(scores, c)
        if self.masked:
            scores = op.Add(scores, mask)
        return op.MatMul(op.Softmax(scores, _outputs=["weights"]), v)

    def pattern(self, outer: Any) -> Any:
        """`outer(op, core)` with a signature of its own: onnxscript binds by the names of parameters."""
        if self.scale and self.masked:
            return lambda op, q, k, v, c, mask: outer(op, self.core(op, q, k, v, c, mask))
        if self.scale:
            return lambda op, q, k, v, c: outer(op, self.core(op, q, k, v, c, None))
        if self.masked:
            return lambda op, q, k, v, mask: outer(op, self.core(op, q, k, v, None, mask))
        return lambda op, q, k, v: outer(op, self.core(op, q, k, v, None, None))


@dataclass(frozen=True)
class _Facts:
    scale: float
    mask: Mask | None
    heads: int = 0


class _WrittenOut(Rule):
    """The common part: what the formula has to be."""

    commutes = True
    near = 3

    def __init__(self, spelling: _Spelling) -> None:
        self.spelling = spelling

    def _checked(self, match: Match, *, expands: bool) -> _Facts:
        shapes = [ir.dims(match[name]) for name in ("q", "k", "v")]
        if any(shape is None or len(shape) != 4 for shape in shapes):
            raise Decline("queries, keys and values are not of rank 4")
        query, key, value = (shape for shape in shapes if shape is not None)
        if None in query[:2] or not query[:2] == key[:2] == value[:2]:
            raise Decline("queries, keys and values may differ in batch or heads")
        if match["q"].dtype not in {ir.DataType.FLOAT, ir.DataType.FLOAT16}:
            raise Decline("it is neither of float nor of float16")
        if ir.attribute(match.node("weights"), "axis", -1) not in _LAST_AXES:
            raise Decline("the softmax is over another axis than that of the keys")
        scores = (*query[:3], key[3])
        mask = fitting_mask(match["mask"], scores, expands=expands) if self.spelling.masked else None
        return _Facts(_scale(match, self.spelling.scale), mask)


class AttentionWrittenOut(_WrittenOut):
    """The formula to Attention, of rank 4. A row of the mask that is all minus infinity gives zeros, and no NaN."""

    name = "Attention written out"
    root = "MatMul"
    makes = "Attention"
    on_request = True  # it is slower in INT8, see docs/decisions/0002-attention.md
    opset = 23

    @property
    def pattern(self) -> Any:
        return self.spelling.pattern(lambda _, core: core)

    def check(self, match: Match) -> _Facts:
        keys(match["k"])
        return self._checked(match, expands=True)

    def rewrite(self, op: Builder, match: Match, facts: _Facts) -> ir.Value:
        mask = None if facts.mask is None else facts.mask.build(op)
        inputs = [match["q"], keys(match["k"]).build(op), match["v"], *([] if mask is None else [mask])]
        return op.node("Attention", inputs, {"scale": facts.scale})


class HeadsIntoAttention(Rule):
    """Attention that is given heads, and whose heads are joined, to Attention of rank 3, which does both itself."""

    name = "heads into Attention"
    root = "Reshape"
    opset = 23

    def pattern(self, op: Any, q: Any, k: Any, v: Any) -> Any:
        inner = op.Attention(q, k, v, _allow_other_inputs=True, _outputs=["inner"])
        return op.Reshape(op.Transpose(inner, _outputs=["joined"]), _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> int:
        inner = match.node("inner")
        if len(inner.inputs) > 4 or len(inner.outputs) > 1:
            raise Decline("the Attention has a cache")
        if len({whole(match[name]).heads for name in ("q", "k", "v")}) > 1:
            raise Decline("queries, keys and values may differ in heads")
        return head_count(match)

    def rewrite(self, op: Builder, match: Match, facts: int) -> ir.Value:
        inner = match.node("inner")
        inputs = [*(whole(match[name]).value for name in ("q", "k", "v")), *inner.inputs[3:]]
        heads = {"q_num_heads": facts, "kv_num_heads": facts}
        return op.node("Attention", inputs, {**inner.attributes, **heads})


class MultiHeadAttentionWrittenOut(_WrittenOut):
    """The formula, between what splits and joins the heads, to onnxruntime's MultiHeadAttention."""

    name = "MultiHeadAttention written out"
    root = "Reshape"
    makes = "com.microsoft::MultiHeadAttention"

    @property
    def pattern(self) -> Any:
        def joined(op: Any, core: Any) -> Any:
            return op.Reshape(op.Transpose(core, _outputs=["joined"]), _allow_other_inputs=True, _outputs=["y"])

        return self.spelling.pattern(joined)

    def check(self, match: Match) -> _Facts:
        for name in ("q", "k", "v"):
            whole(match[name], transposed=name == "k")
        facts = self._checked(match, expands=False)
        return _Facts(facts.scale, facts.mask, head_count(match))

    def rewrite(self, op: Builder, match: Match, facts: _Facts) -> ir.Value:
        inputs: list[ir.Value | None] = [whole(match[name], transposed=name == "k").value for name in ("q", "k", "v")]
        if facts.mask is not None:
            inputs += [None, None, facts.mask.build(op, rank=4)]
        attributes = {"num_heads": facts.heads, "scale": facts.scale}
        return op.node("MultiHeadAttention", inputs, attributes, domain="com.microsoft")


def _scale(match: Match, operator: str) -> float:
    if not operator:
        return 1.0
    number, own = ir.scalar(match["c"]), ir.rank(match["c"])
    if not isinstance(number, float) or own is None or own > 4:
        raise Decline("the scale is not one constant number")
    # The square root of the scale is taken: q and k are multiplied with it.
    if not (number > 0 and math.isfinite(number) and np.isfinite(np.float32(1) / np.float32(number))):
        raise Decline("the scale is not a positive number")
    return 1 / number if operator == "Div" else number


_SPELLINGS = tuple(_Spelling(scale, masked) for scale, masked in product(("", "Mul", "Div"), (False, True)))

ATTENTION_RULES: tuple[Rule, ...] = (
    *(AttentionWrittenOut(spelling) for spelling in _SPELLINGS),
    HeadsIntoAttention(),
    *(MultiHeadAttentionWrittenOut(spelling) for spelling in _SPELLINGS),
)

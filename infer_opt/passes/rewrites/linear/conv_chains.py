"""Two convolutions in a row, where one of them looks at single points: they are one.

    Conv(W2, b2)(Conv(W1, b1)(x)) = Conv(W2 W1, W2 b1 + b2)(x)

W2 W1 sums over the channels between, group by group. A depthwise Conv of single points is a scale of each channel, and
goes into the other Conv whatever its groups are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.linear.linear import LARGEST_FACTOR, Linear, narrow

__all__ = ["CONV_CHAIN_RULES"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Facts:
    weight: Array
    bias: Array | None
    attributes: dict[str, Any]


class _ConvOfConv(Rule):
    """The common part of both rules: what the two are, and the Conv that they become."""

    root = "Conv"

    def pattern(self, op: Any, x: Any) -> Any:
        inner = op.Conv(x, _allow_other_inputs=True, _outputs=["inner"])
        return op.Conv(inner, _allow_other_inputs=True, _outputs=["y"])

    def rewrite(self, op: Builder, match: Match, facts: _Facts) -> ir.Value:
        weight, bias = (value.name if value is not None else None for value in _parameters(match.root))
        inputs = [match["x"], op.initializer(facts.weight, weight)]
        if facts.bias is not None:
            inputs.append(op.initializer(facts.bias, bias or f"{match.root.name}_bias"))
        return op.node("Conv", inputs, facts.attributes)


class PointwiseAfterConv(_ConvOfConv):
    """A Conv, then one of single points without padding: its strides multiply those of the first.

    Padding of the second would put zeros where the first has its bias.
    """

    name = "pointwise Conv into Conv"

    def check(self, match: Match) -> _Facts:
        first, second = _pair(match)
        if not _is_pointwise(second) or _pads(second.node):
            raise Decline("the second Conv has a window or padding")
        if _product_size(first, second) > first.weight.size + second.weight.size:
            raise Decline("the product is larger than both weights")
        strides = _strides(second)
        attributes: dict[str, Any] = dict(first.node.attributes)
        if any(step != 1 for step in strides):
            if _is_same(first.node):
                raise Decline("the padding of the first Conv depends on its strides (auto_pad)")
            attributes["strides"] = [a * b for a, b in zip(_strides(first), strides, strict=True)]
        return _facts(first, second, _carried(first, second), attributes)


class ConvAfterPointwise(_ConvOfConv):
    """A Conv of single points, without padding and strides, then any Conv; one that pads must find no bias before it.

    The product has to be no larger than the second weight: the first may work on fewer points than the second.
    """

    name = "Conv after pointwise Conv"

    def check(self, match: Match) -> _Facts:
        first, second = _pair(match)
        if not _is_pointwise(first) or _pads(first.node) or any(step != 1 for step in _strides(first)):
            raise Decline("the first Conv has a window, padding or strides")
        carried = _carried(first, second)
        if carried is not None and _pads(second.node):
            raise Decline("the second Conv pads with zeros, where the first would have put its bias")
        if _product_size(first, second) > second.weight.size:
            raise Decline("the product is larger than the second weight")
        return _facts(first, second, carried, dict(second.node.attributes))


def _pair(match: Match) -> tuple[Linear, Linear]:
    first, second = match.node("inner"), match.root
    if any(not 0 < (ir.elements(node.inputs[1]) or 0) <= LARGEST_FACTOR for node in (first, second)):
        raise Decline("a weight is too large to be read for this, or of no fixed size")
    return Linear.of(first), Linear.of(second)


def _product_size(first: Linear, second: Linear) -> int:
    """Elements of W2 W1, found before it is computed: it may be far larger than both."""
    if _group(first) != _group(second) and not _is_scale(first) and not _is_scale(second):
        raise Decline("the two Convs have different groups")
    points = max(math.prod(linear.weight.shape[2:]) for linear in (first, second))
    return int(second.channels * (second if _is_scale(first) else first).weight.shape[1] * points)


def _product(first: Linear, second: Linear) -> Array:
    """W2 W1 in float64, with as many inputs for each output as the one of the two has that is no scale."""
    one, two = (linear.weight.astype(np.float64) for linear in (first, second))
    if _is_scale(first):
        return np.asarray(two * _per_input(one.reshape(-1), second))
    if _is_scale(second):
        return two.reshape(-1, *[1] * (one.ndim - 1)) * one
    # [group, outputs, inputs, points of the window]; one of the two has a single point.
    left, right = (_by_group(linear) for linear in (second, first))
    summed = np.einsum("gomk,gmil->goikl", left, right, optimize=True)
    window = max(one.shape[2:], two.shape[2:], key=math.prod)
    return np.asarray(summed.reshape(second.channels, one.shape[1], *window))


def _by_group(conv: Linear) -> Array:
    weight = conv.weight.astype(np.float64)
    return weight.reshape(_group(conv), -1, weight.shape[1], math.prod(weight.shape[2:]))


def _per_input(numbers: Array, second: Linear) -> Array:
    """One number for each input channel of a Conv, in a shape that meets its weight: [outputs, inputs of the group]."""
    groups = _group(second)
    rows = numbers.reshape(groups, 1, -1)
    each = np.broadcast_to(rows, (groups, second.channels // groups, rows.shape[2]))
    return each.reshape(second.channels, -1, *[1] * (second.weight.ndim - 2))


def _carried(first: Linear, second: Linear) -> Array | None:
    """W2 b1, the bias of the first Conv behind the second, or None where it has none but zeros."""
    if first.bias is None or not first.bias.any():
        return None
    with np.errstate(all="ignore"):
        summed = second.weight.astype(np.float64) * _per_input(first.bias, second)
        return np.asarray(summed.reshape(second.channels, -1).sum(axis=1))


def _facts(first: Linear, second: Linear, carried: Array | None, attributes: dict[str, Any]) -> _Facts:
    dtype = second.weight.dtype
    if _is_scale(first):
        attributes["group"] = _group(second)
    elif "group" in attributes or _group(first) != 1:
        attributes["group"] = _group(first)
    parts = [part for part in (carried, second.bias) if part is not None]
    with np.errstate(all="ignore"):  # what is not finite is declined
        weight, bias = _product(first, second), np.sum(parts, axis=0) if parts else None
    return _Facts(narrow(weight, dtype), None if bias is None else narrow(bias, dtype), attributes)


def _parameters(conv: ir.Node) -> tuple[ir.Value | None, ir.Value | None]:
    return conv.inputs[1], conv.inputs[2] if len(conv.inputs) > 2 else None


def _group(conv: Linear) -> int:
    return int(ir.attribute(conv.node, "group", 1))


def _strides(conv: Linear) -> list[int]:
    return list(ir.attribute(conv.node, "strides") or [1] * (conv.weight.ndim - 2))


def _is_same(conv: ir.Node) -> bool:
    return str(ir.attribute(conv, "auto_pad", "NOTSET")).startswith("SAME")


def _pads(conv: ir.Node) -> bool:
    """Whether a Conv may pad."""
    by_number = ir.attribute(conv, "auto_pad", "NOTSET") == "NOTSET" and any(ir.attribute(conv, "pads") or ())
    return by_number or _is_same(conv)


def _is_pointwise(conv: Linear) -> bool:
    return all(size == 1 for size in conv.weight.shape[2:])


def _is_scale(conv: Linear) -> bool:
    """Whether a Conv multiplies each channel with one number, and may add one."""
    return _is_pointwise(conv) and conv.weight.shape[1] == 1 and _group(conv) == conv.channels


CONV_CHAIN_RULES: tuple[Rule, ...] = (PointwiseAfterConv(), ConvAfterPointwise())

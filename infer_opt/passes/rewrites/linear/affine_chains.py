"""Chains of constant Mul, Div, Add and Sub: at most one Mul and one Add do the same.

    (x * a + b) * c + d = x * (a c) + (b c + d)

No constant grows: neither of the two that are left is larger than the largest of the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnxscript.rewriter.pattern import MatchResult, RewriteRule

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.linear.affine import AFFINE, Array
from infer_opt.passes.rewrites.linear.arithmetic import STEPS
from infer_opt.passes.rewrites.linear.linear import narrow, refuse_rounding

__all__ = ["CHAIN_RULES"]

_LONGEST = 8  # links; the next round takes what is left
_LARGEST_MOVE = 32.0  # what is added to x itself; more would cost digits of what is left when x is near to it


@dataclass(frozen=True)
class _Link:
    """One operator of a chain: what it reads from the one before, and its constant."""

    node: ir.Node
    x: ir.Value
    constant: ir.Value


class AffineChain(Rule):
    """The chain above, that ends in `root`, to `x * scale`, `x + shift` or `x * scale + shift`.

    A sum that comes first may cancel most of x, and is exact then; behind a factor it is not. Such a sum moves only
    where it is small.
    """

    name = "chain of constants"

    def __init__(self, root: str) -> None:
        self.root = root

    def pattern(self, op: Any, a: Any, b: Any) -> Any:
        return getattr(op, self.root)(a, b)

    def match(self, matcher: RewriteRule, model: ir.Model, graph: ir.Graph, node: ir.Node) -> MatchResult | None:
        """The most links, from the root up, that fewer nodes can do."""
        del matcher, model
        links, reason = _links(node, graph), ""
        for count in range(len(links), 1, -1):
            if count > len({_scales(link) for link in links[:count]}):
                found = MatchResult()
                for link in reversed(links[:count]):
                    found.add_node(link.node)
                try:
                    _merged(links[:count])
                except Decline as declined:
                    reason = reason or str(declined)
                else:
                    return found
        return found.fail(reason) if reason else None

    def check(self, match: Match) -> tuple[list[_Link], Array | None, Array | None]:
        if any(user.op_type in STEPS for user, _ in match.root.outputs[0].uses()):
            raise Decline("its result is cut to integers or compared, where one rounding is a whole step")
        links = _links(match.root, match.root.graph)[: len(match.nodes)]
        return links, *_merged(links)

    def rewrite(self, op: Builder, match: Match, facts: tuple[list[_Link], Array | None, Array | None]) -> ir.Value:
        del match
        links, scale, shift = facts
        value = links[-1].x
        if scale is not None:
            value = op.node("Mul", [value, op.initializer(scale, _name(links, scales=True))])
        if shift is not None:
            value = op.node("Add", [value, op.initializer(shift, _name(links, scales=False))])
        return value


def _scales(link: _Link) -> bool:
    return link.node.op_type in {"Mul", "Div"}


def _name(links: list[_Link], *, scales: bool) -> str | None:
    return next(link.constant.name for link in links if _scales(link) == scales)


def _links(node: ir.Node | None, graph: ir.Graph | None) -> list[_Link]:
    """The chain that ends in a node, the last link first: nothing else reads what one hands to the next."""
    links: list[_Link] = []
    while node is not None and node.graph is graph and len(links) < _LONGEST:
        link = _link(node)
        if link is None or (links and (len(node.outputs[0].uses()) > 1 or node.outputs[0].is_graph_output())):
            break
        links.append(link)
        node = link.x.producer()
    return links


def _link(node: ir.Node) -> _Link | None:
    if node.domain or node.op_type not in AFFINE:
        return None
    left, right = node.inputs
    if ir.is_constant(left) and node.op_type in {"Add", "Mul"}:
        left, right = right, left
    if left is None or right is None or ir.is_constant(left) or not ir.is_constant(right):
        return None
    return _Link(node, left, right) if right.dtype in _FLOATS else None


_FLOATS = {ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE}


def _merged(links: list[_Link]) -> tuple[Array | None, Array | None]:
    """Scale and shift of the whole chain.

    Raises:
        Decline: one is larger than every constant of the chain, or a number would overflow, vanish or cost digits.
    """
    scale: Array | None = None
    shift: Array | None = None
    constants = [ir.array(link.constant) for link in reversed(links)]
    for link, constant in zip(reversed(links), constants, strict=True):
        with np.errstate(all="ignore"):  # what is not finite is declined
            factor, added = AFFINE[link.node.op_type](constant.astype(np.float64))
            if _scales(link):
                scale = factor if scale is None else scale * factor
                shift = None if shift is None else shift * factor
            else:
                refuse_rounding(constant)
                shift = added if shift is None else shift + added
        if _scales(link) and shift is not None and not _scales(links[-1]) and _largest(shift) > _LARGEST_MOVE:
            raise Decline("what is added to its input is so large that it would cost digits behind a factor")
    most = max(constant.size for constant in constants)
    if any(item is not None and item.size > most for item in (scale, shift)):
        raise Decline("the constants would grow")
    dtype = constants[0].dtype
    return None if scale is None else narrow(scale, dtype), None if shift is None else narrow(shift, dtype)


def _largest(array: Array) -> float:
    return float(np.abs(array).max(initial=0.0))


CHAIN_RULES: tuple[Rule, ...] = tuple(AffineChain(root) for root in AFFINE)

"""Concats: one inside another along the same axis are one, and one that undoes a Split is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.passes.engine.base import Change
from infer_opt.passes.rewrites.shapes.slices import sliced_value

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["flatten_concats", "undo_splits"]


def flatten_concats(model: ir.Model) -> Iterator[Change]:
    """`Concat(a, Concat(b, c), d)` becomes `Concat(a, b, c, d)`, where nobody else reads the inner one.

    Last first, so that each input moves once, however many stand inside one another.
    """
    for graph in ir.all_graphs(model):
        for node in reversed(graph):
            if node.op_type != "Concat" or node.domain:
                continue
            sources, inner = _leaves(node)
            if not inner:
                continue
            flat = ir.make_node("Concat", sources, node.attributes)
            ir.set_origin(flat, [node])
            ir.replace_node(graph, node, node.outputs, flat)
            for gone in inner:  # each read by the one before
                ir.remove(gone)
            yield Change("Concat of Concat", ir.origin(flat), f"{len(sources)} inputs")


def _leaves(node: ir.Node) -> tuple[list[ir.Value | None], list[ir.Node]]:
    """What a Concat puts together in the end, and the Concats inside it, outer ones first."""
    sources: list[ir.Value | None] = []
    inner: list[ir.Node] = []
    waiting = list(reversed(node.inputs))
    while waiting:
        value = waiting.pop()
        maker = _inner(value, node)
        if maker is None:
            sources.append(value)
        else:
            inner.append(maker)
            waiting += reversed(maker.inputs)
    return sources, inner


def undo_splits(model: ir.Model) -> Iterator[Change]:
    """`Concat(Split(x))` becomes `x`, where all parts come back in their order, along the axis of the cut.

    Slices that follow one another from the first element to the last are a Split too.
    """
    for graph in ir.all_graphs(model):
        for node in graph:
            if node.op_type != "Concat" or node.domain or len(node.inputs) < 2:
                continue
            whole = _split_value(node) or sliced_value(node, _axis(node))
            if whole is not None and whole.dtype == node.outputs[0].dtype and ir.substitute(node.outputs[0], whole):
                ir.remove(node)
                yield Change("Concat of Split", ir.origin(node), f"{len(node.inputs)} parts")


def _split_value(node: ir.Node) -> ir.Value | None:
    maker = node.inputs[0].producer() if node.inputs[0] is not None else None
    if maker is None or maker.op_type != "Split" or maker.domain or tuple(maker.outputs) != tuple(node.inputs):
        return None
    rank, axis = ir.rank(maker.inputs[0]), ir.attribute(maker, "axis", 0)
    return maker.inputs[0] if rank and _axis(node) == axis % rank else None


def _inner(value: ir.Value | None, node: ir.Node) -> ir.Node | None:
    maker = value.producer() if value is not None else None
    if value is None or maker is None or maker.op_type != "Concat" or maker.domain or maker.graph is not node.graph:
        return None
    lone = len(tuple(value.uses())) == 1 and not value.is_graph_output()
    return maker if lone and _axis(maker) is not None and _axis(maker) == _axis(node) else None


def _axis(node: ir.Node) -> int | None:
    axis, rank = ir.attribute(node, "axis"), ir.rank(node.outputs[0])
    if axis is None:
        return None
    return int(axis) % rank if rank else (int(axis) if axis >= 0 else None)

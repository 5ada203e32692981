"""No-ops: nodes whose output equals one of their inputs, by a table from operator to the test that proves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change
from infer_opt.passes.rewrites.clean_up.duplicates import is_random
from infer_opt.passes.rewrites.clean_up.repeats import done_before, not_undone, one_side
from infer_opt.passes.rewrites.shapes.broadcasting import broadcasts_into

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["NO_OPS", "remove_no_ops"]


def remove_no_ops(model: ir.Model) -> Iterator[Change]:
    """Remove every node that the table proves to be a no-op, in the main graph and in subgraphs.

    A no-op between two names of the interface (an output that is an input) becomes, or stays, an Identity.
    """
    for graph in ir.all_graphs(model):
        for node in graph:
            same = equal_input(node)
            if same is None or any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
                continue
            if ir.substitute(node.outputs[0], same):
                ir.remove(node)
                yield Change("no-op", ir.origin(node), node.op_type)


def equal_input(node: ir.Node) -> ir.Value | None:
    """The value that the first output equals in every element, dtype and shape, or None.

    An input of the node, or where the node before it is undone, an input of that.
    """
    test = NO_OPS.get(node.op_type) if not node.domain else None
    same = test(node) if test else None
    return same if same is not None and _same_type(node.outputs[0], same) else None


def _same_type(output: ir.Value, source: ir.Value) -> bool:
    return output.dtype is None or source.dtype is None or output.dtype == source.dtype


def _first(node: ir.Node) -> ir.Value | None:
    return node.inputs[0] if node.inputs else None


def _lone_input(node: ir.Node) -> ir.Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _dropout(node: ir.Node) -> ir.Value | None:
    return None if is_random(node) else node.inputs[0]


def _cast(node: ir.Node) -> ir.Value | None:
    source = node.inputs[0]
    return source if source is not None and source.dtype == ir.DataType(ir.attribute(node, "to")) else None


def _same_fixed_shape(node: ir.Node) -> ir.Value | None:
    """Reshape, Flatten, Expand, Squeeze, Unsqueeze, Slice, Resize-free movers whose shape comes out as it went in.

    One symbolic dimension may differ in name only where the rest is fixed and equal: the element count then fixes it,
    unless it is 0 anyway.
    """
    before, after = ir.proven_dims(node.inputs[0]), ir.proven_dims(node.outputs[0])
    if before is None or after is None or len(before) != len(after):
        return None
    differing = [(a, b) for a, b in zip(before, after, strict=True) if not (a == b and a is not None)]
    counted = node.op_type in {"Reshape", "Flatten"} and 0 not in before
    if not differing or (counted and len(differing) == 1 and _open(differing[0])):
        return node.inputs[0]
    return None


def _open(pair: tuple[int | str | None, int | str | None]) -> bool:
    return not any(isinstance(dim, int) for dim in pair)


def _slice(node: ir.Node) -> ir.Value | None:
    before, after = ir.dims(node.inputs[0]), ir.dims(node.outputs[0])
    steps = ir.constant(node.inputs[4]) if len(node.inputs) > 4 else np.ones(1)
    if steps is None or not bool((steps == 1).all()):
        return None
    fixed = before is not None and all(isinstance(d, int) for d in before)
    return node.inputs[0] if (fixed and before == after) or _takes_all(node) else None


def _takes_all(node: ir.Node) -> bool:
    """From 0 to what exporters write for the end: no dimension is as long."""
    if len(node.inputs) < 3:
        return False  # of opset 9 or older: the bounds are attributes
    starts, ends = (ir.constant(value) for value in node.inputs[1:3])
    return starts is not None and ends is not None and not starts.any() and bool((ends >= np.iinfo(np.int32).max).all())


def _transpose(node: ir.Node) -> ir.Value | None:
    perm = ir.attribute(node, "perm")
    if (ir.rank(node.inputs[0]) or 0) == 1:
        return node.inputs[0]
    return node.inputs[0] if perm is not None and list(perm) == list(range(len(perm))) else None


def _pad(node: ir.Node) -> ir.Value | None:
    pads = ir.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return node.inputs[0] if pads is not None and not pads.any() else None


def _neutral(element: float, *, both_sides: bool) -> Callable[[ir.Node], ir.Value | None]:
    """X op e = x, for a constant filled with the neutral element that does not change x's shape by broadcasting.

    x + 0 turns -0 into +0; every ONNX operator compares the two equal, so that is accepted.
    """

    def test(node: ir.Node) -> ir.Value | None:
        for index in (1, 0) if both_sides else (1,):
            neutral, other = node.inputs[index], node.inputs[1 - index]
            filling = ir.constant(neutral)
            if filling is None or other is None or filling.dtype.kind not in "fiu":
                continue
            if bool((filling == element).all()) and broadcasts_into(filling.shape, other):
                return other
        return None

    return test


NO_OPS: dict[str, Callable[[ir.Node], ir.Value | None]] = {
    "Identity": _first,
    "Dropout": _dropout,
    "Cast": _cast,
    "Reshape": _same_fixed_shape,
    "Flatten": _same_fixed_shape,
    "Expand": _same_fixed_shape,
    "Squeeze": _same_fixed_shape,
    "Unsqueeze": _same_fixed_shape,
    "Slice": _slice,
    "Transpose": _transpose,
    "Pad": _pad,
    "Concat": _lone_input,
    "Abs": done_before,
    "Ceil": done_before,
    "Floor": done_before,
    "Relu": done_before,
    "Round": done_before,
    "Sign": done_before,
    "Not": not_undone,
    "Where": one_side,
    "Sum": _lone_input,
    "Max": _lone_input,
    "Min": _lone_input,
    "Mean": _lone_input,
    "Add": _neutral(0, both_sides=True),
    "Sub": _neutral(0, both_sides=False),
    "Mul": _neutral(1, both_sides=True),
    "Div": _neutral(1, both_sides=False),
    "Pow": _neutral(1, both_sides=False),
}

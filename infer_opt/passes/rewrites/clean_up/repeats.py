"""What does nothing because of what came before: the same operator, its inverse, or a choice that is no choice."""

from __future__ import annotations

from infer_opt import ir
from infer_opt.passes.rewrites.shapes.broadcasting import broadcasts_into

__all__ = ["done_before", "not_undone", "one_side"]


def done_before(node: ir.Node) -> ir.Value | None:
    """f(f(x)) = f(x): the input, where the same operator makes it."""
    maker = _maker(node.inputs[0])
    return node.inputs[0] if maker is not None and maker.op_type == node.op_type else None


def not_undone(node: ir.Node) -> ir.Value | None:
    """`Not(Not(x))`, which is x and no input of the node."""
    maker = _maker(node.inputs[0])
    return maker.inputs[0] if maker is not None and maker.op_type == "Not" else None


def _maker(value: ir.Value | None) -> ir.Node | None:
    maker = value.producer() if value is not None else None
    return maker if maker is not None and not maker.domain else None


def one_side(node: ir.Node) -> ir.Value | None:
    """Of a Where, the side that a constant condition takes throughout, or the value that stands on both sides.

    Its shape has to be that of the result: the condition and the other side may only be stretched to it.
    """
    condition, yes, no = node.inputs
    content = ir.constant(condition)
    if yes is no:
        taken, others = yes, [condition]
    elif content is not None and content.size and content.min() == content.max():
        taken, other = (yes, no) if content.all() else (no, yes)
        others = [condition, other]
    else:
        return None
    shapes = [ir.dims(value) for value in others]
    fits = taken is not None and all(shape is not None and broadcasts_into(shape, taken) for shape in shapes)
    return taken if fits else None

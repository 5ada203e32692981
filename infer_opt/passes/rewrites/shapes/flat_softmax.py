"""Softmax written for matrices: what is flattened, taken the Softmax of, and given its shape back needs neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir

if TYPE_CHECKING:
    from infer_opt.passes.rewrites.shapes.shape_transfer import Known

__all__ = ["softmax_of_flattened"]

_ALONG_ONE_AXIS = frozenset({"LogSoftmax", "Softmax"})


def softmax_of_flattened(known: Known, node: ir.Node) -> ir.Node | None:
    """The Softmax that a Reshape of one stands for, or None.

    `Reshape(Softmax<-1>(Reshape(x, s)), Shape(x))` is `Softmax<-1>(x)` where s keeps the last dimension of x: rows are
    the same, however they are stacked. Nobody else reads what is between. From opset 13 on, which the caller sees to.
    """
    softmax = _lone_maker(node.inputs[0], node)
    if softmax is None or softmax.op_type not in _ALONG_ONE_AXIS:
        return None
    flat = _lone_maker(softmax.inputs[0], softmax)
    if flat is None or flat.op_type not in {"Flatten", "Reshape"}:
        return None
    dims, rows = known.dims(flat.inputs[0]), known.dims(flat.outputs[0])
    if not dims or not rows or dims[-1] != rows[-1] or known.contents(node.inputs[1]) != dims:
        return None
    last = ir.attribute(softmax, "axis", -1) in {-1, len(rows) - 1}
    return ir.make_node(softmax.op_type, [flat.inputs[0]], {"axis": -1}) if last else None


def _lone_maker(value: ir.Value | None, reader: ir.Node) -> ir.Node | None:
    """The node that makes a value which only `reader` reads."""
    maker = value.producer() if value is not None else None
    if value is None or maker is None or maker.domain or maker.graph is not reader.graph or value.is_graph_output():
        return None
    return maker if len(tuple(value.uses())) == 1 else None

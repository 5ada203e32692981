"""Softmax, LogSoftmax and Hardmax of before opset 13, in the form of opset 13."""

from __future__ import annotations

from infer_opt import ir

__all__ = ["along_one_axis"]


def along_one_axis(node: ir.Node, names: ir.Names) -> bool:
    """Before 13, Softmax works on the input flattened to 2-D at `axis` (default 1); from 13, along one axis.

    The two agree where `axis` is the last one; elsewhere the flattening is written out.
    """
    axis = ir.attribute(node, "axis", 1)
    rank = ir.rank(node.inputs[0])
    if rank is not None and axis % max(rank, 1) == rank - 1:
        node.attributes.add(ir.AttrInt64("axis", -1))
        return True
    _flatten_around(node, axis, names)
    return True


def _flatten_around(node: ir.Node, axis: int, names: ir.Names) -> None:
    graph, source, output = node.graph, node.inputs[0], node.outputs[0]
    assert graph is not None  # noqa: S101 - adapters run on nodes of a graph
    assert source is not None  # noqa: S101 - Softmax has one input
    flat = ir.make_node("Flatten", [source], {"axis": axis}, name=names.fresh(f"{node.name}_flatten"))
    shape = ir.make_node("Shape", [source], name=names.fresh(f"{node.name}_shape"))
    for made, suffix in ((flat, "flat"), (shape, "dims")):
        made.outputs[0].name = names.fresh(f"{output.name}_{suffix}")
    node.replace_input_with(0, flat.outputs[0])
    node.attributes.add(ir.AttrInt64("axis", -1))
    back = ir.make_node("Reshape", [output, shape.outputs[0]], name=names.fresh(f"{node.name}_unflatten"))
    for made in (flat, shape, back):
        ir.set_origin(made, [node])
    inner = names.fresh(f"{output.name}_2d")
    graph.insert_before(node, (flat, shape))
    graph.insert_after(node, back)
    _rewire_output(graph, output, back, inner)


def _rewire_output(graph: ir.Graph, old: ir.Value, back: ir.Node, inner: str) -> None:
    new = back.outputs[0]
    for user, index in tuple(old.uses()):
        if user is not back:
            user.replace_input_with(index, new)
    for index, value in enumerate(graph.outputs):
        if value is old:
            graph.outputs[index] = new
    name, old.name = old.name, inner
    new.name, new.type, new.shape = name, old.type, old.shape
    old.shape = None

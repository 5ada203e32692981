"""Branches: an If whose condition is a constant is the branch that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.passes.engine.base import Change
from infer_opt.passes.rewrites.clean_up.dead_code import detach

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["inline", "take_constant_branches"]


def take_constant_branches(model: ir.Model) -> Iterator[Change]:
    """Move the nodes of the branch that is taken into the graph around the If, and drop the If.

    Names are unique in the whole model since loading, so nothing has to be renamed. An output of the branch that the
    branch does not make itself (an outer value, an initializer) gets an Identity.
    """
    names = ir.Names(model)
    for graph in ir.all_graphs(model):
        for node in tuple(graph):
            if node.op_type != "If" or node.domain or (taken := ir.scalar(node.inputs[0])) is None:
                continue
            names.read()
            branch: ir.Graph = ir.attribute(node, "then_branch" if taken else "else_branch")
            inline(graph, node, branch, list(branch.outputs), names)
            yield Change("constant If", ir.origin(node), "then" if taken else "else")


def inline(
    graph: ir.Graph,
    node: ir.Node,
    body: ir.Graph | None,
    outputs: Sequence[ir.Value],
    names: ir.Names,
    more: Sequence[ir.Node] = (),
) -> None:
    """Put the nodes of a subgraph, and `more` behind them, in the place of the node that carries it.

    Args:
        outputs: what the outputs of the node are then, in order. There may be fewer: the others are not read.
    """
    moved = [] if body is None else _taken_out(body, graph)
    moved += more
    made = {value for inner in moved for value in inner.outputs}
    results: list[ir.Value] = []
    for value in outputs:
        if value in made and value not in results:
            results.append(value)
            continue
        # An outer value, a constant, or one given out twice: a value of its own can take the output's name.
        copy = ir.make_node("Identity", [value], name=names.fresh(f"{node.name}_output"))
        copy.outputs[0].name = names.fresh(f"{value.name}_output")
        ir.set_origin(copy, [node])
        moved.append(copy)
        results.append(copy.outputs[0])
    graph.insert_before(node, moved)
    for old, new in zip(node.outputs, results, strict=False):
        new.type, new.shape = old.type or new.type, old.shape or new.shape
        ir.substitute(old, new)
    for inner in ir.inner_graphs(node):
        detach(inner)
    ir.remove(node)


def _taken_out(body: ir.Graph, graph: ir.Graph) -> list[ir.Node]:
    """The nodes of a subgraph, whose initializers `graph` takes over."""
    body.outputs.clear()
    for name, value in list(body.initializers.items()):
        del body.initializers[name]
        graph.register_initializer(value)
    moved = list(body)
    body.remove(moved)
    return moved

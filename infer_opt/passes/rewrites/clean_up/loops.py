"""Loops that turn once, or never: the body is written out where the Loop stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change
from infer_opt.passes.rewrites.clean_up.branches import inline

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["write_short_loops_out"]

_OPSET_OF_AXES_AS_INPUT = 13


def write_short_loops_out(model: ir.Model) -> Iterator[Change]:
    """Put the body of a Loop that surely turns once in its place, and what goes in for one that never turns.

    What a Loop gathers has an axis for the turns in front: of one turn it is an Unsqueeze. Of no turn it is empty, and
    such a Loop stays where that is read.
    """
    names = ir.Names(model)
    axes_are_inputs = model.opset_imports.get("", 1) >= _OPSET_OF_AXES_AS_INPUT
    for graph in ir.all_graphs(model):
        for node in tuple(graph):
            turns = _turns(node) if node.op_type == "Loop" and not node.domain else None
            gathered = node.outputs[max(0, len(node.inputs) - 2) :]
            read = any(value.uses() or value.is_graph_output() for value in gathered)
            if turns is None or (read and not (turns and axes_are_inputs)):
                continue
            names.read()
            if turns:
                _turn_once(graph, node, names)
            else:
                _pass_through(graph, node, names)
            yield Change("short Loop", ir.origin(node), "one turn" if turns else "no turn")


def _turns(node: ir.Node) -> int | None:
    """1 or 0, where that is certain before the first turn."""
    most, going_on = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    limit, start = ir.scalar(most), True if going_on is None else ir.scalar(going_on)
    if start is False or (limit is not None and limit <= 0):
        return 0
    return 1 if start and limit == 1 else None


def _turn_once(graph: ir.Graph, node: ir.Node, names: ir.Names) -> None:
    body: ir.Graph = ir.attribute(node, "body")
    outputs = list(body.outputs)
    body.outputs.clear()
    number = _constant(graph, body.inputs[0], np.int64(0), names)
    going_on = _constant(graph, body.inputs[1], np.bool_(1), names)
    states = [value for value in node.inputs[2:] if value is not None]
    given = dict(zip(body.inputs, (number, going_on, *states), strict=True))
    for inner, outer in given.items():
        inner.replace_all_uses_with(outer)
    results = [given.get(value, value) for value in outputs[1:]]
    carried, more = len(states), []
    for place, value in enumerate(results[carried:], carried):
        axes = ir.add_initializer(graph, names.fresh(f"{node.name}_axes"), np.zeros(1, np.int64))
        turn = ir.make_node("Unsqueeze", [value, axes], name=names.fresh(f"{node.name}_turn"))
        turn.outputs[0].name = names.fresh(f"{value.name}_turn")
        ir.set_origin(turn, [node])
        more.append(turn)
        results[place] = turn.outputs[0]
    inline(graph, node, body, results, names, more)


def _constant(graph: ir.Graph, value: ir.Value, content: np.generic, names: ir.Names) -> ir.Value:
    """What a body is given as a scalar, or as a vector of one element where it says so."""
    shape = (1,) if ir.rank(value) == 1 else ()
    return ir.add_initializer(graph, names.fresh(str(value.name)), np.full(shape, content))


def _pass_through(graph: ir.Graph, node: ir.Node, names: ir.Names) -> None:
    carried = [value for value in node.inputs[2:] if value is not None]
    inline(graph, node, None, carried, names)

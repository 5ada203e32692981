"""Dead outputs of control flow: what If, Loop and Scan compute and nobody reads, with the state that only it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infer_opt import ir
from infer_opt.passes.engine.base import Change
from infer_opt.passes.rewrites.clean_up.dead_code import remove_dead_code_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, MutableSequence, Sequence

__all__ = ["remove_dead_outputs"]

_SCAN_WITH_BATCHES = 8  # the opset of a Scan that has another first input


def remove_dead_outputs(model: ir.Model) -> Iterator[Change]:
    """Drop outputs of If, Loop and Scan that nobody reads, where one is left that somebody does.

    An If loses them in both branches. What a Loop or a Scan carries from turn to turn goes if nothing that stays
    depends on it; what is gathered over the turns goes at once.
    """
    for graph in ir.all_graphs(model):
        for node in tuple(graph):
            if node.op_type not in {"If", "Loop", "Scan"} or node.domain:
                continue
            read = {index for index, value in enumerate(node.outputs) if value.uses() or value.is_graph_output()}
            if not read or len(read) == len(node.outputs):
                continue
            kept = read if node.op_type == "If" else _needed(node, read, model.opset_imports.get("", 1))
            dropped = len(node.outputs) - len(kept)
            if dropped:
                _drop(graph, node, kept)
                yield Change("dead output", ir.origin(node), f"{dropped} of {node.op_type}")


@dataclass(frozen=True)
class _Places:
    """Where a Loop or Scan keeps what: how many values it carries, and how many come before them.

    Args:
        before: inputs of the node before the carried ones (the most turns and the condition of a Loop).
        own: inputs of the body before them (the number of the turn and the condition).
        condition: outputs of the body before them.
    """

    carried: int
    before: int
    own: int
    condition: int


def _places(node: ir.Node) -> _Places:
    if node.op_type == "Loop":
        return _Places(len(node.inputs) - 2, before=2, own=2, condition=1)
    return _Places(len(node.inputs) - int(ir.attribute(node, "num_scan_inputs")), before=0, own=0, condition=0)


def _needed(node: ir.Node, read: set[int], opset: int) -> set[int]:
    """Outputs that are read, and the carried values that they, or the condition of a Loop, come from."""
    if node.op_type == "Scan" and opset <= _SCAN_WITH_BATCHES:
        return set(range(len(node.outputs)))
    body, places = ir.attribute(node, "body"), _places(node)
    needed, waiting = set(read), [body.outputs[places.condition + index] for index in read]
    waiting += tuple(body.outputs)[: places.condition]
    carried = {body.inputs[places.own + index]: index for index in range(places.carried)}
    seen: set[ir.Value] = set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in carried and carried[value] not in needed:
            needed.add(carried[value])
            waiting.append(body.outputs[places.condition + carried[value]])
        maker = value.producer()
        if maker is not None and maker.graph is body:
            waiting += _reads(maker)
    return needed


def _reads(node: ir.Node) -> list[ir.Value]:
    """What a node and its subgraphs read, the values that a subgraph makes itself too: they lead nowhere."""
    found = [value for value in node.inputs if value is not None]
    for inner in ir.inner_graphs(node):
        found += tuple(inner.outputs)
        for inner_node in inner:
            found += _reads(inner_node)
    return found


def _drop(graph: ir.Graph, node: ir.Node, kept: set[int]) -> None:
    inputs = list(node.inputs)
    gone = [index for index in range(len(node.outputs)) if index not in kept]
    if node.op_type == "If":
        for branch in ir.inner_graphs(node):
            _pop(branch.outputs, gone)
            remove_dead_code_of(branch)
    else:
        body, places = ir.attribute(node, "body"), _places(node)
        _pop(body.outputs, [places.condition + index for index in gone])
        remove_dead_code_of(body)
        states = [index for index in gone if index < places.carried]
        _pop(body.inputs, [places.own + index for index in states])
        _pop(inputs, [places.before + index for index in states])
        _pop_options(node, [index - places.carried for index in gone if index >= places.carried])
    made = ir.make_node(node.op_type, inputs, num_outputs=len(kept))
    for attr in tuple(node.attributes.values()):
        del node.attributes[attr.name]
        made.attributes.add(attr)
    ir.set_origin(made, [node])
    ir.replace_node(graph, node, [node.outputs[index] for index in sorted(kept)], made)


def _pop(values: MutableSequence[Any], places: Iterable[int]) -> None:
    for place in sorted(places, reverse=True):
        values.pop(place)


def _pop_options(node: ir.Node, gathered: Sequence[int]) -> None:
    """The axes and directions of a Scan's gathered outputs, of which there is one each or none at all."""
    for name in ("scan_output_axes", "scan_output_directions"):
        numbers = ir.attribute(node, name)
        if numbers:
            left = [number for index, number in enumerate(numbers) if index not in gathered]
            del node.attributes[name]
            if left:
                node.attributes.add(ir.AttrInt64s(name, left))

"""Layout: Transposes move to where there are fewest, and vanish where they meet.

    Relu(Transpose<p>(x)) = Transpose<p>(Relu(x))            Transpose<q>(Transpose<p>(x)) = Transpose<p[q]>(x)

For each region, the orders that some Transpose at its border suggests are compared by the elements that have to be
moved. Where an export wraps each Conv in Transposes for images with channels last, each region between them chooses
channels first, and none is left. `merge_transposes` joins the Transposes that meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change
from infer_opt.passes.rewrites.layout.axis_carriers import CARRIERS, Array, Turned
from infer_opt.passes.rewrites.layout.orders import Order, composed, inverse, is_identity, order_of
from infer_opt.passes.rewrites.layout.regions import Region, carried_inputs, is_scalar, regions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["move_transposes"]


def move_transposes(model: ir.Model) -> Iterator[Change]:
    """Hold each region in the order of axes that needs the fewest Transposes."""
    names = ir.Names(model)
    opset = model.opset_imports.get("", 1)
    for graph in ir.all_graphs(model):
        if any(order_of(node) for node in graph):
            for region in regions(graph, opset):
                order = region.better_order()
                if order is not None:
                    yield Change("move Transposes", region.transposes(), f"to axes {list(order)}")
                    _hold(region, order, names)


class _Held:
    """The values of a region in its new order, made when they are first asked for."""

    def __init__(self, order: Order, names: ir.Names) -> None:
        self._order = order
        self._names = names
        self.values: dict[ir.Value, ir.Value] = {}

    def of(self, value: ir.Value, reader: ir.Node) -> ir.Value:
        """The value as `reader`, a new node, reads it; scalars have no order."""
        if is_scalar(value):
            return value
        if value not in self.values:
            self.values[value] = (
                self._constant(value, reader) if ir.is_constant(value) else self._entered(value, reader)
            )
        return self.values[value]

    def _constant(self, value: ir.Value, reader: ir.Node) -> ir.Value:
        array = ir.array(value)
        whole = array.reshape((1,) * (len(self._order) - array.ndim) + array.shape)
        return self.initializer(reader, str(value.name), whole.transpose(inverse(self._order)))

    def _entered(self, value: ir.Value, reader: ir.Node) -> ir.Value:
        """Read past a Transpose before the region."""
        before, order = value.producer(), inverse(self._order)
        own = order_of(before) if before is not None and before.graph is reader.graph else None
        if before is not None and before.inputs[0] is not None and own is not None:
            value, order = before.inputs[0], composed(own, order)
        if is_identity(order):
            return value
        turn = self.transpose(value, order, reader)
        _graph(reader).insert_before(reader, turn)
        return self.named(turn.outputs[0], value, order)

    def initializer(self, reader: ir.Node, like: str, array: Array) -> ir.Value:
        return ir.add_initializer(_graph(reader), self._names.fresh(like), np.ascontiguousarray(array))

    def transpose(self, value: ir.Value, order: Order, origin: ir.Node) -> ir.Node:
        made = ir.make_node("Transpose", [value], {"perm": list(order)}, name=self._names.fresh(f"{origin.name}_turn"))
        ir.set_origin(made, [origin])
        return made

    def named(self, new: ir.Value, old: ir.Value, order: Order) -> ir.Value:
        """A new value that holds an old one, turned by `order`."""
        dims = ir.dims(old)
        new.name = self._names.fresh(f"{old.name}_turned")
        new.type = old.type
        new.shape = None if dims is None else ir.Shape([dims[axis] for axis in order])
        return new


def _hold(region: Region, order: Order, names: ir.Names) -> None:
    """Make the nodes of a region again on values held in `order`, and Transposes around them."""
    turned = region.turned(order)
    assert turned is not None  # noqa: S101 - an order that costs less is one that all can work in
    held = _Held(order, names)
    for node, item in turned.items():
        again = _again(node, item, held)
        for old, new in zip(node.outputs, again.outputs, strict=True):
            held.values[old] = held.named(new, old, inverse(item.order)) if old.name else new
    for node, item in turned.items():
        for old in node.outputs:
            _restore(old, held, item.order, turned)
    for node in reversed(turned):
        _remove(node)
    for maker in (value.producer() for value in region.entering):
        if (
            maker is not None
            and order_of(maker)
            and not maker.outputs[0].uses()
            and not maker.outputs[0].is_graph_output()
        ):
            _remove(maker)  # a dead reader would count for what other regions cost


def _remove(node: ir.Node) -> None:
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)
    ir.remove(node)


def _again(node: ir.Node, item: Turned, held: _Held) -> ir.Node:
    """The node on turned values, behind the old one."""
    made = ir.make_node(
        node.op_type,
        node.inputs,
        {**node.attributes, **item.attributes},
        num_outputs=len(node.outputs),
        name=node.name,
    )
    ir.set_origin(made, [node])
    _graph(node).insert_after(node, made)
    carried = carried_inputs(node)
    for index, value in enumerate(node.inputs):
        if index in item.constants:
            made.replace_input_with(index, held.initializer(made, f"{node.name}_turned", item.constants[index]))
        elif value in carried and (index == 0 or CARRIERS[node.op_type].all_inputs):
            made.replace_input_with(index, held.of(value, made))
    return made


def _restore(old: ir.Value, held: _Held, order: Order, region: Collection[ir.Node]) -> None:
    """Give the readers outside the value as it was, under its name; Transposes among them take its order up."""
    new, outside = held.values[old], [user for user, _ in old.uses() if user not in region]
    for user in outside:
        own = order_of(user) if user.graph is new.graph else None
        if own is not None:
            user.replace_input_with(0, new)
            user.attributes.add(ir.AttrInt64s("perm", composed(order, own)))
    if not old.is_graph_output() and all(user in region for user, _ in old.uses()):
        return
    maker = new.producer()
    assert maker is not None  # noqa: S101 - it is an output of a node made above
    if not is_identity(order):
        turn = held.transpose(new, order, maker)
        _graph(maker).insert_after(maker, turn)
        new = turn.outputs[0]
        new.type, new.shape = old.type, old.shape
    name = old.name
    ir.substitute(old, new)
    old.name, new.name = None, name


def _graph(node: ir.Node) -> ir.Graph:
    graph = node.graph
    assert isinstance(graph, ir.Graph)  # noqa: S101 - every node of a region is in one
    return graph

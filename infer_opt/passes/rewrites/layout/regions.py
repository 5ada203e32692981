"""Regions: operators that work in any order of axes, joined by the values between them, and the order that costs least.

A region is entered and left through Transposes, and the order in which it holds its values decides which of them are
needed.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.passes.rewrites.layout.axis_carriers import CARRIERS
from infer_opt.passes.rewrites.layout.orders import composed, cost_of_moving, inverse, is_identity, order_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from infer_opt.passes.rewrites.layout.axis_carriers import Carrier, Turned
    from infer_opt.passes.rewrites.layout.orders import Dims, Order

__all__ = ["Region", "carried_inputs", "is_scalar", "regions"]

_MOST_ORDERS = 4  # that are compared; a border has one or two
_LARGEST_CONSTANT = 1 << 20  # elements: weights stay as they are
_AXIS_MEANS_ONE_AXIS = 13  # opset: before, Softmax flattened what follows its axis
_SOFTENING = frozenset({"Hardmax", "LogSoftmax", "Softmax"})
_TAKE_IN = frozenset({"Conv", "ConvTranspose"})  # what fusion puts the element-wise operators behind into
_FOLD_IN = frozenset({"Add", "BatchNormalization", "Div", "Mul", "Neg", "Sub"})  # those operators
_LONGEST_CHAIN = 8  # of them


@dataclass(frozen=True)
class Region:
    """Operators joined by values whose axes stand alike.

    Args:
        nodes: in the order of the graph. Those whose outputs have another rank end the region.
        rank: of every value inside.
    """

    nodes: Sequence[ir.Node]
    rank: int

    @cached_property
    def entering(self) -> list[ir.Value]:
        """Values made outside, constants aside."""
        made = {value for node in self.inside for value in node.outputs}
        found = dict.fromkeys(value for node in self.nodes for value in carried_inputs(node))
        return [value for value in found if value not in made and not ir.is_constant(value)]

    @cached_property
    def inside(self) -> list[ir.Node]:
        """Nodes whose outputs belong to the region."""
        return [node for node in self.nodes if ir.rank(node.outputs[0]) == self.rank]

    def better_order(self) -> Order | None:
        """The order that costs least, or None where the region is best left as it is."""
        orders = self._suggested()
        if not orders:
            return None
        now = self._cost(tuple(range(self.rank)))
        costs = {order: self._cost(order) for order in orders}
        best = min(costs, key=lambda order: costs[order])
        gains = self._lets_fuse(best) or self._brings_axes_to_the_end(best)
        return best if costs[best] < now or (costs[best] == now and gains) else None

    def transposes(self) -> tuple[str, ...]:
        """Names of the Transposes at the border."""
        before = [maker for value in self.entering if (maker := value.producer()) is not None]
        after = [user for node in self.nodes for value in node.outputs for user, _ in value.uses()]
        border = [node for node in (*before, *after) if self._order_of(node)]
        return tuple(dict.fromkeys(name for node in border for name in ir.origin(node)))

    def _suggested(self) -> list[Order]:
        before = [order for value in self.entering if (order := self._order_before(value))]
        readers = [user for node in self.inside for value in node.outputs for user, _ in value.uses()]
        after = [inverse(order) for user in readers if (order := self._order_of(user))]
        orders = [order for order in (*before, *after) if not is_identity(order)]
        return [order for order, _ in Counter(orders).most_common(_MOST_ORDERS)]

    def turned(self, order: Order) -> dict[ir.Node, Turned] | None:
        """What each node becomes, or None where one that is inside cannot work in that order.

        A node that ends the region and cannot is left out: it reads the value as it was.
        """
        found = {node: CARRIERS[node.op_type].turn(node, order) for node in self.nodes}
        if any(found[node] is None for node in self.inside):
            return None
        return {node: turned for node, turned in found.items() if turned is not None}

    def _cost(self, order: Order) -> float:
        """Elements moved by the Transposes at the border, and what starting them takes."""
        turned = self.turned(order)
        if turned is None:
            return math.inf
        read = {value for node in turned for value in carried_inputs(node)}
        entering = sum(self._cost_of_entering(value, order, turned.keys()) for value in self.entering if value in read)
        made = [(value, item.order) for node, item in turned.items() for value in node.outputs]
        return entering + sum(self._cost_of_leaving(value, held, turned.keys()) for value, held in made)

    def _cost_of_entering(self, value: ir.Value, order: Order, nodes: Collection[ir.Node]) -> float:
        """Of the Transpose that brings a value into the region, unless there is one that others need anyway."""
        own, wanted = self._order_before(value), inverse(order)
        maker = value.producer()
        if own is None or maker is None or maker.inputs[0] is None:
            readers = (user for user, _ in value.uses() if user not in nodes)
            there = any(self._order_of(user) == wanted and self._stays(user.outputs[0], nodes) for user in readers)
            return 0.0 if there else cost_of_moving(self._dims(value), wanted)
        source = maker.inputs[0]
        if self._stays(value, nodes) and is_identity(order):
            return 0.0
        if source.producer() in nodes:  # a Transpose from the region to the region turns on both sides
            dims = tuple(self._dims(source)[axis] for axis in wanted)
            return cost_of_moving(dims, composed(composed(order, own), wanted))
        return cost_of_moving(self._dims(source), composed(own, wanted))

    def _stays(self, value: ir.Value, nodes: Collection[ir.Node]) -> bool:
        """Whether somebody else reads a value."""
        return value.is_graph_output() or any(user not in nodes for user, _ in value.uses())

    def _cost_of_leaving(self, value: ir.Value, order: Order, nodes: Collection[ir.Node]) -> float:
        """Transposes that read the value take its order up; all other readers outside share one that restores it."""
        dims = tuple(self._dims(value, len(order))[axis] for axis in inverse(order))
        readers = [user for user, _ in value.uses() if user not in nodes and not self._leads_back(user, nodes)]
        orders = [self._order_of(user) for user in readers]
        restored = value.is_graph_output() or None in orders
        taken_up = sum(cost_of_moving(dims, composed(order, own)) for own in orders if own is not None)
        return taken_up + (cost_of_moving(dims, order) if restored else 0.0)

    def _leads_back(self, reader: ir.Node, nodes: Collection[ir.Node]) -> bool:
        """Whether it is a Transpose that only the region reads: that counts where it enters."""
        return self._order_of(reader) is not None and not self._stays(reader.outputs[0], nodes)

    def _dims(self, value: ir.Value, rank: int | None = None) -> Dims:
        return ir.dims(value) or (None,) * (self.rank if rank is None else rank)

    def _order_before(self, value: ir.Value) -> Order | None:
        maker = value.producer()
        return None if maker is None else self._order_of(maker)

    def _order_of(self, node: ir.Node) -> Order | None:
        """Of a Transpose of the region's own graph: those of others do not join with it."""
        return order_of(node) if node.graph is self.nodes[0].graph else None

    def _brings_axes_to_the_end(self, order: Order) -> bool:
        """Whether a Softmax comes to work along a later axis: kernels that only know the last turn all others there."""
        turned = self.turned(order) or {}
        along = [node for node in turned if node.op_type in _SOFTENING]
        before = sum(int(ir.attribute(node, "axis", -1)) % self.rank for node in along)
        return sum(int(turned[node].attributes["axis"]) for node in along) > before

    def _lets_fuse(self, order: Order) -> bool:
        """Whether element-wise operators come to stand right behind the Conv that can take them in."""
        plain = all(CARRIERS[node.op_type].element_wise for node in self.nodes)
        return plain and all(self._order_before(value) == order and _is_of_conv(value) for value in self.entering)


def _is_of_conv(turned: ir.Value) -> bool:
    """Whether a Transpose that makes the value reads a convolution, or what will fold into one."""
    maker = turned.producer()
    for _ in range(_LONGEST_CHAIN):
        source = None if maker is None or not maker.inputs or maker.inputs[0] is None else maker.inputs[0].producer()
        if source is None or source.domain or source.op_type not in {*_TAKE_IN, *_FOLD_IN}:
            return False
        if source.op_type in _TAKE_IN:
            return True
        maker = source
    return False


def carried_inputs(node: ir.Node) -> list[ir.Value]:
    """The inputs whose axes are those of the region: scalars have none."""
    inputs = node.inputs if CARRIERS[node.op_type].all_inputs else node.inputs[:1]
    return [value for value in inputs if value is not None and not is_scalar(value)]


def is_scalar(value: ir.Value) -> bool:
    """Whether a value is one number without axes: it broadcasts in any order."""
    return ir.rank(value) == 0 or (ir.is_constant(value) and ir.elements(value) == 1 and ir.rank(value) == 1)


def regions(graph: ir.Graph, opset: int) -> Iterator[Region]:
    """The regions of a graph, each as large as it can be."""
    groups = _Groups()
    carriers: list[tuple[ir.Node, int]] = []
    for node in graph:
        rank = _rank_inside(node, opset)
        if rank is None:
            continue
        carriers.append((node, rank))
        carried = [value for value in carried_inputs(node) if not ir.is_constant(value)]
        ends = ir.rank(node.outputs[0]) != rank
        groups.join([*carried, *([] if ends else node.outputs)])
    members: dict[object, list[tuple[ir.Node, int]]] = defaultdict(list)
    for node, rank in carriers:
        first = next(value for value in (*carried_inputs(node), *node.outputs) if not ir.is_constant(value))
        members[groups.find(first)].append((node, rank))
    for found in members.values():
        yield Region([node for node, _ in found], found[0][1])


def _rank_inside(node: ir.Node, opset: int) -> int | None:
    """Rank of the values of the region that a node belongs to, or None where it belongs to none."""
    carrier = CARRIERS.get(node.op_type) if not node.domain else None
    if carrier is None or (node.op_type in _SOFTENING and opset < _AXIS_MEANS_ONE_AXIS):
        return None
    carried = carried_inputs(node)
    ranks = {ir.rank(value) for value in carried if not ir.is_constant(value)}
    rank = next(iter(ranks)) if len(ranks) == 1 else None
    return rank if rank is not None and rank > 1 and _constants_fit(carried, rank, carrier) else None


def _constants_fit(carried: list[ir.Value], rank: int, carrier: Carrier) -> bool:
    """Constants are turned once, now: those that are broadcast may lack the first axes."""
    constants = [value for value in carried if ir.is_constant(value)]
    sizes = [ir.elements(value) or 0 for value in constants]
    lacking = any((ir.rank(value) or 0) < rank for value in constants)
    longer = any((ir.rank(value) or 0) > rank for value in constants)
    return max(sizes, default=0) <= _LARGEST_CONSTANT and not longer and (carrier.element_wise or not lacking)


class _Groups:
    """Disjoint sets of values (union by the first, paths halved)."""

    def __init__(self) -> None:
        self._parents: dict[ir.Value, ir.Value] = {}

    def find(self, value: ir.Value) -> ir.Value:
        parents = self._parents
        while (parent := parents.setdefault(value, value)) is not value:
            parents[value] = parents[parent]
            value = parent
        return value

    def join(self, values: Iterable[ir.Value]) -> None:
        roots = [self.find(value) for value in values]
        for root in roots[1:]:
            self._parents[root] = roots[0]

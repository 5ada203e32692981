"""Where plans leave integers: what it costs that a value is written in integers and read in float, or the other way."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from infer_opt.calibrate.grouping import Alternative
    from infer_opt.calibrate.sensing import Sensed
    from infer_opt.calibrate.target import LatencyModel

__all__ = ["Boundary", "boundaries"]

# An element: 0.2 ns to quantize or turn back, as much to change the layout that integer kernels want, and the copy
# between (measured on AVX-512; sums of kernels then predict the whole of YOLOv8n's plans to 6 %).
_SECONDS = 8e-10


@dataclass(frozen=True)
class Boundary:
    """A value that groups hand on in integers, where all of them are lowered so.

    Args:
        to_float: seconds that turning it from integers to float costs, once for all readers; 0 where the kernel that
            makes it writes what is wanted.
        to_integers: and the other way.
        writers: alternatives of the group that makes it, those that write it in integers.
        readers: for each group that may read it in integers, the alternatives that do.
        always_float: whether somebody reads it in float whatever is lowered: then it is turned back at all events, and
            that is in the kernel times.
    """

    to_float: float
    to_integers: float
    writers: tuple[Alternative, ...]
    readers: tuple[tuple[Alternative, ...], ...]
    always_float: bool

    def cost(self, chosen: Collection[Alternative]) -> float:
        """Seconds for a choice of alternatives, beyond what kernel times hold."""
        written = any(way in chosen for way in self.writers)
        read = [any(way in chosen for way in ways) for ways in self.readers]
        turned_back = written and not all(read) and not self.always_float
        return self.to_float * turned_back + self.to_integers * (not written and any(read))


def boundaries(model: ir.Model, sensed: Sensed) -> list[Boundary]:
    """Of all values between groups; none where there are no times: sizes of weights cannot be weighed against them."""
    if sensed.in_float is None:
        return []
    if sensed.model is not None:
        return _modelled(model, sensed, sensed.model)
    writers: dict[str, list[Alternative]] = defaultdict(list)
    readers: dict[str, dict[str, list[Alternative]]] = defaultdict(lambda: defaultdict(list))
    for way, plan in ((way, sensed.plans[way.plan]) for way in sensed.alternatives):
        names = set(way.regions)
        for region, scheme in plan.lowered():
            if region.name in names:
                for value in dict.fromkeys(scheme.writes):
                    writers[value].append(way)
                for value in dict.fromkeys(scheme.reads):
                    _add(readers[value][way.group.name], way)
    makers = {value: ways[0].group.name for value, ways in writers.items()}
    others = _float_readers(model, sensed)
    found = []
    for value, ways in writers.items():
        between = tuple(tuple(each) for group, each in readers[value].items() if group != makers[value])
        if between:
            seconds = _SECONDS * sensed.sizes.get(value, 0)
            found.append(Boundary(seconds, seconds, tuple(ways), between, value in others))
    return found


def _modelled(model: ir.Model, sensed: Sensed, latency: LatencyModel) -> list[Boundary]:
    """Of all values that are read in integers, those that no group makes too.

    A kernel writes float or integers, as its readers want; what one in float makes is turned by a kernel of its own.
    """
    makers: dict[str, list[Alternative]] = defaultdict(list)
    readers: dict[str, dict[str, list[Alternative]]] = defaultdict(lambda: defaultdict(list))
    for way, plan in ((way, sensed.plans[way.plan]) for way in sensed.alternatives):
        for region, scheme in plan.lowered():
            if region.name in way.regions:
                for value in (*scheme.writes, *scheme.hands_on):
                    _add(makers[value], way)
                for value in scheme.reads:
                    _add(readers[value][way.group.name], way)
    values = {str(value.name): value for value in ir.every_value(model)}
    found = []
    for value, by_group in readers.items():
        maker = {way.group.name for way in makers[value]}
        between = tuple(tuple(ways) for group, ways in by_group.items() if group not in maker)
        if between and value in sensed.sizes:
            seconds = latency.crossing(values[value], sensed.sizes[value])
            found.append(Boundary(0.0, seconds, tuple(makers[value]), between, always_float=False))
    return found


def _add(ways: list[Alternative], way: Alternative) -> None:
    if way not in ways:
        ways.append(way)


def _float_readers(model: ir.Model, sensed: Sensed) -> set[str]:
    """Values that a node reads which no plan lowers, or that are outputs of the model."""
    lowered = {name for way in sensed.alternatives for name in way.regions}
    plan = next(iter(sensed.plans.values()))
    within = {node for region in plan.regions if region.name in lowered for node in region.nodes}
    return set(_read_outside(model, within)) | {str(value.name) for value in model.graph.outputs}


def _read_outside(model: ir.Model, within: Collection[str]) -> Iterator[str]:
    for name, node in _nodes(model).items():
        if name not in within:
            yield from (str(value.name) for value in node.inputs if value is not None)


def _nodes(model: ir.Model) -> Mapping[str, ir.Node]:
    return {str(node.name): node for graph in ir.all_graphs(model) for node in graph}

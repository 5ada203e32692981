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

__all__ = ["Boundary", "boundaries"]

# An element: 0.2 ns to quantize or turn back, as much to change the layout that integer kernels want, and the copy
# between (measured on AVX-512; sums of kernels then predict the whole of YOLOv8n's plans to 6 %).
_SECONDS = 8e-10


@dataclass(frozen=True)
class Boundary:
    """A value that groups hand on in integers, where all of them are lowered so.

    Args:
        seconds: what turning it from integers to float costs, or back; once for all readers.
        writers: alternatives of the group that makes it, those that write it in integers.
        readers: for each group that may read it in integers, the alternatives that do.
        always_float: whether somebody reads it in float whatever is lowered: then it is turned back at all events, and
            that is in the kernel times.
    """

    seconds: float
    writers: tuple[Alternative, ...]
    readers: tuple[tuple[Alternative, ...], ...]
    always_float: bool

    def cost(self, chosen: Collection[Alternative]) -> float:
        """Seconds for a choice of alternatives, beyond what kernel times hold."""
        written = any(way in chosen for way in self.writers)
        read = [any(way in chosen for way in ways) for ways in self.readers]
        turned_back = written and not all(read) and not self.always_float
        return self.seconds * (turned_back + (not written and any(read)))


def boundaries(model: ir.Model, sensed: Sensed) -> list[Boundary]:
    """Of all values between groups; none where nothing was timed: sizes of weights cannot be weighed against them."""
    if sensed.in_float is None:
        return []
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
            found.append(Boundary(seconds, tuple(ways), between, value in others))
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

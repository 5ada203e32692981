"""A copy of a model that reports on its inner values while it runs, without ever handing them out whole.

Beside each value stand its minimum, maximum and sum, and an evenly spaced subsample of its elements. Run with
`Runner(mode="lean")`, values are freed as the run goes on, so memory does not grow with the number that is watched.
What is watched inside a branch of an If is handed out by that If; a run that takes the other branch reports nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.hoisting import Hoist

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["OFFSETS", "SUBSAMPLE", "Instrumented", "Probe", "instrument"]

SUBSAMPLE = 4096  # elements of each tensor of each sample that enter its histogram, at most
OFFSETS = 8  # random numbers that place the subsamples of one sample, one for each axis

_END = np.iinfo(np.int64).max


class Probe:
    """Names of the outputs that report on one value; `branch` is the branch that it stands in, by its name."""

    def __init__(self, value: str, stem: str, branch: str | None = None) -> None:
        self.value, self.branch = value, branch
        self.maximum, self.minimum, self.sum, self.subsample = (
            f"{stem}/{what}" for what in ("maximum", "minimum", "sum", "subsample")
        )

    def names(self) -> tuple[str, ...]:
        """All four."""
        return (self.maximum, self.minimum, self.sum, self.subsample)


@dataclass(frozen=True)
class Instrumented:
    """The instrumented copy.

    Args:
        model: its own outputs come first.
        probes: one for each watched value, in order.
        offsets: name of the input that says where subsamples begin: `OFFSETS` non-negative int64, drawn anew for each
            sample, so that every element of a value has the same chance.
        branches: by the name of each branch, the output that says whether a run took it.
    """

    model: ir.Model
    probes: tuple[Probe, ...]
    offsets: str
    branches: Mapping[str, str]


def instrument(model: ir.Model, values: Sequence[str]) -> Instrumented:
    """Make the copy that watches `values`: names of float values of the main graph, or of branches of If.

    Needs opset 13 or newer.
    """
    copy = ir.clone(ir.expand_references(model))
    names = ir.Names(copy)
    hoist = Hoist(copy, names)
    branches = hoist.flags()
    known: dict[str | None, tuple[ir.Value, str | None]] = {value.name: (value, None) for value in copy.graph.inputs}
    for scope in ir.scopes(copy):
        known |= {value.name: (value, scope.name) for node in scope.graph for value in node.outputs}
    builder = _Builder(copy, names, hoist)
    probes = []
    for index, name in enumerate(values):
        value, branch = known[name]
        probes.append(builder.watch(value, Probe(name, names.fresh(f"probe_{index}"), branch)))
    return Instrumented(copy, tuple(probes), str(builder.offsets.name), branches)


class _Builder:
    def __init__(self, model: ir.Model, names: ir.Names, hoist: Hoist) -> None:
        self._graph, self._names, self._hoist = model.graph, names, hoist
        self._constants: dict[tuple[int, ...], ir.Value] = {}
        self._shared: dict[tuple[str | ir.Value, ...], ir.Value] = {}
        self._first = next(iter(self._graph), None)
        self._made: list[ir.Node] = []
        self.offsets = ir.Value(
            name=names.fresh("probe_offsets"), type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([OFFSETS])
        )
        self._graph.inputs.append(self.offsets)

    def watch(self, value: ir.Value, probe: Probe) -> Probe:
        """Right behind the node that makes the value, so that the value can be freed once it was looked at."""
        summaries = [
            (self._node(op_type, [value], output, {"keepdims": 0}), absent)
            for op_type, output, absent in (
                ("ReduceMax", probe.maximum, -np.inf),
                ("ReduceMin", probe.minimum, np.inf),
                ("ReduceSum", probe.sum, 0.0),
            )
        ]
        shape = ir.dims(value)
        if shape is None or len(shape) > OFFSETS or not all(isinstance(size, int) for size in shape):
            subsample = self._flat_subsample(value, probe)
        else:
            subsample = self._lattice(value, [int(size) for size in shape if isinstance(size, int)], probe)
        self._insert(self._made, value.producer())
        self._made = []
        for summary, absent in summaries:
            self._output(summary, np.array(absent, np.float32))
        self._output(subsample, np.zeros(0, np.float32))
        return probe

    def _lattice(self, value: ir.Value, shape: list[int], probe: Probe) -> ir.Value:
        """Every n-th element along the longest axes: nothing else of the value is copied."""
        steps = _lattice_steps(shape)
        axes = tuple(axis for axis, step in enumerate(steps) if step > 1)
        if not axes:
            return self._node("Identity", [value], probe.subsample)
        by = self._constant(*(steps[axis] for axis in axes))
        return self._sliced(value, axes, self._ahead("Mod", self._drawn(*axes), by), by, probe)

    def _flat_subsample(self, value: ir.Value, probe: Probe) -> ir.Value:
        """The same for a shape known only at run time: every n-th element of the flattened value."""
        flat = self._node("Reshape", [value, self._constant(-1)], f"{probe.subsample}/flat")
        size = self._node("Size", [value], f"{probe.subsample}/size")
        share = self._node("Div", [size, self._constant(SUBSAMPLE)], f"{probe.subsample}/share")
        by = self._node("Add", [share, self._constant(1)], f"{probe.subsample}/step")
        start = self._node("Mod", [self._drawn(0), by], f"{probe.subsample}/start")
        return self._sliced(flat, (0,), start, by, probe)

    def _drawn(self, *axes: int) -> ir.Value:
        return self._ahead("Gather", self.offsets, self._constant(*axes))

    def _sliced(
        self, value: ir.Value, axes: tuple[int, ...], starts: ir.Value, steps: ir.Value, probe: Probe
    ) -> ir.Value:
        bounds = [starts, self._constant(*[_END] * len(axes)), self._constant(*axes), steps]
        return self._node("Slice", [value, *bounds], probe.subsample)

    def _ahead(self, op_type: str, *inputs: ir.Value) -> ir.Value:
        """A node that probes share, in front of all others: onnxruntime would merge equal ones, and run them late."""
        key: tuple[str | ir.Value, ...] = (op_type, *inputs)
        if key not in self._shared:
            name = self._names.fresh("probe_shared")
            node = ir.make_node(op_type, inputs, name=name)
            node.outputs[0].name = name
            self._insert([node], None)
            self._shared[key] = node.outputs[0]
        return self._shared[key]

    def _node(
        self, op_type: str, inputs: list[ir.Value], output: str, attributes: dict[str, int] | None = None
    ) -> ir.Value:
        node = ir.make_node(op_type, inputs, attributes or {}, name=self._names.fresh(output))
        node.outputs[0].name = output
        self._made.append(node)
        return node.outputs[0]

    def _insert(self, nodes: list[ir.Node], producer: ir.Node | None) -> None:
        """Behind `producer`, or in front of the model's own nodes."""
        if producer is not None and producer.graph is not None:
            producer.graph.insert_after(producer, nodes)
        elif self._first is not None:
            self._graph.insert_before(self._first, nodes)
        else:
            self._graph.extend(nodes)

    def _output(self, value: ir.Value, absent: np.ndarray[Any, Any]) -> None:
        value.type = ir.TensorType(ir.DataType.FLOAT)
        self._hoist.output(value, str(value.name), absent)

    def _constant(self, *numbers: int) -> ir.Value:
        if numbers not in self._constants:
            name = self._names.fresh("probe_constant")
            self._constants[numbers] = ir.add_initializer(self._graph, name, np.asarray(numbers, np.int64))
        return self._constants[numbers]


def _lattice_steps(shape: list[int]) -> list[int]:
    """A step for each axis, so that at most SUBSAMPLE elements are left: the longest axis is thinned first."""
    steps = [1] * len(shape)
    left = list(shape)
    while math.prod(left) > SUBSAMPLE:
        axis = max(range(len(left)), key=left.__getitem__)
        steps[axis] += 1
        left[axis] = -(-shape[axis] // steps[axis])
    return steps

"""A copy of a model that reports on its inner values while it runs, without ever handing them out whole.

Beside each value stand its minimum, maximum and sum, and an evenly spaced subsample of its elements. Activations are
freed as the run goes on, as in any inference, so memory does not grow with the number of values watched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SUBSAMPLE", "Probe", "instrument"]

SUBSAMPLE = 4096  # elements of each tensor of each sample that enter its histogram, about

_END = np.iinfo(np.int64).max


class Probe:
    """Names of the outputs that report on one value."""

    def __init__(self, value: str, stem: str) -> None:
        self.value = value
        self.maximum, self.minimum, self.sum, self.subsample = (
            f"{stem}/{what}" for what in ("maximum", "minimum", "sum", "subsample")
        )

    def names(self) -> tuple[str, ...]:
        """All four."""
        return (self.maximum, self.minimum, self.sum, self.subsample)


def instrument(model: ir.Model, values: Sequence[str], seed: int) -> tuple[bytes, list[Probe]]:
    """The instrumented copy, serialized, with the model's own outputs first.

    Args:
        values: names of float values of the main graph, inputs included.
        seed: picks where each subsample begins.

    Returns:
        the copy, and a probe for each value in order. Watching needs opset 13 or newer.
    """
    copy = ir.clone(model)
    names = ir.Names(copy)
    known = {value.name: value for value in copy.graph.inputs}
    known |= {value.name: value for node in copy.graph for value in node.outputs}
    builder = _Builder(copy, names, np.random.default_rng(seed))
    probes = [builder.watch(known[name], Probe(name, names.fresh(f"probe_{i}"))) for i, name in enumerate(values)]
    return ir.serialize(copy), probes


class _Builder:
    def __init__(self, model: ir.Model, names: ir.Names, rng: np.random.Generator) -> None:
        self._graph, self._names, self._rng = model.graph, names, rng
        self._constants: dict[int, ir.Value] = {}

    def watch(self, value: ir.Value, probe: Probe) -> Probe:
        for op_type, output in (
            ("ReduceMax", probe.maximum),
            ("ReduceMin", probe.minimum),
            ("ReduceSum", probe.sum),
        ):
            self._output(self._node(op_type, [value], output, {"keepdims": 0}))
        flat = self._node("Reshape", [value, self._constant(-1)], f"{probe.subsample}/flat")
        size = ir.elements(value)
        if size is None:
            start, step = self._constant(0), self._running_step(value, probe)
        else:
            stride = _odd(size // SUBSAMPLE)
            start, step = (
                self._constant(int(self._rng.integers(min(stride, max(size, 1))))),
                self._constant(stride),
            )
        bounds = [start, self._constant(_END), self._constant(0), step]
        self._output(self._node("Slice", [flat, *bounds], probe.subsample))
        return probe

    def _running_step(self, value: ir.Value, probe: Probe) -> ir.Value:
        """Size / SUBSAMPLE, made odd: where the shape is known only at run time."""
        size = self._node("Size", [value], f"{probe.subsample}/size")
        share = self._node("Div", [size, self._constant(2 * SUBSAMPLE)], f"{probe.subsample}/share")
        even = self._node("Mul", [share, self._constant(2)], f"{probe.subsample}/even")
        return self._node("Add", [even, self._constant(1)], f"{probe.subsample}/step")

    def _node(
        self, op_type: str, inputs: list[ir.Value], output: str, attributes: dict[str, int] | None = None
    ) -> ir.Value:
        node = ir.make_node(op_type, inputs, attributes or {}, name=self._names.fresh(output))
        node.outputs[0].name = output
        self._graph.append(node)
        return node.outputs[0]

    def _output(self, value: ir.Value) -> None:
        value.type = ir.TensorType(ir.DataType.FLOAT)
        self._graph.outputs.append(value)

    def _constant(self, number: int) -> ir.Value:
        if number not in self._constants:
            name = self._names.fresh(f"probe_constant_{number}")
            self._constants[number] = ir.add_initializer(self._graph, name, np.asarray([number], np.int64))
        return self._constants[number]


def _odd(number: int) -> int:
    # Channel counts are mostly even; an odd stride visits all channels of a channels-last tensor.
    return max(1, number) | 1 if number > 1 else 1

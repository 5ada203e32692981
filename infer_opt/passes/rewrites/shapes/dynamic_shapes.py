"""Shapes computed at run time: what is only computed to say what is there already needs no Shape node.

Reshape's target may hold 0, which copies the input's dimension at the same place, and one -1, which is found out. An
exporter's `Reshape(x, Concat(Shape(x)[0:1], [-1]))` is `Reshape(x, [0, -1])`, and an Expand to the shape that is there,
or that the next operator broadcasts to, is nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change
from infer_opt.passes.rewrites.shapes.flat_softmax import softmax_of_flattened
from infer_opt.passes.rewrites.shapes.resize_scales import constant_scales
from infer_opt.passes.rewrites.shapes.shape_analysis import ShapeAnalysis
from infer_opt.passes.rewrites.shapes.shape_transfer import BROADCASTING, reshaped
from infer_opt.passes.rewrites.shapes.sizes import ONE, Size, fixed, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["settle_shapes"]

_COPY, _FIND = 0, -1
_OPSET_OF_SOFTMAX_ALONG_AXIS = 13  # before it, Softmax flattened by itself
_FAR = np.iinfo(np.int32).max  # no dimension is as long


def settle_shapes(model: ir.Model) -> Iterator[Change]:
    """Write targets of Reshapes down, and drop the Reshapes, Expands, Slices and Shapes that a Shape makes needless.

    Models without a Shape node are left to the rewrites that look at fixed dimensions.
    """
    if not any(node.op_type == "Shape" for graph in ir.all_graphs(model) for node in graph):
        return
    softmax_along_axis = model.opset_imports.get("", 1) >= _OPSET_OF_SOFTMAX_ALONG_AXIS
    names, analysis = ir.Names(model), ShapeAnalysis()
    for graph in ir.all_graphs(model):
        walk = _Walk(graph, names, analysis)
        for node in graph:
            if node.domain:
                continue
            if node.op_type == "Reshape" and softmax_along_axis:
                yield from walk.unflatten_softmax(node)
            if node.graph is not None:
                yield from walk.settle(node)
            if node.graph is not None:
                analysis.visit(node)


class _Walk:
    """One walk over a graph, in order; whatever is around it was walked before."""

    def __init__(self, graph: ir.Graph, names: ir.Names, analysis: ShapeAnalysis) -> None:
        self._analysis = analysis
        self._graph, self._names = graph, names
        self._shapes: dict[tuple[Size, ...], ir.Value] = {}

    def unflatten_softmax(self, node: ir.Node) -> Iterator[Change]:
        """Softmax of a flattened value; the new node takes the place of the Reshape behind it."""
        softmax = softmax_of_flattened(self._analysis, node)
        if softmax is not None:
            old = _present(node.inputs[0]).producer()
            ir.set_origin(softmax, [node] if old is None else [old, node])
            ir.replace_node(self._graph, node, node.outputs, softmax)
            self._analysis.visit(softmax)
            yield Change("Softmax of flattened", ir.origin(softmax), softmax.op_type)

    def settle(self, node: ir.Node) -> Iterator[Change]:
        """What can be done at a node of which all inputs are visited."""
        needless = node.op_type in _NEEDLESS and _NEEDLESS[node.op_type](self._analysis, node)
        if needless and ir.substitute(node.outputs[0], _present(node.inputs[0])):
            ir.remove(node)
            yield Change("no-op", ir.origin(node), node.op_type)
        elif node.op_type == "Reshape":
            yield from self._settle_target(node)
        elif node.op_type == "Resize":
            yield from self._settle_scales(node)
        elif node.op_type == "Shape":
            yield from self._merge(node)
        elif node.op_type in BROADCASTING:
            yield from self._read_past_expands(node)

    def _settle_target(self, node: ir.Node) -> Iterator[Change]:
        entries = self._analysis.contents(node.inputs[1])
        if entries is None or ir.is_constant(node.inputs[1]) or ir.attribute(node, "allowzero", 0):
            return
        target = _target(self._analysis.dims(node.inputs[0]) or (), entries)
        if target is not None:
            name = self._names.fresh(f"{node.name}_shape")
            node.replace_input_with(1, ir.add_initializer(self._graph, name, np.asarray(target, np.int64)))
            yield Change("settle reshape", ir.origin(node), f"target {target}")

    def _settle_scales(self, node: ir.Node) -> Iterator[Change]:
        scales = constant_scales(self._analysis, node)
        if scales is not None:
            node.replace_input_with(
                2, ir.add_initializer(self._graph, self._names.fresh(f"{node.name}_scales"), scales)
            )
            node.replace_input_with(3, None)
            node.resize_inputs(3)
            yield Change("settle resize", ir.origin(node), f"scales {scales.tolist()}")

    def _merge(self, node: ir.Node) -> Iterator[Change]:
        dims = self._analysis.dims(node.inputs[0])
        if dims is None:
            return
        entries = dims[ir.attribute(node, "start", 0) : ir.attribute(node, "end", None)]
        first = self._shapes.setdefault(entries, node.outputs[0])
        if first is not node.outputs[0] and ir.substitute(node.outputs[0], first):
            ir.remove(node)
            yield Change("equal shapes", ir.origin(node), f"kept `{first.name}`")

    def _read_past_expands(self, node: ir.Node) -> Iterator[Change]:
        for index, value in enumerate(node.inputs):
            maker = value.producer() if value is not None else None
            if maker is None or maker.op_type != "Expand" or maker.domain:
                continue
            entries = self._analysis.contents(maker.inputs[1])
            others = [self._analysis.dims(other) for place, other in enumerate(node.inputs) if place != index]
            if entries is not None and any(other is not None and _covers(other, entries) for other in others):
                node.replace_input_with(index, maker.inputs[0])
                yield Change("Expand into its reader", ir.origin(maker), node.op_type)


def _present(value: ir.Value | None) -> ir.Value:
    assert value is not None  # noqa: S101 - the input of a node that is needless is there
    return value


def _target(dims: Sequence[Size], entries: Sequence[Size]) -> list[int] | None:
    """The entries as numbers, as 0 where they copy, or one as -1 where all others are numbers above 0.

    Beside a copy, which may be 0, the last one stays: of an empty value, Reshape cannot find -1.
    """
    target, unknown = [], 0
    for place, entry in enumerate(entries):
        here = number(entry)
        if here is None and place < len(dims) and entry == dims[place]:
            here = _COPY
        unknown += here is None
        target.append(_FIND if here is None else here)
    if min(target, default=0) < _FIND or target.count(_FIND) > 1 or (unknown and sorted(target)[1:2] == [_COPY]):
        return None
    return target


def _covers(dims: Sequence[Size], entries: Sequence[Size]) -> bool:
    """Whether a value of `dims` is broadcast to `entries` and beyond by itself."""
    if len(entries) > len(dims):
        return False
    return all(entry in (ONE, size) for size, entry in zip(dims[len(dims) - len(entries) :], entries, strict=True))


def _reshape_is_needless(known: ShapeAnalysis, node: ir.Node) -> bool:
    dims, entries = known.dims(node.inputs[0]), known.contents(node.inputs[1])
    if dims is None or entries is None or ir.attribute(node, "allowzero", 0):
        return False
    return list(dims) == reshaped(dims, entries)


def _expand_is_needless(known: ShapeAnalysis, node: ir.Node) -> bool:
    dims, entries = known.dims(node.inputs[0]), known.contents(node.inputs[1])
    return dims is not None and entries is not None and _covers(dims, entries)


def _slice_is_needless(known: ShapeAnalysis, node: ir.Node) -> bool:
    """From 0 to the dimension itself, by steps of 1."""
    dims = known.dims(node.inputs[0])
    bounds = [known.contents(value) for value in node.inputs[1:3]]
    if dims is None or len(bounds) < 2 or bounds[0] is None or bounds[1] is None:
        return False
    starts, ends = bounds[0], bounds[1]
    axes = _given(known, node, 3, tuple(map(fixed, range(len(starts)))))
    steps = _given(known, node, 4, (ONE,) * len(starts))
    if axes is None or steps is None or any(axis[1] for axis in axes):
        return False
    whole = [end == dims[axis[0]] or (number(end) or 0) >= _FAR for end, axis in zip(ends, axes, strict=True)]
    return all(whole) and all(start == fixed(0) for start in starts) and all(step == ONE for step in steps)


def _given(known: ShapeAnalysis, node: ir.Node, index: int, default: tuple[Size, ...]) -> tuple[Size, ...] | None:
    """What an optional input holds."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return default if value is None else known.contents(value)


_NEEDLESS: dict[str, Callable[[ShapeAnalysis, ir.Node], bool]] = {
    "Expand": _expand_is_needless,
    "Reshape": _reshape_is_needless,
    "Slice": _slice_is_needless,
}

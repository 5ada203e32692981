"""Shapes computed at run time: a Reshape whose target copies dimensions of its own input needs no Shape node.

Reshape's target may hold 0, which copies the input's dimension at the same place, and one -1, which is found out. An
exporter's `Reshape(x, Concat(Shape(x)[0:1], [-1]))` is `Reshape(x, [0, -1])`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.base import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["settle_reshape_targets"]

_COPY, _FIND = 0, -1


def settle_reshape_targets(model: ir.Model) -> Iterator[Change]:
    """Give each Reshape of a computed target a constant one, where every part of the target is understood."""
    names = ir.Names(model)
    for graph in ir.all_graphs(model):
        for node in graph:
            if node.op_type != "Reshape" or node.domain or ir.attribute(node, "allowzero", 0):
                continue
            target = _constant_target(node)
            if target is not None:
                shape = ir.add_initializer(graph, names.fresh(f"{node.name}_shape"), np.asarray(target, np.int64))
                node.replace_input_with(1, shape)
                yield Change("settle reshape", ir.origin(node), f"target {target}")


def _constant_target(node: ir.Node) -> list[int] | None:
    source, target = node.inputs[0], node.inputs[1]
    maker = target.producer() if target is not None else None
    if source is None or maker is None or maker.op_type != "Concat" or maker.domain:
        return None
    parts: list[int] = []
    for value in maker.inputs:
        part = _part(value, source, len(parts))
        if part is None:
            return None
        parts += part
    return parts if parts.count(_FIND) <= 1 else None


def _part(value: ir.Value | None, source: ir.Value, place: int) -> list[int] | None:
    """The entries of one part of the target that begins at `place`."""
    constant = ir.constant(value)
    if constant is not None:
        return [int(entry) for entry in constant.reshape(-1)]
    dims = _dims_of(value)
    if dims is None:
        return None
    axes, shaped = dims
    fixed = ir.dims(shaped)
    entries = []
    for offset, axis in enumerate(axes):
        size = fixed[axis] if fixed is not None and axis < len(fixed) else None
        if isinstance(size, int) and size > 0:
            entries.append(size)
        elif shaped is source and axis == place + offset:
            entries.append(_COPY)
        else:
            return None
    return entries


def _dims_of(value: ir.Value | None) -> tuple[list[int], ir.Value] | None:
    """Axes of a value whose dimensions `value` lists: a Gather or Slice of its Shape, unsqueezed or not."""
    maker = value.producer() if value is not None else None
    if maker is not None and maker.op_type in {"Unsqueeze", "Reshape"} and not maker.domain:
        inner = maker.inputs[0]
        maker = inner.producer() if inner is not None and ir.elements(inner) == 1 else None
    if maker is None or maker.domain or maker.op_type not in {"Gather", "Slice"} or maker.inputs[0] is None:
        return None
    shape = maker.inputs[0].producer()
    if shape is None or shape.op_type != "Shape" or shape.domain or set(shape.attributes) & {"start", "end"}:
        return None
    rank = ir.rank(shape.inputs[0])
    picked = None if rank is None else _picked(maker, list(range(rank)))
    return None if picked is None or shape.inputs[0] is None else (picked, shape.inputs[0])


def _picked(maker: ir.Node, axes: list[int]) -> list[int] | None:
    bounds = [ir.constant(value) for value in maker.inputs[1:]]
    if any(bound is None for bound in bounds):
        return None
    numbers = [bound.reshape(-1) for bound in bounds if bound is not None]
    if maker.op_type == "Gather":
        indices = [int(index) for index in numbers[0]]
        inside = all(-len(axes) <= index < len(axes) for index in indices)
        return [axes[index] for index in indices] if inside else None
    if any(len(number) != 1 for number in numbers) or len(numbers) < 2:
        return None
    start, end = int(numbers[0][0]), int(numbers[1][0])
    step = int(numbers[3][0]) if len(numbers) > 3 else 1
    return axes[start:end:step] if step > 0 else None

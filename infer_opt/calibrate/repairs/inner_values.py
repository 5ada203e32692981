"""Whole inner values of a model on a few feeds, handed out in portions that fit in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infer_opt import ir
from infer_opt.calibrate.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

__all__ = ["inner_values"]

_MOST_BYTES = 64 << 20  # of inner values that one run hands out
_BYTES = 4  # an element, as most are


def inner_values(
    model: ir.Model, names: Sequence[str], feeds: Sequence[Mapping[str, np.ndarray[Any, Any]]], threads: int
) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """Each value once for every feed: first some of them on all feeds, then others.

    Args:
        names: of values of the main graph, inputs of the model too.
    """
    for portion in _portions(model, list(dict.fromkeys(names)), feeds[0]):
        runner = Runner.of_model(_with_outputs(model, portion), "the model", threads=threads)
        for feed in feeds:
            values = {**feed, **runner.run(feed)}
            yield {name: values[name] for name in portion}


def _portions(model: ir.Model, names: Sequence[str], feed: Mapping[str, np.ndarray[Any, Any]]) -> Iterator[list[str]]:
    """The values in parts that fit in memory together."""
    sizes = ir.value_sizes(model, {name: array.shape for name, array in feed.items()})
    portion: list[str] = []
    held = 0
    for name in names:
        size = _BYTES * sizes.get(name, 0)
        if portion and held + size > _MOST_BYTES:
            yield portion
            portion, held = [], 0
        portion.append(name)
        held += size
    if portion:
        yield portion


def _with_outputs(model: ir.Model, names: Sequence[str]) -> ir.Model:
    """A copy that hands out these values, and nothing else where there is any."""
    copy = ir.clone(ir.expand_references(model))
    inner = [value for node in copy.graph for value in node.outputs if value.name in names]
    if inner:
        copy.graph.outputs[:] = inner
    return copy

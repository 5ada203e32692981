"""The shapes that samples have: what a device has to take, and what it should be fastest for."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from infer_opt.calibrate.sample_set import Feed

__all__ = ["ShapeRange", "shape_ranges"]


@dataclass(frozen=True)
class ShapeRange:
    """Of one input, dimension by dimension: the smallest size, the median, the largest."""

    low: tuple[int, ...]
    typical: tuple[int, ...]
    high: tuple[int, ...]


def shape_ranges(samples: Iterable[Feed], names: Collection[str]) -> dict[str, ShapeRange]:
    """Of some inputs over all samples; an input whose rank differs from sample to sample has none."""
    seen: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for feed in samples:
        for name in names:
            if name in feed:
                seen[name].append(feed[name].shape)
    ranges = {}
    for name, shapes in seen.items():
        if len({len(shape) for shape in shapes}) == 1:
            sizes = np.array(shapes, np.int64).reshape(len(shapes), -1)
            found = (sizes.min(0), np.sort(sizes, axis=0)[len(shapes) // 2], sizes.max(0))
            ranges[name] = ShapeRange(*(tuple(map(int, each)) for each in found))
    return ranges

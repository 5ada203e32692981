"""Sizes of a Resize that are multiples of what is there, as constant scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.passes.rewrites.shapes.sizes import number, quotient

if TYPE_CHECKING:
    from infer_opt.passes.rewrites.shapes.shape_transfer import Known

__all__ = ["constant_scales"]

_SIZES = 3  # which input


def constant_scales(known: Known, node: ir.Node) -> np.ndarray | None:
    """`Resize(x, sizes=[n, c, 2 h, 2 w])` is `Resize(x, scales=[1, 1, 2, 2])`: the scales, or None.

    Only whole scales: the size is their product with a dimension then, without a fraction that is cut off, and the
    coordinates are computed from the same numbers. Scales of a fixed input are left to the runtime.
    """
    sizes = node.inputs[_SIZES] if len(node.inputs) > _SIZES else None
    dims, entries = known.dims(node.inputs[0]), known.contents(sizes)
    if dims is None or entries is None or len(dims) != len(entries) or ir.is_constant(sizes):
        return None
    if ir.attribute(node, "axes") or ir.attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    scales = []
    for entry, size in zip(entries, dims, strict=True):
        scale = quotient(entry, size)
        whole = number(scale) if scale is not None and size[0] else None
        if whole is None or whole < 1:
            return None
        scales.append(whole)
    return np.asarray(scales, np.float32)

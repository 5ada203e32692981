"""Padding: zeros that a Pad puts around an image become the padding of the Conv that reads it."""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule

__all__ = ["PADDING_RULES"]

_FIRST_SPATIAL_AXIS = 2


class PadIntoConv(Rule):
    """`Conv(Pad(x))` to `Conv'(x)`: a Conv pads with zeros, so a zero Pad of spatial axes adds to its own."""

    name = "Pad into Conv"
    root = "Conv"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Conv(
            op.Pad(x, _allow_other_inputs=True, _outputs=["padded"]), _allow_other_inputs=True, _outputs=["y"]
        )

    def check(self, match: Match) -> list[int]:
        return _added_pads(match, match.root, filling=0.0)

    def rewrite(self, op: Builder, match: Match, facts: list[int]) -> ir.Value:
        return op.node("Conv", [match["x"], *match.root.inputs[1:]], _with_pads(match.root, facts))


def _added_pads(match: Match, window: ir.Node, filling: float) -> list[int]:
    """The padding of a Conv or pool, and that of the Pad before it, which has to fill with what the operator does."""
    before, after = _pads_of(match.node("padded"), ir.rank(match["x"]), filling)
    if any(before[:_FIRST_SPATIAL_AXIS]) or any(after[:_FIRST_SPATIAL_AXIS]):
        raise Decline("the Pad reaches batch or channels")
    if min(before) < 0 or min(after) < 0:
        raise Decline("the Pad crops")
    if ir.attribute(window, "auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        raise Decline(f"the {window.op_type} pads by a rule of its own (auto_pad)")
    own = ir.attribute(window, "pads") if ir.attribute(window, "auto_pad", "NOTSET") == "NOTSET" else None
    spatial = before[_FIRST_SPATIAL_AXIS:] + after[_FIRST_SPATIAL_AXIS:]
    return [a + b for a, b in zip(own or [0] * len(spatial), spatial, strict=True)]


def _with_pads(window: ir.Node, pads: list[int]) -> dict[str, Any]:
    attributes: dict[str, Any] = dict(window.attributes)
    attributes.pop("auto_pad", None)
    attributes["pads"] = pads
    return attributes


def _pads_of(pad: ir.Node, rank: int | None, wanted: float) -> tuple[list[int], list[int]]:
    if ir.attribute(pad, "mode", "constant") != "constant":
        raise Decline("the Pad does not fill with a constant")
    filling = pad.inputs[2] if len(pad.inputs) > 2 else None
    if (0.0 if filling is None else ir.scalar(filling)) != wanted:
        raise Decline(f"the Pad fills with something else than {wanted:g}")
    pads = ir.constant(pad.inputs[1]) if len(pad.inputs) > 1 else None
    if pads is None or rank is None:
        raise Decline("the width of the Pad is not known")
    axes = ir.constant(pad.inputs[3]) if len(pad.inputs) > 3 and pad.inputs[3] is not None else range(rank)
    if axes is None:
        raise Decline("the axes of the Pad are not known")
    before, after = [0] * rank, [0] * rank
    half = len(pads) // 2
    for position, axis in enumerate(axes):
        before[int(axis)], after[int(axis)] = int(pads[position]), int(pads[half + position])
    return before, after


class PadIntoMaxPool(Rule):
    """`MaxPool(Pad(x, -inf))` to `MaxPool'(x)`: a MaxPool pads with what is smaller than every element."""

    name = "Pad into MaxPool"
    root = "MaxPool"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.MaxPool(op.Pad(x, _allow_other_inputs=True, _outputs=["padded"]), _outputs=["y"])

    def check(self, match: Match) -> list[int]:
        pool = match.root
        pads = _added_pads(match, pool, filling=-np.inf)
        kernel = list(ir.attribute(pool, "kernel_shape"))
        if any(pad >= size for pad, size in zip(pads, kernel * 2, strict=True)):
            raise Decline("a window would hold nothing but padding")
        if any(step != 1 for step in ir.attribute(pool, "dilations", ())):
            raise Decline("a dilated window may reach over the image")
        if ir.attribute(pool, "ceil_mode", 0):
            raise Decline("the pool rounds its size up, which counts padding in")
        return pads

    def rewrite(self, op: Builder, match: Match, facts: list[int]) -> ir.Value:
        return op.node("MaxPool", [match["x"]], _with_pads(match.root, facts))


PADDING_RULES: tuple[Rule, ...] = (PadIntoConv(), PadIntoMaxPool())

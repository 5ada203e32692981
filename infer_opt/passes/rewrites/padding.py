"""Padding: zeros that a Pad puts around an image become the padding of the Conv that reads it."""

from __future__ import annotations

from typing import Any

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
        pad, conv = match.node("padded"), match.root
        before, after = _pads_of(pad, ir.rank(match["x"]))
        if any(before[:_FIRST_SPATIAL_AXIS]) or any(after[:_FIRST_SPATIAL_AXIS]):
            raise Decline("the Pad reaches batch or channels")
        if min(before) < 0 or min(after) < 0:
            raise Decline("the Pad crops")
        if ir.attribute(conv, "auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
            raise Decline("the Conv pads by a rule of its own (auto_pad)")
        own = ir.attribute(conv, "pads") if ir.attribute(conv, "auto_pad", "NOTSET") == "NOTSET" else None
        spatial = before[_FIRST_SPATIAL_AXIS:] + after[_FIRST_SPATIAL_AXIS:]
        return [a + b for a, b in zip(own or [0] * len(spatial), spatial, strict=True)]

    def rewrite(self, op: Builder, match: Match, facts: list[int]) -> ir.Value:
        attributes: dict[str, Any] = dict(match.root.attributes)
        attributes.pop("auto_pad", None)
        attributes["pads"] = facts
        return op.node("Conv", [match["x"], *match.root.inputs[1:]], attributes)


def _pads_of(pad: ir.Node, rank: int | None) -> tuple[list[int], list[int]]:
    if ir.attribute(pad, "mode", "constant") != "constant":
        raise Decline("the Pad does not fill with a constant")
    filling = pad.inputs[2] if len(pad.inputs) > 2 else None
    if filling is not None and ir.scalar(filling) != 0:
        raise Decline("the Pad fills with something else than zero")
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


PADDING_RULES: tuple[Rule, ...] = (PadIntoConv(),)

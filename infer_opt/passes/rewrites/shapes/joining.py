"""Rules that join two operators in a row into one or none, exactly: a part of `simplify`, and of what `fuse` leaves."""

from __future__ import annotations

from infer_opt.passes.engine.rules import Rule
from infer_opt.passes.rewrites.formulas.clamps import CLAMP_RULES
from infer_opt.passes.rewrites.linear.arithmetic import CANCELLING_RULES
from infer_opt.passes.rewrites.shapes.slices import SLICE_RULES
from infer_opt.passes.rewrites.shapes.unsqueezes import UNSQUEEZE_RULES

__all__ = ["JOINING_RULES"]

JOINING_RULES: tuple[Rule, ...] = (*CANCELLING_RULES, *CLAMP_RULES, *SLICE_RULES, *UNSQUEEZE_RULES)

"""Passes: one file each, found by their file. `Pipeline` reads them from text and runs them."""

from __future__ import annotations

from infer_opt.passes.engine.base import Change, Miss, Outcome, Pass
from infer_opt.passes.engine.pipeline import Observer, Pipeline, Step
from infer_opt.passes.engine.plugins import fusion_pattern, register_pass
from infer_opt.passes.engine.rules import Builder, Decline, Match

__all__ = [
    "Builder",
    "Change",
    "Decline",
    "Match",
    "Miss",
    "Observer",
    "Outcome",
    "Pass",
    "Pipeline",
    "Step",
    "fusion_pattern",
    "register_pass",
]

"""Passes: one file each, found by their file. `Pipeline` reads them from text and runs them."""

from __future__ import annotations

from infer_opt.passes.engine.base import Change, Miss, Outcome, Pass
from infer_opt.passes.engine.pipeline import Observer, Pipeline, Step

__all__ = ["Change", "Miss", "Observer", "Outcome", "Pass", "Pipeline", "Step"]

"""Observers that come with the pipeline: dumping the graph after each pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir

if TYPE_CHECKING:
    from pathlib import Path

    from infer_opt.passes.engine.pipeline import Step

__all__ = ["DumpGraphs"]


class DumpGraphs:
    """`--dump-ir DIR`: the graph before the first pass and after every pass that changed it, as text and as ONNX."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begun = False

    def after_pass(self, step: Step) -> str | None:
        """Write `NN-pass.txt` and `NN-pass.onnx`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._begun:
            (self.folder / "00-original.txt").write_text(ir.text(step.before), encoding="utf-8")
            self._begun = True
        name = f"{step.index + 1:02d}-{step.ran.name}"
        (self.folder / f"{name}.txt").write_text(ir.text(step.after), encoding="utf-8")
        ir.save(step.after, self.folder / f"{name}.onnx")
        return None

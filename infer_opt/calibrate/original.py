"""The original model, run on this host: what everything made of it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.runner import RunError, Runner

if TYPE_CHECKING:
    from pathlib import Path

    from infer_opt.calibrate.feeding import Feeding

__all__ = ["Original"]


@dataclass(frozen=True)
class Original:
    """A session of the original, or why there is none.

    Args:
        runner: None where nothing can be verified.
        warning: what a user should know of it, or None.
    """

    runner: Runner | None
    warning: str | None = None

    @classmethod
    def open(cls, path: Path, what: str, model: ir.Model, samples: Feeding, threads: int) -> Original:
        """Load the file and see it run.

        A model with dynamic inputs may not run on made-up ones; that is a warning. One that fails on inputs of its own
        fixed shapes, or on a user's samples, is at fault.

        Args:
            what: how messages call it.
            model: the same, as it was loaded.

        Raises:
            RunError: the model is at fault.
        """
        runner = Runner.of_file(path, what, threads=threads)
        if not samples.is_random:
            return cls(runner)
        try:
            for feed in samples.for_equality():
                runner.run(feed, "random inputs")
        except RunError as error:
            if _has_fixed_inputs(model):
                raise
            return cls(None, f"nothing was verified: {error.message}; pass --calib, or --shape for dynamic inputs")
        return cls(runner)


def _has_fixed_inputs(model: ir.Model) -> bool:
    return all(ir.elements(value) is not None for value in model.graph.inputs)

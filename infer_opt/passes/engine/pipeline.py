"""Running passes in order: each on a clone, checked, and undone where an observer objects."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from infer_opt import ir
from infer_opt.errors import UsageError
from infer_opt.passes.engine.plugins import apply_pass, illegal
from infer_opt.passes.engine.text import parse_passes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.passes.engine.base import Outcome, Pass

__all__ = ["Observer", "Pipeline", "Step"]


@dataclass(frozen=True)
class Step:
    """One pass that ran.

    Args:
        index: its place in the pipeline, from 0.
        before: the model it was given; after: what it made of it.
        seconds: its own time (wall clock, measured).
        undone: why its work was dropped, or None.
    """

    index: int
    ran: Pass
    before: ir.Model
    after: ir.Model
    outcome: Outcome
    seconds: float
    undone: str | None = None


class Observer(Protocol):
    """Looks at each step from outside; passes know nothing of it."""

    def after_pass(self, step: Step) -> str | None:
        """Look at a step that changed something; a reason makes the pipeline drop its work, None keeps it."""
        ...


@dataclass(frozen=True)
class Pipeline:
    """Passes in order. `str()` gives the text that `parse` reads."""

    passes: tuple[Pass, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Pipeline:
        """A pipeline from its text.

        Raises:
            UsageError: the text does not parse, names something unknown, or has a graph pass after a plan pass.
        """
        passes = parse_passes(text)
        for earlier, later in pairwise(passes):
            if earlier.stage == "plan" and later.stage == "graph":
                raise UsageError(
                    f"pass `{later.name}` cannot follow `{earlier.name}`: the graph is final once precision is planned",
                    f"put `{later.name}` before `{earlier.name}`",
                )
        return cls(passes)

    def __str__(self) -> str:
        """The text form."""
        return ",".join(str(item) for item in self.passes)

    @ir.collection_paused()
    def run(self, model: ir.Model, observers: Sequence[Observer] = ()) -> tuple[ir.Model, list[Step]]:
        """Run the graph passes; `model` itself stays as it is.

        Raises:
            ir.IllegalModelError: a pass broke the graph or its interface: a bug of that pass.
            InputError: the same of code of a plugin, or it raised something.
        """
        steps: list[Step] = []
        for index, item in enumerate(item for item in self.passes if item.stage == "graph"):
            step = _run_pass(index, item, model)
            reasons = [observer.after_pass(step) for observer in observers] if step.outcome.changes else []
            undone = next(filter(None, reasons), None)
            steps.append(replace(step, undone=undone))
            model = model if undone else step.after
        return model, steps


def _run_pass(index: int, item: Pass, model: ir.Model) -> Step:
    copy = ir.clone(model)
    started = time.perf_counter()
    outcome = apply_pass(item, copy)
    seconds = time.perf_counter() - started
    if outcome.changes:
        try:
            ir.check_legal(copy)
        except ir.IllegalModelError as error:
            raise illegal(item, outcome, f"after pass `{item}`: {error}") from error
        if ir.interface(copy) != ir.interface(model):
            raise illegal(item, outcome, f"pass `{item}` changed the inputs or outputs of the model")
    return Step(index, item, model, copy if outcome.changes else model, outcome, seconds)

"""Lifting: of an ordered precision, the regions out again that make an output collapse, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infer_opt.calibrate.budget import COLLAPSE_DB, Budget
from infer_opt.calibrate.mixing import mixed_plans
from infer_opt.calibrate.sensing import sense_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer_opt import ir
    from infer_opt.calibrate.metrics import OutputError
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sensitivity import Trial
    from infer_opt.calibrate.target import Target

__all__ = ["lifted"]

# The samples that ranges were taken from flatter: plans that kept 22 dB on six of them kept 14 to 17 on two others, on
# three models of thirteen (measured).
_SPARE_DB = 10.0
_KEPT = Budget(min_sqnr=COLLAPSE_DB + _SPARE_DB)
_LEVELS = (COLLAPSE_DB + _SPARE_DB, COLLAPSE_DB + 2 * _SPARE_DB)  # by the prediction; each gives two plans


def lifted(
    target: Target,
    model: ir.Model,
    plan: Plan,
    trial: Trial,
    budget: Budget,
    stages: Stages,
    *,
    finished: Callable[[Plan], Plan],
) -> tuple[Plan, list[str]]:
    """The plan itself where no output collapses on a few samples, or else the largest part of it that keeps 30 dB.

    Noises that add up predict which part that is; near a collapse they predict too well, so that each part is run, and
    a smaller one taken where it does not keep what was predicted.

    Args:
        plan: every region that the order reaches is lowered.
        budget: a stated limit takes the place of the collapse, for the outputs that it speaks of.
        finished: what is done to a plan before it is written.

    Returns:
        the plan, not finished, and what a user should know of it.
    """

    def errors(each: Plan) -> list[OutputError]:
        return trial.errors(target.rehearse(model, finished(each)))

    with stages("sensitivity", 1) as advance:
        collapses = budget.collapses(errors(plan))
        advance()
    if not collapses:
        return plan, []
    sensed = sense_plan(target, model, plan, trial, stages)
    with stages("plan"):
        parts = [part for level in _LEVELS for part in mixed_plans(model, sensed, Budget(min_sqnr=level))]
        kept = next((part for part in parts if not _KEPT.faults(errors(part), None)), None)
    if kept is None:
        return plan, []
    before, after = len(plan.lowered()), len(kept.lowered())
    note = f"{before - after} of {before} regions were lifted from {plan.name}: with them, {collapses[0]}"
    return replace(kept, name=plan.name), [note]

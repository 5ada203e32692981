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
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sensitivity import Trial
    from infer_opt.calibrate.target import Target

__all__ = ["lifted"]


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
    """The plan itself where no output collapses on a few samples, or else the largest part of it that keeps 20 dB.

    Args:
        plan: every region that the order reaches is lowered.
        budget: a stated limit takes the place of the collapse, for the outputs that it speaks of.
        finished: what is done to a plan before it is written.

    Returns:
        the plan, not finished, and what a user should know of it.
    """
    with stages("sensitivity", 1) as advance:
        collapses = budget.collapses(trial.errors(target.rehearse(model, finished(plan))))
        advance()
    if not collapses:
        return plan, []
    sensed = sense_plan(target, model, plan, trial, stages)
    with stages("plan"):
        kept = mixed_plans(model, sensed, Budget(min_sqnr=COLLAPSE_DB))
    if not kept:
        return plan, []
    count = len(plan.lowered()) - len(kept[0].lowered())
    return replace(kept[0], name=plan.name), [f"{count} regions were lifted from {plan.name}: {collapses[0]} with them"]

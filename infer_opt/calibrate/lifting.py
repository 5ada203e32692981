"""Lifting: of an ordered precision, the regions out again that make an output collapse, and no others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.metrics.numbers import COLLAPSE_DB
from infer_opt.calibrate.mixing import mixed_levels, mixed_plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer_opt.calibrate.exploring import Explorer
    from infer_opt.calibrate.metrics import Metric
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.sensitivity import Trial

__all__ = ["Lifting", "lifted"]


@dataclass(frozen=True)
class Lifting:
    """How a plan is judged and written.

    Args:
        budget: a stated limit takes the place of the collapse, for the outputs that it speaks of.
        metric: how outputs are compared.
        finished: what is done to a plan before it is written.
        proof: samples that did not calibrate.
    """

    budget: Budget
    metric: Metric
    finished: Callable[[Plan], Plan]
    proof: Trial


def lifted(explorer: Explorer, plan: Plan, lifting: Lifting) -> tuple[Plan, list[str]]:
    """The plan itself where no output collapses on a few samples, or else the fastest part of it of which that holds.

    Noises that add up predict which parts keep more than 20 dB; each is run, on samples that calibrated and on others,
    until one holds. The others are needed: parts that kept 22 dB on six samples that calibrated kept 14 to 17 on two
    others, on three models of thirteen (measured).

    Args:
        plan: every region that the order reaches is lowered.

    Returns:
        the plan, not finished, and what a user should know of it.
    """

    def collapses(each: Plan) -> list[str]:
        written = explorer.target.rehearse(explorer.model, lifting.finished(each))
        trials = lifting.proof, explorer.trial
        found = (lifting.budget.collapses(trial.errors(written, lifting.metric)) for trial in trials)
        return next(filter(None, found), [])

    with explorer.stages("sensitivity", 1) as advance:
        faults = collapses(plan)
        advance()
    if not faults:
        return plan, []
    sensed = explorer.sensed([plan])
    if sensed.plans[plan.name] is not plan:
        plan = sensed.plans[plan.name]
        faults = collapses(plan)
        if not faults:
            return plan, []
    limit = Budget(min_sqnr=COLLAPSE_DB)
    front = explorer.front(sensed, mixed_levels(limit))
    with explorer.stages("plan"):
        parts = mixed_plans(sensed, front, limit)
        kept = next((part for part in parts if not collapses(part)), None)
    if kept is None:
        return plan, []
    before, after = len(plan.lowered()), len(kept.lowered())
    note = f"{before - after} of {before} regions were lifted from {plan.name}: with them, {faults[0]}"
    return replace(kept, name=plan.name), [note]

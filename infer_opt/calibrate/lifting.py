"""Lifting: of an ordered precision, the regions out again that make an output collapse, and no others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.metrics.numbers import COLLAPSE_DB
from infer_opt.calibrate.mixing import mixed_plans
from infer_opt.calibrate.sensing import sense_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer_opt import ir
    from infer_opt.calibrate.metrics import Kinds, OutputError
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.sensitivity import Trial
    from infer_opt.calibrate.target import Target

__all__ = ["Lifting", "lifted"]

# The samples that ranges were taken from flatter: plans that kept 22 dB on six of them kept 14 to 17 on two others, on
# three models of thirteen (measured).
_SPARE_DB = 10.0
_KEPT = Budget(min_sqnr=COLLAPSE_DB + _SPARE_DB)


@dataclass(frozen=True)
class Lifting:
    """How a plan is judged and written.

    Args:
        budget: a stated limit takes the place of the collapse, for the outputs that it speaks of.
        kinds: what an output may be, beside numbers.
        finished: what is done to a plan before it is written.
    """

    budget: Budget
    kinds: Kinds
    finished: Callable[[Plan], Plan]


def lifted(
    target: Target, model: ir.Model, plan: Plan, trial: Trial, lifting: Lifting, stages: Stages
) -> tuple[Plan, list[str]]:
    """The plan itself where no output collapses on a few samples, or else the largest part of it that keeps 30 dB.

    Noises that add up predict which part that is; near a collapse they predict too well, so that each part is run, and
    a smaller one taken where it does not keep what was predicted.

    Args:
        plan: every region that the order reaches is lowered.

    Returns:
        the plan, not finished, and what a user should know of it.
    """

    def errors(each: Plan) -> list[OutputError]:
        return trial.errors(target.rehearse(model, lifting.finished(each)), lifting.kinds)

    with stages("sensitivity", 1) as advance:
        collapses = lifting.budget.collapses(errors(plan))
        advance()
    if not collapses:
        return plan, []
    sensed = sense_plan(target, model, plan, trial, stages)
    with stages("plan"):
        parts = mixed_plans(model, sensed, _KEPT)
        kept = next((part for part in parts if not _KEPT.faults(errors(part), None)), None)
    if kept is None:
        return plan, []
    before, after = len(plan.lowered()), len(kept.lowered())
    note = f"{before - after} of {before} regions were lifted from {plan.name}: with them, {collapses[0]}"
    return replace(kept, name=plan.name), [note]

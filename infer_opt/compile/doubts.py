"""What a compile could not find out, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.hoisting import branches_taken

if TYPE_CHECKING:
    from infer_opt.calibrate.deadline import Deadline
    from infer_opt.calibrate.judging import Built
    from infer_opt.compile.evidence import Evidence

__all__ = ["cut_short", "stand_ins", "unverified_branches"]


def cut_short(deadline: Deadline) -> list[str]:
    """What `--time-budget` left out; such a result depends on how fast the host was."""
    if not deadline.cut:
        return []
    return [f"--time-budget ended the search, without {', '.join(deadline.cut)}: the result is not reproducible"]


def unverified_branches(winner: Built, model: ir.Model, evidence: Evidence) -> list[str]:
    """The branches of If that the winner runs in integers and that no held-out sample takes, in words."""
    lowered = {region.scope for region, _ in winner.plan.lowered() if region.scope is not None}
    if not lowered or evidence.threads is None:
        return []
    unseen = lowered - branches_taken(model, evidence.samples.verification(), evidence.threads)
    return [f"no held-out sample takes `{branch}`: its INT8 was not verified" for branch in sorted(unseen)]


def stand_ins(*models: ir.Model) -> str | None:
    """Why latency says nothing where a reference stands for an operator that only the device has."""
    names = {f"`{name}`" for model in models for name in ir.referenced_operators(model)}
    return f"{', '.join(sorted(names))} ran as a reference, not as the device's kernel" if names else None

"""Judging built candidates: their errors on held-out samples, and their latency beside the original's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt.calibrate.choice import Judged
from infer_opt.calibrate.timing import interleaved
from infer_opt.calibrate.verification import compare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from infer_opt import ir
    from infer_opt.calibrate.budget import Budget
    from infer_opt.calibrate.feeding import Feeding
    from infer_opt.calibrate.metrics import OutputError
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.runner import Runner
    from infer_opt.calibrate.target import Artifact
    from infer_opt.calibrate.timing import Latency

__all__ = ["ORIGINAL", "Built", "Verdict", "judge"]

ORIGINAL = "original"  # the name of the candidate that is the model as it came

_REFERENCE = "reference"
_ROUNDS = 15


@dataclass(frozen=True)
class Built:
    """A plan, and the artifact that was made of it.

    Args:
        runner: the artifact loaded on this host, or None where the host cannot run it.
        fault: why it could not be loaded although the host runs such artifacts, or None.
    """

    plan: Plan
    folder: Path
    artifact: Artifact
    runner: Runner | None
    fault: str | None = None

    @property
    def bytes(self) -> int:
        """Size of the artifact's files together."""
        return sum((self.folder / name).stat().st_size for name in self.artifact.files)


@dataclass(frozen=True)
class Verdict:
    """What was found out.

    Args:
        judged: the candidates in the order they were built.
        reference: latency of the original, or None where nothing was timed.
    """

    judged: tuple[Judged, ...]
    reference: Latency | None = None


def judge(
    original: Runner | None,
    built: Sequence[Built],
    samples: Feeding,
    parts: Mapping[str, ir.Parts],
    budget: Budget | None,
    stages: Stages,
    *,
    timed: bool,
) -> Verdict:
    """Compare every candidate with the original, and time all of them in turns.

    Args:
        original: None where nothing can be verified; nothing is then known of any candidate.
        parts: of outputs that are judged piece by piece.
        budget: refuses candidates; None where a precision is an order.
        timed: whether this host's latency counts.
    """
    if original is None:
        return Verdict(tuple(Judged(item.plan.name, item.bytes, (), None, None) for item in built))
    runners = {item.plan.name: item.runner for item in built if item.runner is not None}
    failures = {item.plan.name: item.fault for item in built if item.fault is not None}
    with stages("verify", samples.verification_count) as advance:
        errors = compare(
            original,
            runners,
            samples.verification(),
            samples.describe,
            parts=parts,
            failures=failures,
            advance=advance,
        )
    runners = {name: runner for name, runner in runners.items() if name not in failures}
    latencies: dict[str, Latency] = {}
    if timed:
        feed = next(iter(samples.verification()))
        with stages("time", _ROUNDS) as advance:
            latencies = interleaved({_REFERENCE: original, **runners}, feed, rounds=_ROUNDS, advance=advance)
    judged = (
        Judged(
            item.plan.name,
            item.bytes,
            errors.get(item.plan.name, ()),
            latencies.get(item.plan.name),
            None if item.plan.name in failures else _refusal(item, errors.get(item.plan.name), budget),
            failures.get(item.plan.name),
        )
        for item in built
    )
    return Verdict(tuple(judged), latencies.get(_REFERENCE))


def _refusal(item: Built, errors: Sequence[OutputError] | None, budget: Budget | None) -> str | None:
    """Why a candidate that runs, or cannot be run here, must not win; the untouched original always may."""
    if budget is None or item.plan.name == ORIGINAL:
        return None
    if errors is not None:
        return budget.refuses(errors) if item.plan.lowered() or budget.stated else None
    return "it cannot be run here, so nothing tells whether it is right enough" if item.plan.lowered() else None

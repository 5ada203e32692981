"""Judging candidates: built one after the other, held to the original, and timed beside it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from infer_opt.calibrate.choice import Judged
from infer_opt.calibrate.deadline import Deadline
from infer_opt.calibrate.drift import drift
from infer_opt.calibrate.expected import Expected
from infer_opt.calibrate.latency_table import LatencyTable
from infer_opt.calibrate.metrics import TOLD
from infer_opt.calibrate.runner import RunError
from infer_opt.calibrate.timing import interleaved
from infer_opt.calibrate.verification import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from infer_opt import ir
    from infer_opt.calibrate.budget import Budget
    from infer_opt.calibrate.evaluation import Evaluation, Score
    from infer_opt.calibrate.metrics import Metric, OutputError
    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.runner import Runner
    from infer_opt.calibrate.sample_set import SampleSet
    from infer_opt.calibrate.target import Artifact
    from infer_opt.calibrate.timing import Latency
    from infer_opt.calibrate.verifying import Verifying

__all__ = ["ORIGINAL", "Built", "Candidate", "Contest", "Verdict", "Workshop", "judge"]

ORIGINAL = "original"  # the name of the candidate that is the model as it came

_REFERENCE = "reference"
_ROUNDS = 15
_HEAT = 2  # candidates that are in memory at a time while they are timed
_HEAT_SECONDS = 2.5
_ENOUGH = 3  # candidates of a search that are right: the next is slower, by the prediction


@dataclass(frozen=True)
class Candidate:
    """A plan and the graph it is for.

    Args:
        searched: one of a series from the fastest on, by the prediction; the series ends where enough are right.
    """

    plan: Plan
    model: ir.Model
    searched: bool = False

    @property
    def name(self) -> str:
        """The plan's."""
        return self.plan.name


@dataclass(frozen=True)
class Built:
    """A plan, and the artifact that was made of it.

    Args:
        runs: whether this host could load it.
    """

    plan: Plan
    folder: Path
    artifact: Artifact
    runs: bool = False

    @property
    def bytes(self) -> int:
        """Size of the artifact's files together."""
        return sum((self.folder / name).stat().st_size for name in self.artifact.files)


class Workshop(Protocol):
    """Makes artifacts, and loads them on this host."""

    def build(self, candidate: Candidate) -> Built:
        """Write the artifact."""
        ...

    def open(self, built: Built) -> Runner | None:
        """Load it; None where the host cannot run it, or nothing is to be run.

        Raises:
            RunError: the host runs such artifacts, but not this one.
        """
        ...

    def modelled(self, candidate: Candidate) -> float | None:
        """Seconds of one run by the device's latency model; None where there is none, or latency is measured."""
        ...


@dataclass(frozen=True)
class Contest:
    """What candidates are held to.

    Args:
        original: None where nothing can be verified; nothing is then known of any candidate.
        samples: None likewise.
        parts: of outputs that are judged piece by piece.
        state: outputs that are fed back, by `ir.recurrent_state`.
        budget: refuses candidates; None where a precision is an order.
        timed: how many of the samples are timed; 0 where this host's latency does not count.
        metric: how outputs are compared.
        evaluation: the user's own score, or None.
        latencies: takes what is timed, or has it already.
        deadline: ends the series of candidates.
    """

    original: Runner | None
    samples: Verifying | None
    parts: Mapping[str, ir.Parts]
    state: Mapping[str, str]
    budget: Budget | None
    timed: int
    metric: Metric = TOLD
    evaluation: Evaluation | None = None
    latencies: LatencyTable = field(default_factory=lambda: LatencyTable({}))
    deadline: Deadline = field(default_factory=Deadline)


@dataclass(frozen=True)
class Verdict:
    """What was found out.

    Args:
        judged: the candidates that were built, in that order.
        built: likewise.
        reference: latency of the original, or None where nothing was timed.
    """

    judged: tuple[Judged, ...]
    built: tuple[Built, ...]
    reference: Latency | None = None


def judge(candidates: Sequence[Candidate], workshop: Workshop, contest: Contest, stages: Stages) -> Verdict:
    """Build every candidate, compare it with the original, and time those that are right in turns.

    One is in memory at a time, but while they are timed.
    """
    court = _Court(workshop, contest, stages)
    for candidate in candidates:
        if candidate.searched and (court.right_of_search >= _ENOUGH or contest.deadline.leaves_out("candidates")):
            continue
        court.hear(candidate)
    return court.verdict()


class _Court:
    def __init__(self, workshop: Workshop, contest: Contest, stages: Stages) -> None:
        self._workshop, self._contest, self._stages = workshop, contest, stages
        self._expected = None if contest.original is None else Expected(contest.original, contest.state)
        self._built: list[Built] = []
        self._judged: list[Judged] = []
        self.right_of_search = 0

    def hear(self, candidate: Candidate) -> None:
        """Build it and judge its outputs."""
        with self._stages("emit"):
            built = self._workshop.build(candidate)
        judged = Judged(candidate.name, built.bytes, (), None, None, modelled=self._workshop.modelled(candidate))
        if self._expected is not None and self._contest.samples is not None:
            try:
                runner = self._workshop.open(built)
                built = replace(built, runs=runner is not None)
                judged = self._without_run(judged, built) if runner is None else self._compared(judged, built, runner)
            except RunError as error:
                judged = replace(judged, failed=error.message)
        self.right_of_search += candidate.searched and judged.failed is None and judged.refused is None
        self._built.append(built)
        self._judged.append(judged)

    def _without_run(self, judged: Judged, built: Built) -> Judged:
        if self._contest.budget is None or not _is_lowered(built.plan):
            return judged
        return replace(judged, refused="it cannot be run here, so nothing tells whether it is right enough")

    def _compared(self, judged: Judged, built: Built, runner: Runner) -> Judged:
        """With the errors on samples and, where these are right, on changed ones."""
        samples = self._contest.samples
        assert samples is not None  # noqa: S101 - asked for by `hear`
        with self._stages("verify", samples.steps) as advance:
            errors = self._errors(runner, samples.samples, advance)
            evaluation = self._contest.evaluation
            score = None if evaluation is None else evaluation.score(runner)
            refused = self._refusal(built, errors, score)
            drifts = None
            if refused is None and score is None and _is_lowered(built.plan):
                changed = {name: self._errors(runner, each, advance) for name, each in samples.changed.items()}
                drifts = drift(errors, changed)
        if self._free(built):
            return replace(judged, errors=errors, refused=refused or drifts, score=score)
        return replace(judged, errors=errors, refused=refused, drifts=drifts, score=score)

    def _errors(self, runner: Runner, samples: SampleSet, advance: Callable[[], None]) -> list[OutputError]:
        assert self._expected is not None  # noqa: S101 - asked for by `hear`
        parts, metric = self._contest.parts, self._contest.metric
        return compare(self._expected, runner, samples, samples.describe, parts=parts, metric=metric, advance=advance)

    def _free(self, built: Built) -> bool:
        """Whether it may be refused: not an order, and not the untouched original."""
        return self._contest.budget is not None and built.plan.name != ORIGINAL

    def _refusal(self, built: Built, errors: Sequence[OutputError], score: Score | None) -> str | None:
        budget = self._contest.budget
        if budget is None or not self._free(built):
            return None
        return budget.refuses(errors, score) if _is_lowered(built.plan) or budget.stated else None

    def verdict(self) -> Verdict:
        """With the latencies of those that may win."""
        latencies: dict[str, Latency] = {}
        if self._contest.timed and self._contest.original is not None and self._contest.samples is not None:
            names = [_REFERENCE, *(judged.name for _, judged in self._finalists())]
            latencies = self._contest.latencies.latencies(names, self._timed)
        judged = tuple(replace(item, latency=latencies.get(item.name)) for item in self._judged)
        return Verdict(judged, tuple(self._built), latencies.get(_REFERENCE))

    def _finalists(self) -> list[tuple[Built, Judged]]:
        """All that run and are right; where none is, all that run, so that it can be said what they would be."""
        running = [
            (built, judged)
            for built, judged in zip(self._built, self._judged, strict=True)
            if built.runs and judged.failed is None
        ]
        return [(built, judged) for built, judged in running if judged.refused is None] or running

    def _timed(self) -> dict[str, Latency]:
        """Latencies of the original and of the finalists: a few beside the original in turns, then the next few."""
        finalists = self._finalists()
        found: dict[str, Latency] = {}
        heats = [finalists[start : start + _HEAT] for start in range(0, len(finalists), _HEAT)]
        with self._stages("time", _ROUNDS * len(heats)) as advance:
            for heat in heats:
                found = self._heat(heat, advance) | found  # the original's own latency is that of the first
        return found

    def _heat(self, heat: Sequence[tuple[Built, Judged]], advance: Callable[[], None]) -> dict[str, Latency]:
        original, samples = self._contest.original, self._contest.samples
        assert original is not None  # noqa: S101 - asked for by `verdict`
        assert samples is not None  # noqa: S101
        # The original runs already; a second session of it would weigh as much and tell the same.
        opened = {
            judged.name: original if judged.name == ORIGINAL else self._workshop.open(built) for built, judged in heat
        }
        runners = {name: runner for name, runner in opened.items() if runner is not None}
        feeds = list(islice(samples.samples, self._contest.timed))
        return interleaved(
            {_REFERENCE: original, **runners}, feeds, rounds=_ROUNDS, seconds=_HEAT_SECONDS, advance=advance
        )


def _is_lowered(plan: Plan) -> bool:
    return bool(plan.lowered())

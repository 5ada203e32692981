"""What a compile is judged by: the original, the samples, and how outputs are compared."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.evaluation import Evaluation
from infer_opt.calibrate.expected import Expected
from infer_opt.calibrate.feeding import Feeding, feeding, input_specs
from infer_opt.calibrate.fitting import check_metric
from infer_opt.calibrate.judging import Contest
from infer_opt.calibrate.metrics import AUTO, METRICS
from infer_opt.calibrate.original import Original
from infer_opt.calibrate.shape_ranges import shape_ranges
from infer_opt.calibrate.target import ANY_SHAPES
from infer_opt.calibrate.verifying import Verifying, verifying
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt.calibrate.budget import Budget
    from infer_opt.calibrate.deadline import Deadline
    from infer_opt.calibrate.latency_table import LatencyTable
    from infer_opt.calibrate.shape_ranges import ShapeRange
    from infer_opt.compile.request import Request

__all__ = ["Evidence", "gather"]

_TIMED_BRANCHES = 8  # held-out samples whose mean time counts where samples take different ways through the model


@dataclass(frozen=True)
class Evidence:
    """The original and the samples of one compile.

    Args:
        source: the model as it was loaded.
        samples: all of them, by use.
        judged_on: those that candidates are judged on; None where there are none.
        evaluation: the user's own score, or None.
    """

    request: Request
    source: ir.Model
    samples: Feeding
    original: Original
    judged_on: Verifying | None
    evaluation: Evaluation | None

    @property
    def threads(self) -> int | None:
        """To run candidates with; None where nothing is run."""
        return None if self.original.runner is None else self.request.thread_count

    @property
    def shapes(self) -> Mapping[str, Sequence[int]] | None:
        """Of the inputs of the first sample; None where there is none."""
        if self.judged_on is None:
            return None
        return {name: array.shape for name, array in next(iter(self.judged_on.samples)).items()}

    @property
    def ranges(self) -> Mapping[str, ShapeRange]:
        """Of the shapes of inputs that the model leaves open, over all samples that the user gave."""
        names = [port.name for port in ir.interface(self.source).inputs if port.is_open]
        if not names or self.samples.is_random:
            return ANY_SHAPES
        return shape_ranges(chain(self.samples.calibration or (), self.samples.held_out or ()), names)

    def contest(self, budget: Budget | None, latencies: LatencyTable, deadline: Deadline, *, timed: bool) -> Contest:
        """What candidates are held to.

        Args:
            budget: None where a precision is an order.
            timed: whether this host's latency counts.
        """
        return Contest(
            self.original.runner,
            self.judged_on,
            ir.output_parts(self.source),
            ir.recurrent_state(self.source),
            budget,
            timed=(_TIMED_BRANCHES if ir.branches(self.source) else 1) if timed else 0,
            metric=METRICS[self.request.metric],
            evaluation=self.evaluation,
            latencies=latencies,
            deadline=deadline,
        )


def gather(request: Request, source: ir.Model) -> Evidence:
    """Open the samples and the original, and see that what a user names fits them.

    Raises:
        InputError: the data does not fit the model, the original does not run on it, the metric fits no output, or the
            user's own function is at fault.
    """
    samples = feeding(source, request.calib, request.preprocess, request.seed, request.augment)
    original = _original(request, source, samples)
    judged_on = verifying(samples, input_specs(source), request.seed)
    if request.metric != AUTO and original.runner is not None and judged_on is not None:
        # One that was named and fits nothing is an error, and no quiet SQNR.
        expected = Expected(original.runner, ir.recurrent_state(source))
        check_metric(request.metric, METRICS[request.metric], expected, judged_on.samples)
    return Evidence(request, source, samples, original, judged_on, _evaluation(request, original))


def _original(request: Request, source: ir.Model, samples: Feeding) -> Original:
    if not request.verify or samples.held_out is None:
        return Original(None)
    used = {ir.operator_name(node) for graph in ir.all_graphs(source) for node in graph}
    used &= request.allowed_ops - ir.registered_references()
    if used:
        return Original(None, f"nothing was verified: no kernel of {', '.join(sorted(used))} here (--allow-op)")
    return Original.open(request.file, request.title, source, samples, request.thread_count)


def _evaluation(request: Request, original: Original) -> Evaluation | None:
    """The user's score, with the original's; before the work, since the function may be at fault."""
    if request.evaluate is None:
        return None
    if original.runner is None:
        raise InputError("--eval scores a model that runs here, and nothing is run", "leave --eval or --no-verify out")
    return Evaluation.of(request.evaluate, original.runner)

"""The graph passes of one compile: the opset first, every pass checked against the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt import ir, targets
from infer_opt.calibrate.equality import Equality
from infer_opt.passes import Pipeline
from infer_opt.passes.engine.observers import DumpGraphs
from infer_opt.passes.legalize import Legalize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infer_opt.calibrate.feeding import Feeding
    from infer_opt.calibrate.original import Original
    from infer_opt.calibrate.plan import Region
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.target import Target
    from infer_opt.compile.request import Order, Request
    from infer_opt.passes import Observer, Step
    from infer_opt.profiles import Profile

__all__ = ["regions_of", "run_passes", "undone"]


def regions_of(model: ir.Model, profile: Profile) -> tuple[Region, ...]:
    """The kernels that a profile's device would run after the profile's graph passes, and their precisions.

    Raises:
        InputError: the device cannot run a node.
    """
    target: Target = targets.create(profile)
    target.check(model)
    optimised, _ = legalized(profile, Pipeline.parse(profile.pipeline)).run(model)
    return target.regions(optimised)


def legalized(profile: Profile, pipeline: Pipeline) -> Pipeline:
    """The pipeline, after the opset that the backend needs."""
    return Pipeline((*((Legalize(profile.opset.min),) if profile.opset else ()), *pipeline.passes))


def run_passes(
    request: Request, order: Order, source: ir.Model, samples: Feeding, original: Original, stages: Stages
) -> tuple[ir.Model, list[Step]]:
    """Run the graph passes; one that changes an output is undone, or with `strict` an error."""
    pipeline = legalized(request.profile, order.pipeline)
    observers: list[Observer] = [] if request.dump_ir is None else [DumpGraphs(request.dump_ir)]
    if original.runner is not None:
        observers.append(_KeepsOutputs(Equality(original.runner, samples.for_equality())))
    with stages("passes", len(pipeline.passes)) as advance:
        model, steps = pipeline.run(source, [*observers, _Advance(advance)])
    if request.strict and (broken := undone(steps)):
        raise ir.IllegalModelError("; ".join(broken))
    return model, steps


def undone(steps: Sequence[Step]) -> list[str]:
    """Passes whose work was dropped, and why, in words."""
    return [f"pass `{step.ran}` was undone: {step.undone}" for step in steps if step.undone]


@dataclass(frozen=True)
class _KeepsOutputs:
    """Objects to a pass after which outputs differ from the original's."""

    equality: Equality

    def after_pass(self, step: Step) -> str | None:
        return self.equality.fault(step.after)


@dataclass(frozen=True)
class _Advance:
    """Moves the progress bar."""

    advance: Callable[[], None]

    def after_pass(self, step: Step) -> str | None:
        del step
        self.advance()
        return None

"""What a user asks of one compile, and what that makes of precision."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from infer_opt import ir
from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.metrics import AUTO
from infer_opt.errors import InputError
from infer_opt.passes import Pipeline
from infer_opt.passes.quantize import Quantize

if TYPE_CHECKING:
    from pathlib import Path

    from infer_opt.calibrate.augment import Augmentation
    from infer_opt.profiles import Profile

__all__ = ["Order", "Precision", "Request"]

_MOST_CORES = 8

Precision = Literal["auto", "fp32", "fp16", "int8", "int4"]


@dataclass(frozen=True)
class Request:
    """What a user asks of one compile. Options mean what docs/cli.md says of them.

    Args:
        augment: how calibration samples are changed besides.
        pipeline: None runs the profile's own.
        threads: None takes the profile's.
        surgery: the user's script that made `operated`.
        operated: `model` after it: what is compiled then, and compared with.
        allowed_ops: operators (`DOMAIN::OP`) that the device has, though the backend does not know them.
        strict: a graph pass that changes an output is an error, where it is undone otherwise.
        dry_run: do everything but write the folder.
        metric: how outputs are compared: a key of `calibrate.metrics.METRICS`.
        evaluate: `FILE.py:function` that scores a model, or None.
        latency_table: file of times that take the place of measuring, or None.
        time_budget: seconds after which the search ends with the best it has, or None.
    """

    model: Path
    profile: Profile
    out: Path
    calib: str | None = None
    preprocess: str | None = None
    augment: tuple[Augmentation, ...] = ()
    pipeline: Pipeline | None = None
    precision: Precision = "auto"
    budget: Budget = field(default_factory=Budget)
    shapes: tuple[ir.InputShape, ...] = ()
    threads: int | None = None
    seed: int = 0
    force: bool = False
    verify: bool = True
    surgery: Path | None = None
    operated: Path | None = None
    allowed_ops: frozenset[str] = frozenset()
    strict: bool = False
    dry_run: bool = False
    dump_ir: Path | None = None
    metric: str = AUTO
    evaluate: str | None = None
    latency_table: Path | None = None
    time_budget: float | None = None

    @property
    def file(self) -> Path:
        """The file that is loaded."""
        return self.operated or self.model

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"`{self.model}`" if self.surgery is None else f"`{self.model}` after `{self.surgery}`"

    @property
    def thread_count(self) -> int:
        """Threads for verification and timing: those that the artifact will have."""
        return self.threads or self.profile.threads

    @property
    def planning_threads(self) -> int:
        """Threads for what is run without being timed: all that this host has, unless the user says how many."""
        return self.threads or max(self.profile.threads, _usable_cores())


@dataclass(frozen=True)
class Order:
    """What the request makes of precision.

    Args:
        pipeline: the passes to run.
        int8: INT8 is an order, not one candidate among others.
        tries_int8: INT8 is an order or a candidate.
        half: whatever stays float is FP16 where the device has it: FP16 or INT8 is an order, or FP16 is a candidate.
        free: nothing is ordered; everything competes.
    """

    pipeline: Pipeline
    quantize: Quantize
    int8: bool
    tries_int8: bool
    half: bool
    free: bool

    @property
    def named(self) -> bool:
        """Whether one precision is an order, so that nothing is refused."""
        return self.int8 or (self.half and not self.free)

    @classmethod
    def of(cls, request: Request) -> Order:
        """Read it off a request.

        Raises:
            InputError: the profile does not offer what is ordered, or an order of INT8 comes without samples.
        """
        pipeline = request.pipeline or Pipeline.parse(request.profile.pipeline)
        quantize = next((item for item in pipeline.passes if isinstance(item, Quantize)), None)
        # A pass that was named by hand is an order; the profile's own pipeline only says what may compete.
        named = request.pipeline is not None and quantize is not None and request.precision == "auto"
        int8 = request.precision == "int8" or named
        _check_offered(request, "int8" if int8 else request.precision)
        if int8 and request.calib is None:
            raise InputError("INT8 needs samples to find its ranges", "pass --calib PATH, or --precision fp32")
        competes = request.precision == "auto" and quantize is not None and "int8" in request.profile.precisions
        free = request.precision == "auto" and request.pipeline is None
        half = "fp16" in request.profile.precisions and (free or int8 or request.precision == "fp16")
        return cls(pipeline, quantize or Quantize(), int8, int8 or competes, half, free)


def _usable_cores() -> int:
    """That this process may use; more than a handful gain nothing on one sample."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return min(len(allowed), _MOST_CORES)


def _check_offered(request: Request, wanted: str) -> None:
    offered = request.profile.precisions
    if wanted not in {"auto", *offered}:
        raise InputError(
            f"profile `{request.profile.name}` offers no {wanted}; it has {', '.join(offered)}",
            "pass --precision auto, or another --target",
        )

"""The `quantize` pass: an instruction to the planner. What is quantized, and how, is in the plan it makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from infer_opt.calibrate.ranges import METHODS, MeanSquaredError, Percentile
from infer_opt.errors import UsageError
from infer_opt.passes.engine.base import Outcome, Pass

if TYPE_CHECKING:
    from infer_opt import ir
    from infer_opt.calibrate.ranges import RangeMethod

__all__ = ["Quantize"]

_LARGEST_PERCENTILE = 100.0


@dataclass(frozen=True)
class Quantize(Pass):
    """INT8 for every region that the dialect of the target has kernels for.

    Ranges of activations come from the calibration samples by `method`: `minmax` (the extremes seen), `percentile`,
    `entropy` (least Kullback-Leibler divergence, as TensorRT's calibrator), `mse` (least squared error) or `auto`:
    `mse`, and for the noisiest layers the one that leaves least noise at the outputs. Where nothing is ordered, INT8
    with ranges found at run time competes with that.
    """

    name: ClassVar[str] = "quantize"
    stage: ClassVar[Literal["graph", "plan"]] = "plan"

    method: Literal["auto", "minmax", "percentile", "entropy", "mse"] = field(
        default="auto", metadata={"help": "how the range of an activation is found"}
    )
    percentile: float = field(default=99.99, metadata={"help": "share of elements inside the range, for `percentile`"})

    def __post_init__(self) -> None:
        if not _LARGEST_PERCENTILE / 2 < self.percentile <= _LARGEST_PERCENTILE:
            raise UsageError(
                f"`percentile` of pass `quantize` cannot be `{self.percentile:g}`",
                "give more than 50 and at most 100",
            )

    def apply(self, model: ir.Model) -> Outcome:
        """Nothing here: precision stays abstract until the target writes the artifact."""
        del model
        return Outcome()

    @property
    def ranges(self) -> RangeMethod:
        """The range method that the options name, or that a search begins with."""
        if self.method == "auto":
            return MeanSquaredError()
        if self.method == "percentile":
            return Percentile(self.percentile)
        return METHODS[self.method]()

    @property
    def searches_ranges(self) -> bool:
        """Whether each layer may have another method."""
        return self.method == "auto"

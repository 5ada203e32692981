"""Plans: which precision each region gets, and the scale and zero point of each value. Data, no logic.

A plan is abstract: how it is written into an artifact is the backend's dialect.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy as np

    from infer_opt.calibrate.quantization import Format, Quantization

__all__ = ["Choice", "Plan", "Region", "Repair", "Scheme", "WeightSite"]


@dataclass(frozen=True)
class WeightSite:
    """A constant that a region reads in integers: one input of one node.

    Args:
        node: the node's name; index: which of its inputs.
        value: the constant's name.
        axis: output-channel axis of the scales, None for one scale.
        bias: name of the constant bias that is kept in int32; None where there is none, or it stays float.
        bias_scale_of: the activation whose scale, times the weight's, an int32 bias has; None where it stays float.
    """

    node: str
    index: int
    value: str
    axis: int | None
    format: Format
    bias: str | None = None
    bias_scale_of: str | None = None


@dataclass(frozen=True)
class Scheme:
    """One way to run a region at a lower precision than the original's.

    Args:
        precision: `int8`, say.
        reads, writes: values that it reads and writes quantized.
        activations: the format of those values.
        window: low and high end that an absorbed activation gives the output (None: no end).
        fixed_range: the range that the operator gives by definition (a Sigmoid), which needs no statistics.
        moves_data: it copies numbers, so what it writes needs no statistics of its own.
        shares_scale: all values it reads and writes share scale and zero point.
        follows: it gains nothing by itself, and runs like this only where what it reads is there in integers.
    """

    precision: str
    activations: Format
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    window: tuple[float | None, float | None] = (None, None)
    fixed_range: tuple[float, float] | None = None
    weights: tuple[WeightSite, ...] = ()
    moves_data: bool = False
    shares_scale: bool = False
    follows: bool = False

    @property
    def values(self) -> tuple[str, ...]:
        """What it reads and writes quantized."""
        return (*self.reads, *self.writes)


@dataclass(frozen=True)
class Region:
    """Nodes that the backend runs as one kernel.

    Args:
        name: its main node's name.
        nodes: names of all its nodes.
        origin: names of the nodes of the original model it stands for.
        op_type: operator of the main node.
        own: the precision that the model has it in.
        schemes: how else it may run.
        reason: why no lower precision is offered, or None.
    """

    name: str
    nodes: tuple[str, ...]
    origin: tuple[str, ...]
    op_type: str
    own: str = "fp32"
    schemes: tuple[Scheme, ...] = ()
    reason: str | None = None

    @property
    def precisions(self) -> tuple[str, ...]:
        """What it may run at, the original's first."""
        return (self.own, *(scheme.precision for scheme in self.schemes))

    def scheme(self, precision: str) -> Scheme | None:
        """How it would run at a precision; None where that is its own, or not offered."""
        return next((scheme for scheme in self.schemes if scheme.precision == precision), None)


@dataclass(frozen=True)
class Choice:
    """What one region got, and why, in words for a person."""

    precision: str
    reason: str


@dataclass(frozen=True)
class Repair:
    """A change that lowered the noise measured at the outputs.

    Args:
        what: in a few words.
        regions: where, by name.
        before, after: SQNR in dB of the weakest part of the outputs, under the conditions that `measured` tells.
        measured: how.
    """

    what: str
    regions: tuple[str, ...]
    before: float
    after: float
    measured: str


@dataclass(frozen=True)
class Plan:
    """One candidate.

    Args:
        name: for reports: `fp32`, `int8`.
        choices: for every region by name.
        activations: quantization of each value that is quantized.
        weights: quantization by node name and input index.
        levels: likewise, the integers of weights that are not simply rounded to the nearest.
        biases: by node name, what is added to the bias: a number for each output channel, float64.
        repairs: what was changed to lower the noise, and what came of it.
    """

    name: str
    regions: tuple[Region, ...]
    choices: Mapping[str, Choice]
    activations: Mapping[str, Quantization] = field(default_factory=dict)
    weights: Mapping[tuple[str, int], Quantization] = field(default_factory=dict)
    levels: Mapping[tuple[str, int], np.ndarray] = field(default_factory=dict)
    biases: Mapping[str, np.ndarray] = field(default_factory=dict)
    repairs: tuple[Repair, ...] = ()

    def at(self, precision: str) -> tuple[Region, ...]:
        """The regions that run at a precision."""
        return tuple(region for region in self.regions if self.choices[region.name].precision == precision)

    def only(self, names: Collection[str]) -> Plan:
        """The plan with every region but these at its own precision."""
        kept = {
            region.name: self.choices[region.name] if region.name in names else Choice(region.own, "left as it is")
            for region in self.regions
        }
        return replace(self, choices=kept)

    def lowered(self) -> tuple[tuple[Region, Scheme], ...]:
        """The regions that run at another precision than their own, and how."""
        found = ((region, region.scheme(self.choices[region.name].precision)) for region in self.regions)
        return tuple((region, scheme) for region, scheme in found if scheme is not None)

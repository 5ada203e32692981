"""Plans: which precision each region gets, and the scale and zero point of each value. Data, no logic.

A plan is abstract: how it is written into an artifact is the backend's dialect.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy as np

    from infer_opt.calibrate.quantization import Format, Quantization

__all__ = ["DYNAMIC", "INT8", "Choice", "Plan", "Region", "Repair", "Scheme", "WeightSite", "combined"]

INT8 = "int8"  # static: the ranges of activations are those of the calibration samples
DYNAMIC = "int8-dynamic"  # the range of what a kernel reads is found when it runs


@dataclass(frozen=True)
class WeightSite:
    """A constant that a region reads in integers: one input of one node.

    Args:
        node: the node's name; index: which of its inputs.
        value: the constant's name.
        axis: output-channel axis of the scales in what the node reads, None for one scale.
        transposed: the node reads the constant, a matrix, through a Transpose.
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
    transposed: bool = False

    def array(self, initializers: Mapping[str, ir.Value]) -> np.ndarray:
        """The constant as the node reads it."""
        constant = ir.array(initializers[self.value])
        return constant.T if self.transposed else constant


@dataclass(frozen=True)
class Scheme:
    """One way to run a region at a lower precision than the original's.

    Args:
        precision: `INT8` or `DYNAMIC`, as reports call it, or `fp16`.
        activations: the format of quantized values. Where it is `DYNAMIC` there are none: the kernel reads and writes
            float, and quantizes what it reads by itself, with one scale for the whole tensor. None at `fp16`.
        reads, writes: values that it reads and writes quantized, or in FP16.
        hands_on: values that it writes in integers where all who read them want that, and in float otherwise.
        window: low and high end that an absorbed activation gives the output (None: no end).
        fixed_range: the range that the operator gives by definition (a Sigmoid), which needs no statistics.
        moves_data: it copies numbers, so what it writes needs no statistics of its own.
        shares_scale: all values it reads and writes share scale and zero point.
        shares_with: values that others read quantized, and that share them too.
        follows: it gains nothing by itself, and runs like this only where what it reads is there in integers.
        doubt: why it is not expected to gain, by the profile's cut-offs; an order of the precision does not mind.
    """

    precision: str
    activations: Format | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    hands_on: tuple[str, ...] = ()
    window: tuple[float | None, float | None] = (None, None)
    fixed_range: tuple[float, float] | None = None
    weights: tuple[WeightSite, ...] = ()
    moves_data: bool = False
    shares_scale: bool = False
    shares_with: tuple[str, ...] = ()
    follows: bool = False
    doubt: str | None = None

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
        reason: why INT8 is not offered, or None.
        scope: name of the subgraph it stands in (`ir.Scope`), None of the main graph.
    """

    name: str
    nodes: tuple[str, ...]
    origin: tuple[str, ...]
    op_type: str
    own: str = "fp32"
    schemes: tuple[Scheme, ...] = ()
    reason: str | None = None
    scope: str | None = None

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
        name: for reports: `fp32`, `int8`; a plan that lowers all it may to one precision has the name of that.
        choices: for every region by name.
        activations: quantization of each value that is quantized.
        weights: quantization by node name and input index.
        half: names of the regions whose float numbers are FP16: those at `fp16`, and of those at `int8` the ones that
            keep what they do not quantize (biases, results) in FP16.
        levels: the integers of weights that are not simply rounded to the nearest, by node name and input index.
        biases: by node name, what is added to the bias: a number for each output channel, float64.
        repairs: what was changed to lower the noise, and what came of it.
    """

    name: str
    regions: tuple[Region, ...]
    choices: Mapping[str, Choice]
    activations: Mapping[str, Quantization] = field(default_factory=dict)
    weights: Mapping[tuple[str, int], Quantization] = field(default_factory=dict)
    half: frozenset[str] = frozenset()
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
        return replace(self, choices=kept, half=self.half & set(names))

    def lowered(self) -> tuple[tuple[Region, Scheme], ...]:
        """The regions that run at another precision than their own, and how."""
        found = ((region, region.scheme(self.choices[region.name].precision)) for region in self.regions)
        return tuple((region, scheme) for region, scheme in found if scheme is not None)

    def quantized(self) -> tuple[tuple[Region, Scheme, Format], ...]:
        """The regions that read or write integers, how, and in which format."""
        lowered = ((region, scheme) for region, scheme in self.lowered() if scheme.precision != DYNAMIC)
        return tuple((region, scheme, scheme.activations) for region, scheme in lowered if scheme.activations)


def combined(name: str, plans: Sequence[Plan], lowered: Mapping[str, Plan], reasons: Mapping[str, str]) -> Plan:
    """A plan that lowers each region as one of several plans does, and leaves the others at their own precision.

    Args:
        plans: of the same regions, at least one.
        lowered: which of them, for each region that is lowered.
        reasons: why a region is not lowered that could be; those that could not keep the first plan's reason.
    """
    first = plans[0]
    choices: dict[str, Choice] = {}
    weights: dict[tuple[str, int], Quantization] = {}
    levels: dict[tuple[str, int], np.ndarray] = {}
    biases: dict[str, np.ndarray] = {}
    for region in first.regions:
        plan = lowered.get(region.name)
        if plan is None:
            why = reasons.get(region.name, first.choices[region.name].reason)
            choices[region.name] = Choice(region.own, why)
            continue
        choices[region.name] = plan.choices[region.name]
        scheme = region.scheme(plan.choices[region.name].precision)
        sites = scheme.weights if scheme is not None else ()
        keys = [(site.node, site.index) for site in sites]
        weights |= {key: plan.weights[key] for key in keys}
        levels |= {key: plan.levels[key] for key in keys if key in plan.levels}
        biases |= {node: plan.biases[node] for node, _ in keys if node in plan.biases}
    activations = {value: found for plan in reversed(plans) for value, found in plan.activations.items()}
    repairs = tuple(repair for plan in plans for repair in plan.repairs)
    return Plan(name, first.regions, choices, activations, weights, levels=levels, biases=biases, repairs=repairs)

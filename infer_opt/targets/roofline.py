"""Modelled times of kernels, for devices that this host is not: a roofline from the rates that a profile states.

    seconds = launch + max(operations / peak rate of the precision, bytes moved / memory bandwidth)

Source: S. Williams et al., "Roofline: An Insightful Visual Performance Model for Multicore Architectures", 2009. Peak
rates are of matrix units, which work on whole tiles: channels are rounded up to them. It is a model: it orders choices,
and no figure of it is a measurement.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.kernel_times import RegionTimes
from infer_opt.calibrate.plan import INT8

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt.calibrate.plan import Plan, Region, Scheme
    from infer_opt.profiles import Profile

__all__ = ["Roofline"]

_LAUNCH = 3e-6  # seconds that a kernel takes which does next to nothing, about, on GPUs
_TILES = {"fp32": 1, "fp16": 8, INT8: 16}  # channels of a tile of a matrix unit
_SCALAR = {"fp32": 1.0, "fp16": 2.0, INT8: 4.0}  # rates without matrix units, by that of FP32
_BYTES = {"fp32": 4, "fp16": 2, INT8: 1}
# Fused with each other and with the quantizer behind them, by TensorRT's documentation ("PointWise fusion").
_POINTWISE = frozenset(
    {"Add", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Max", "Min", "Mul"}
    | {"PRelu", "Pow", "Relu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Swish", "Tanh"}
)
_MATRIX = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_FREE = frozenset({"Constant", "Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze"})  # move nothing


@dataclass(frozen=True)
class Roofline:
    """A device by its rates; see `calibrate.target.LatencyModel`.

    Args:
        peaks: operations a second by precision, of matrix units.
        bandwidth: bytes a second.
    """

    peaks: Mapping[str, float]
    bandwidth: float

    @classmethod
    def of(cls, profile: Profile) -> Roofline | None:
        """None where the profile lacks a rate that its precisions need."""
        peak = profile.peak
        rates = {
            "fp32": None if peak.fp32_gflops is None else 1e9 * peak.fp32_gflops,
            "fp16": None if peak.fp16_tflops is None else 1e12 * peak.fp16_tflops,
            INT8: None if peak.int8_tops is None else 1e12 * peak.int8_tops,
        }
        wanted: set[str] = {"fp32", *profile.precisions}  # whatever stays float is FP32, unless it is FP16
        known = {name: rate for name, rate in rates.items() if name in wanted and rate is not None}
        missing = wanted & rates.keys() - known.keys()
        if missing or profile.bandwidth_gbs is None:
            return None
        return cls(known, 1e9 * profile.bandwidth_gbs)

    @property
    def basis(self) -> str:
        """What the model knows, in words."""
        rates = ", ".join(
            f"{rate / 1e12:g} T{'OPS' if name == INT8 else 'FLOPS'} {name}" for name, rate in self.peaks.items()
        )
        return f"modelled: a roofline of the device's peaks, {rates}, {self.bandwidth / 1e9:g} GB/s"

    def times(self, model: ir.Model, plan: Plan, shapes: Mapping[str, Sequence[int]]) -> RegionTimes:
        """Modelled seconds of each region; `other` is what it takes to quantize values between them."""
        fixed = ir.at_shapes(model, shapes)
        run = _Run(self, fixed, plan)
        regions = {region.name: run.seconds(region) for region in plan.regions}
        return RegionTimes(
            regions, sum(self.crossing(value, ir.elements(value) or 0) for value in run.quantized_apart())
        )

    def crossing(self, value: ir.Value, elements: int) -> float:
        """Seconds to turn a value into integers: in a kernel of its own, or on the way in one by elements."""
        producer = value.producer()
        if producer is not None and producer.op_type in _POINTWISE:
            return 0.0
        return _LAUNCH + elements * (_BYTES["fp16"] + _BYTES[INT8]) / self.bandwidth

    def rate(self, precision: str, node: ir.Node) -> float:
        """Operations a second that count for a node: those that tiles waste are taken off."""
        if ir.attribute(node, "group", 1) != 1:
            return self.peaks["fp32"] * _SCALAR[precision]
        tile = _TILES[precision]
        used = 1.0
        for channels in _channels(node):
            used *= channels / (-(-channels // tile) * tile)
        return self.peaks[precision] * used


class _Run:
    """A model at one plan, with all shapes known."""

    def __init__(self, roofline: Roofline, model: ir.Model, plan: Plan) -> None:
        self._roofline, self._plan = roofline, plan
        self._nodes = ir.nodes(model)
        self._values = ir.every_value(model)
        self._work = ir.multiply_adds_by_node(model)
        self._lowered = {region.name: scheme for region, scheme in plan.lowered() if scheme.precision == INT8}
        self._in_integers: dict[str, int] = defaultdict(int)  # how many regions read a value so
        for scheme in self._lowered.values():
            for value in dict.fromkeys(scheme.reads):
                self._in_integers[value] += 1

    def seconds(self, region: Region) -> float:
        nodes = [self._nodes[name] for name in region.nodes]
        if all(node.op_type in _FREE for node in nodes):
            return 0.0
        scheme = self._lowered.get(region.name)
        if all(_follows(node) for node in nodes):
            return self._written(region, nodes, scheme) / self._roofline.bandwidth
        precision = INT8 if scheme is not None else self._float_of(region)
        compute = sum(
            2 * (self._work.get(str(node.name)) or 0) / self._roofline.rate(precision, node) for node in nodes
        )
        return _LAUNCH + max(compute, self._moved(region, nodes, scheme) / self._roofline.bandwidth)

    def quantized_apart(self) -> list[ir.Value]:
        """The values that no INT8 kernel writes, and one reads in integers."""
        written = {value for scheme in self._lowered.values() for value in (*scheme.writes, *scheme.hands_on)}
        return [value for value in self._values if value.name in self._in_integers and value.name not in written]

    def _float_of(self, region: Region) -> str:
        return "fp16" if region.name in self._plan.half else "fp32"

    def _moved(self, region: Region, nodes: Sequence[ir.Node], scheme: Scheme | None) -> int:
        """Bytes read and written: what stays within the region is neither."""
        width = _BYTES[self._float_of(region)]
        inside = {value for node in nodes for value in node.outputs}
        reads = dict.fromkeys(
            value for node in nodes for value in node.inputs if value is not None and value not in inside
        )
        weights = {site.value for site in scheme.weights} if scheme is not None else set()
        integers = weights | set(scheme.reads if scheme is not None else ())
        total = sum((ir.elements(value) or 0) * (_BYTES[INT8] if value.name in integers else width) for value in reads)
        return total + self._written(region, nodes, scheme)

    def _written(self, region: Region, nodes: Sequence[ir.Node], scheme: Scheme | None) -> int:
        total = 0
        can_write = set() if scheme is None else {*scheme.writes, *scheme.hands_on}
        for value in (value for node in nodes for value in node.outputs):
            readers = {user for user, _ in value.uses()} - set(nodes)
            if readers or value.is_graph_output():
                narrow = value.name in can_write and self._in_integers[str(value.name)] >= len(readers)
                total += (ir.elements(value) or 0) * _BYTES[INT8 if narrow else self._float_of(region)]
        return total


def _follows(node: ir.Node) -> bool:
    """Whether a node works by elements on what another kernel just made: it is done there, and only writes."""
    makers = (value.producer() for value in node.inputs if value is not None)
    made = any(maker is not None and (maker.op_type in _POINTWISE or maker.op_type in _MATRIX) for maker in makers)
    return node.op_type in _POINTWISE and made


def _channels(node: ir.Node) -> tuple[int, ...]:
    """Input and output channels of a convolution, inner and last dimension of a product; none where unknown."""
    shape = ir.dims(node.inputs[1]) if len(node.inputs) > 1 else None
    sizes = () if shape is None else shape[:2] if node.op_type.startswith("Conv") else shape[-2:]
    return tuple(size for size in sizes if isinstance(size, int) and size > 0)

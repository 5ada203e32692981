"""FP16 for each region, or why not: verdicts from measured ranges where there are samples, else from static rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.half_reach import Gains, exact_arithmetic
from infer_opt.calibrate.half_rules import Measured, constant_fault, operator_fault
from infer_opt.calibrate.plan import Choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from infer_opt.calibrate.plan import Plan, Region
    from infer_opt.calibrate.quantization import Quantization
    from infer_opt.calibrate.sketch import Sketch

__all__ = ["half_values", "half_verdicts", "with_half"]

_HALF = "fp16"
_SMALLEST_SCALE = np.float16(2.0**-24)
# Worth a Cast on either side; what is cheaper than its Casts stays with its neighbours.
_WORTH = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN", "Einsum", "Attention"})


def half_values(model: ir.Model, regions: Sequence[Region]) -> list[str]:
    """Values of which a verdict wants to know the range: what regions would read and write in FP16, less constants."""
    schemes = (scheme for region in regions if (scheme := region.scheme(_HALF)) is not None)
    values = dict.fromkeys(value for scheme in schemes for value in scheme.values)
    return [value for value in values if value not in model.graph.initializers]


def half_verdicts(
    model: ir.Model, regions: Sequence[Region], sketches: Mapping[str, Sketch] | None
) -> dict[str, Choice]:
    """For every region by name: FP16, or the model's own precision, and why.

    Args:
        sketches: statistics of `half_values`; None where there are no samples.
    """
    faults = _node_faults(model, Measured(sketches))
    unknown = "weights fit, and no rule speaks against it; not measured"
    known = unknown if sketches is None else "ranges fit (measured)"
    verdicts: dict[str, Choice] = {}
    for region in regions:
        fault = next((faults[name] for name in region.nodes if name in faults), None)
        if region.scope is not None:
            verdicts[region.name] = Choice(region.own, "bodies of If, Loop and Scan keep their floats")
        elif region.scheme(_HALF) is None:
            verdicts[region.name] = Choice(region.own, "it has no float32 numbers that ONNX knows as FP16")
        elif fault is not None:
            verdicts[region.name] = Choice(region.own, fault)
        else:
            verdicts[region.name] = Choice(_HALF, known)
    return _without_islands(model, regions, verdicts)


def _node_faults(model: ir.Model, measured: Measured) -> dict[str, str]:
    opset = model.opset_imports.get("", 1)
    exact = exact_arithmetic(model.graph, measured)
    gains = Gains(measured)
    judged: dict[ir.Value, str | None] = {}
    faults: dict[str, str] = {}
    for node in model.graph:
        ports = ir.half_ports(node, opset)
        touched = [node.inputs[index] for index in ports.inputs] + [node.outputs[index] for index in ports.outputs]
        values = [value for value in touched if value is not None]
        for value in values:
            if value not in judged:
                judged[value] = constant_fault(value) if ir.is_constant(value) else measured.fault(value)
        constant = next((judged[value] for value in values if ir.is_constant(value) and judged[value]), None)
        inside = operator_fault(node, measured)
        source = gains.source_of_fault(node)
        gains.follow(node, faulty_constant=constant is not None, faulty_inside=inside is not None)
        reach = None if source is None else f"`{source.name}` may be out of FP16's range ({_known(source, measured)})"
        ranges = next((judged[value] for value in values if not ir.is_constant(value) and judged[value]), None)
        fault = ranges or constant or exact.get(node) or inside or reach
        if fault is not None:
            faults[str(node.name)] = fault
    return faults


def _known(value: ir.Value, measured: Measured) -> str:
    return "not measured" if measured.largest(value) is None else "by its constants, whatever was measured"


def _without_islands(model: ir.Model, regions: Sequence[Region], verdicts: dict[str, Choice]) -> dict[str, Choice]:
    """Leave cheap regions as they are where everything around them is: their Casts would cost more than they."""
    owner = {name: region for region in regions for name in region.nodes}
    nodes = ir.nodes(model)
    for region in regions:
        if verdicts[region.name].precision != _HALF or region.op_type in _WORTH:
            continue
        around = list(_around([nodes[name] for name in region.nodes]))
        neighbours = [owner.get(str(node.name)) for node in around]
        if not any(other is not None and verdicts[other.name].precision == _HALF for other in neighbours):
            verdicts[region.name] = Choice(region.own, "nothing beside it is FP16, and it is cheaper than its Casts")
    return verdicts


def _around(nodes: Sequence[ir.Node]) -> Iterator[ir.Node]:
    """Makers and readers of the float values of some nodes, without these."""
    inner = set(nodes)
    for node in nodes:
        makers = [value.producer() for value in node.inputs if value is not None and value.dtype == ir.DataType.FLOAT]
        readers = [user for value in node.outputs if value.dtype == ir.DataType.FLOAT for user, _ in value.uses()]
        yield from (other for other in (*makers, *readers) if other is not None and other not in inner)


def with_half(plan: Plan, verdicts: Mapping[str, Choice]) -> Plan:
    """A plan with FP16 wherever it left a region as it was and the verdict allows it; of INT8 regions the floats too.

    The model as it is becomes the candidate `fp16` so; other plans keep their names.

    Scales beside FP16 numbers are FP16: they are rounded here, so that weights are quantized with the very scale that
    is written.
    """
    choices: dict[str, Choice] = {}
    half: set[str] = set()
    for region in plan.regions:
        choice, verdict = plan.choices[region.name], verdicts[region.name]
        if verdict.precision == _HALF:
            half.add(region.name)
        if choice.precision == region.own:
            reason = verdict.reason if not plan.lowered() else f"{verdict.reason}; not INT8: {choice.reason}"
            choices[region.name] = Choice(verdict.precision, reason)
        elif verdict.precision != _HALF:
            choices[region.name] = replace(choice, reason=f"{choice.reason}; floats stay as they are: {verdict.reason}")
        else:
            choices[region.name] = choice
    name = _HALF if half and plan.name == "fp32" else plan.name
    typed = replace(plan, name=name, choices=choices, half=frozenset(half))
    kept = [scheme.weights for region, scheme, _ in plan.quantized() if region.name in half]
    sites = {(site.node, site.index) for weights in kept for site in weights}
    return replace(
        typed,
        activations={name: _half_scale(found) for name, found in plan.activations.items()},
        weights={site: _half_scale(found) if site in sites else found for site, found in plan.weights.items()},
    )


def _half_scale(found: Quantization) -> Quantization:
    """The same with a scale that FP16 holds; one that it cannot hold stays above 0."""
    scale = np.asarray(found.scale, np.float16)
    lower = scale.astype(np.float32) < found.scale
    upward = np.where(lower, np.nextafter(scale, np.float16(np.inf)), scale)
    return replace(found, scale=np.maximum(upward, _SMALLEST_SCALE).astype(np.float32))

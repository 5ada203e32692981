"""How long each region takes on this host: the times of onnxruntime's kernels, told apart by the names it gives them.

onnxruntime fuses and converts nodes when it loads a model, and names what it makes after the node or the value that it
stands for: `conv_token_3`, `relu_out_nchwc`, `x_quantized_node`. What has a name of no origin (`BiasGelu`) counts for
no region.

The profiler's own work falls into the times it takes: some 2 microseconds a kernel, which made an INT8 YOLOv8n of 350
kernels look 0.9 ms, or 15 %, slower than it is (measured). So a run without profiler says what the kernels sum up to.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.runner import Runner
from infer_opt.calibrate.timing import median_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from infer_opt.calibrate.plan import Plan

__all__ = ["RegionTimes", "region_times", "without_overhead"]

_RUNS = 12
_QUANTIZERS = ("_quantized_node", "_q")  # how quantizers are called after their value
_SUFFIX = re.compile(r"(?:_nchwc|_token_\d+|_quant|_(?:de)?quantized(?:_node)?|_node|_d?q)$")


@dataclass(frozen=True)
class RegionTimes:
    """Measured seconds of one run.

    Args:
        regions: by name; a quantizer counts for the region that writes its value in integers, or else reads it so.
        other: of kernels that belong to no region.
    """

    regions: Mapping[str, float]
    other: float


def region_times(
    model: ir.Model, plan: Plan, rehearsed: ir.Model, feeds: Sequence[Mapping[str, np.ndarray]], threads: int = 1
) -> RegionTimes:
    """Profile a few runs and give each kernel's median time to its region.

    Args:
        model: whose nodes the plan names.
        rehearsed: what the backend makes of the model and the plan.
        feeds: only the first is run where every run takes the same way through the model. Where a branch of an If
            may be taken or not, all are, and times are their mean: what is seldom taken counts for little.
    """
    each = [_times(model, plan, rehearsed, feed, threads) for feed in (feeds if ir.branches(model) else feeds[:1])]
    regions = {name for times in each for name in times.regions}
    mean = {name: sum(times.regions.get(name, 0.0) for times in each) / len(each) for name in sorted(regions)}
    return RegionTimes(mean, sum(times.other for times in each) / len(each))


def _times(
    model: ir.Model, plan: Plan, rehearsed: ir.Model, feed: Mapping[str, np.ndarray], threads: int
) -> RegionTimes:
    owners = _owners(model, plan)
    runner = Runner.of_model(rehearsed, "the model", threads=threads, mode="profiled")
    kernels = runner.kernel_seconds(feed, _RUNS)
    if sum(1 for _ in ir.all_graphs(rehearsed)) == 1:  # a node with a body takes the time of the kernels in it again
        whole = median_seconds(Runner.of_model(rehearsed, "the model", threads=threads), feed, _RUNS)
        kernels = without_overhead(kernels, whole)
    times: dict[str, float] = defaultdict(float)
    other = 0.0
    for kernel, seconds in kernels.items():
        region = _owner(kernel, owners)
        if region is None:
            other += seconds
        else:
            times[region] += seconds
    return RegionTimes(dict(times), other)


def without_overhead(kernels: Mapping[str, float], whole: float) -> dict[str, float]:
    """Times of kernels less what each of them, whatever it does, cost the profiler.

    Args:
        kernels: seconds by name, as profiled.
        whole: seconds of a run without profiler. Where the kernels sum up to less, they are left as they are.
    """
    excess, overhead = sum(kernels.values()) - whole, 0.0
    for place, least in enumerate(sorted(kernels.values())):  # no kernel took less than nothing: the others share more
        overhead = max(0.0, excess / (len(kernels) - place))
        if overhead <= least:
            break
        excess -= least
    return {name: max(0.0, seconds - overhead) for name, seconds in kernels.items()}


def _owners(model: ir.Model, plan: Plan) -> dict[str, str]:
    """Region by the names of its nodes, of the values they make, and of quantizers of what it reads in integers."""
    nodes = ir.nodes(model)
    owners: dict[str, str] = {}
    for region, scheme in plan.lowered():
        owners |= dict.fromkeys((value for value in scheme.reads if value not in owners), region.name)
    # A value that is float where it is made is quantized for those who read it so, the first of them.
    written = {value for _, scheme in plan.lowered() for value in scheme.writes}
    quantizers = {
        f"{value}{end}": name for value, name in owners.items() if value not in written for end in _QUANTIZERS
    }
    for region in plan.regions:
        for name in region.nodes:
            owners |= dict.fromkeys((str(value.name) for value in nodes[name].outputs), region.name)
    for region in plan.regions:  # last: a node's own name counts before a value's
        owners |= dict.fromkeys(region.nodes, region.name)
    return owners | quantizers


def _owner(kernel: str, owners: Mapping[str, str]) -> str | None:
    while kernel not in owners:
        shorter = _SUFFIX.sub("", kernel)
        if shorter == kernel:
            return None
        kernel = shorter
    return owners[kernel]

"""Weights repaired: rounded so that errors cancel over the inputs they meet, and the error left in the mean taken back.

The mean of a layer's error is the error of its weights times the mean of its inputs; it is subtracted from the bias.
Source: M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, its empirical
form. After a Relu inputs are far from 0 on average, and so most of the error of weights is such a mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.plan import Repair
from infer_opt.calibrate.repairs.constants import bias_of, with_constants
from infer_opt.calibrate.repairs.halving import helpful
from infer_opt.calibrate.repairs.reads import as_rows, from_rows, gather
from infer_opt.calibrate.repairs.rounding import mean_error, rounded
from infer_opt.calibrate.repairs.total_noise import total_noise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from infer_opt.calibrate.plan import Plan, WeightSite
    from infer_opt.calibrate.repairs.reads import Moments
    from infer_opt.calibrate.repairs.total_noise import TotalNoise
    from infer_opt.calibrate.sample_set import SampleSet
    from infer_opt.calibrate.sensitivity import Trial

__all__ = ["repair_weights"]

_MOST_SAMPLES = 16


def repair_weights(model: ir.Model, plan: Plan, samples: SampleSet, trial: Trial, seed: int = 0) -> Plan:
    """Round the weights of a plan anew and correct biases, wherever that lowers the noise at the outputs.

    The noise is measured with nothing but the weights in integers, all of them: rounding activations would hide it. It
    is measured for all layers together; where it does not fall, for halves of them.

    Args:
        samples: the inputs that weights meet are seen on up to 16 of them.
        trial: the samples on which the noise is measured.
    """
    nodes = {str(node.name): node for node in model.graph}
    sites = {
        region.name: site
        for region, scheme in plan.lowered()
        for site in scheme.weights
        if site.node in nodes and _form(model, nodes[site.node], site)
    }
    if not sites:
        return plan
    step = -(-len(samples) // _MOST_SAMPLES)
    feeds = [feed for index, feed in enumerate(samples) if index % step == 0]
    moments = gather(model, list(sites.values()), feeds, trial.threads, seed)
    every = plan
    for site in sites.values():
        every = _repaired(model, nodes[site.node], site, every, moments[site.node])

    def noise(regions: Iterable[str]) -> TotalNoise:
        return total_noise(trial.last_errors(_rounded_weights(model, _some(plan, every, sites, regions))))

    before = noise(())
    kept, after = helpful(tuple(sites), before, noise)
    if not kept:
        return plan
    measured = f"with only weights in INT8, on {len(trial.feeds)} calibration samples"
    repair = Repair(
        "weights rounded by what they meet, biases corrected", kept, before.least_db, after.least_db, measured
    )
    return replace(_some(plan, every, sites, kept), repairs=(*plan.repairs, repair))


def _form(model: ir.Model, node: ir.Node, site: WeightSite) -> bool:
    """Whether the weight is a matrix by which rows are multiplied, and this node's own."""
    chain = (model.graph.initializers.get(site.value), node.inputs[site.index])  # one where nothing is transposed
    if any(value is None or len(tuple(value.uses())) != 1 for value in chain):
        return False
    return as_rows(node, site.array(model.graph.initializers)) is not None


def _repaired(model: ir.Model, node: ir.Node, site: WeightSite, plan: Plan, moments: Moments) -> Plan:
    """With the weight of one site rounded anew, and its bias corrected where it has, or may have, a constant one."""
    key = (site.node, site.index)
    found, weight = plan.weights[key], site.array(model.graph.initializers)
    rows = as_rows(node, weight)
    assert rows is not None  # noqa: S101 - asked for by `_form`
    scales = np.broadcast_to(found.scale, rows.shape[0] * rows.shape[1]).reshape(rows.shape[:2])
    corrects = bias_of(node) is not None
    levels = rounded(rows, scales, moments.second(centred=corrects), site.format)
    plan = replace(plan, levels={**plan.levels, key: from_rows(node, levels, weight.shape)})
    if not corrects:
        return plan
    shift = mean_error(rows, levels, scales, moments.mean())
    return replace(plan, biases={**plan.biases, site.node: -shift.reshape(-1)})


def _some(plan: Plan, every: Plan, sites: Mapping[str, WeightSite], regions: Iterable[str]) -> Plan:
    """The plan with the repairs of some regions only."""
    names = {sites[region].node for region in regions}
    return replace(
        plan,
        levels={**plan.levels, **{key: array for key, array in every.levels.items() if key[0] in names}},
        biases={**plan.biases, **{node: array for node, array in every.biases.items() if node in names}},
    )


def _rounded_weights(model: ir.Model, plan: Plan) -> ir.Model:
    """The float model with the numbers that the plan's weights stand for, and the plan's biases."""
    initializers = ir.initializers(model)
    nearest = {
        (site.node, site.index): plan.weights[site.node, site.index].quantize(site.array(initializers))
        for _, scheme in plan.lowered()
        for site in scheme.weights
    }
    return with_constants(model, replace(plan, levels={**nearest, **plan.levels}))

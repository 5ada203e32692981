"""Channels equalised: where one step has to do for channels of unlike reach, factors move into the layers around.

A repair of the model, not of a plan: it computes the same to the bit, and its channels fit one scale better. Between
convolutions this is cross-layer equalisation, behind a LayerNormalization SmoothQuant; see `channel_factors`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.plan import Repair
from infer_opt.calibrate.quantization import Format
from infer_opt.calibrate.repairs.channel_factors import ChannelReach, ChannelWeights, best_factors
from infer_opt.calibrate.repairs.channel_sites import find_sites, with_factors
from infer_opt.calibrate.repairs.halving import helpful
from infer_opt.calibrate.repairs.inner_values import inner_values
from infer_opt.calibrate.repairs.total_noise import TotalNoise, total_noise
from infer_opt.calibrate.statistics import collect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np

    from infer_opt.calibrate.plan import Plan
    from infer_opt.calibrate.repairs.channel_sites import Site, Slot
    from infer_opt.calibrate.sample_set import SampleSet
    from infer_opt.calibrate.sensitivity import Trial
    from infer_opt.calibrate.sketch import Sketch
    from infer_opt.calibrate.target import Target

__all__ = ["Equalised", "equalised"]

_PROMISE = 0.8  # of the noise, by the formula: what would fall by less is not tried
_AT_RUN_TIME = Format("uint8", symmetric=False)  # of DynamicQuantizeLinear


@dataclass(frozen=True)
class Equalised:
    """A model whose channels are equalised where that lowers the noise at the outputs.

    Args:
        sketches: statistics of all values that are watched, in this model.
        repair: what was done, or None where nothing helps.
    """

    model: ir.Model
    sketches: Mapping[str, Sketch]
    repair: Repair | None = None


def equalised(
    target: Target,
    model: ir.Model,
    sketches: Mapping[str, Sketch],
    samples: SampleSet,
    trial: Trial,
    planner: Callable[[ir.Model, Mapping[str, Sketch]], Sequence[Plan]],
    seed: int = 0,
) -> Equalised:
    """Equalise the channels of every value where the formula promises much, and keep what the outputs confirm.

    The noise is that of all regions around these values in INT8 together, in all ways that they may be lowered.

    Args:
        sketches: of the values that plans ask for.
        samples: all that calibrate; ranges of values that change are found on them anew.
        trial: the samples on which channels are looked at, and noise is measured.
        planner: the plans that lower all that may be lowered, of a model and its statistics.
    """
    plans = planner(model, sketches)
    factors = _promising(model, plans, trial)
    if not factors:
        return Equalised(model, sketches)
    regions = _around(factors, plans)
    changed = [value for site in factors for value in site.values if value in sketches]
    scaled = with_factors(model, factors)
    anew = collect(scaled, changed, samples, threads=trial.threads, seed=seed).sketches if changed else {}

    def some(sites: Iterable[Site]) -> tuple[ir.Model, dict[str, Sketch]]:
        chosen = {site: factors[site] for site in sites}
        own = {value: anew[value] for site in chosen for value in site.values if value in anew}
        return with_factors(model, chosen), {**sketches, **own}

    def noise(sites: Iterable[Site]) -> TotalNoise:
        changed_model, ranges = some(sites)
        tried = [plan.only(regions) for plan in planner(changed_model, ranges)]
        errors = [trial.last_errors(target.rehearse(changed_model, plan)) for plan in tried if plan.lowered()]
        found = list(map(total_noise, errors))
        return TotalNoise(math.prod(each.share for each in found) ** (1 / len(found)), found[0].least_db)

    before = noise(())
    kept, after = helpful(tuple(factors), before, noise)
    if not kept:
        return Equalised(model, sketches)
    measured = f"these regions and those before them, all in INT8, on {len(trial.feeds)} calibration samples"
    around = _around(kept, plans)
    names = tuple(region.name for region in plans[0].regions if region.name in around)
    repair = Repair("channels equalised with the layers before", names, before.least_db, after.least_db, measured)
    return Equalised(*some(kept), repair)


def _around(sites: Iterable[Site], plans: Sequence[Plan]) -> set[str]:
    """The regions that write or read sites, and that a plan lowers."""
    lowered = {region.name for plan in plans for region, _ in plan.lowered()}
    region_of = {node: region.name for region in plans[0].regions for node in region.nodes}
    return {region_of[node] for site in sites for node in site.nodes if node in region_of} & lowered


def _promising(model: ir.Model, plans: Sequence[Plan], trial: Trial) -> dict[Site, np.ndarray]:
    """The factors of every site that is read in integers and that the formula expects much of."""
    forms = _read_in_integers(plans)
    sites = [site for site in find_sites(model) if any(slot.node in forms for slot in site.readers)]
    if not sites:
        return {}
    nodes = ir.nodes(model)
    reads = {site: {str(nodes[slot.node].inputs[0].name) for slot in site.readers} for site in sites}  # type: ignore[union-attr]
    reaches = {site: ChannelReach(site.channels) for site in sites}
    wanted = [name for names in reads.values() for name in names]
    for values in inner_values(model, wanted, trial.feeds, trial.threads):
        for site in sites:
            for name in reads[site].intersection(values):
                reaches[site].add(values[name], site.axis)
    promising = {}
    for site in sites:
        weights = [_channel_weights(nodes[slot.node], slot) for slot in site.readers]
        form = next(forms[slot.node] for slot in site.readers if slot.node in forms)
        found = best_factors(reaches[site], weights, form)
        if found.noise < _PROMISE:
            promising[site] = found.values
    return promising


def _read_in_integers(plans: Sequence[Plan]) -> dict[str, Format]:
    """The nodes whose weights are lowered, and in which form what they multiply these with is rounded."""
    return {
        site.node: scheme.activations or _AT_RUN_TIME
        for plan in reversed(plans)
        for _, scheme in plan.lowered()
        for site in scheme.weights
    }


def _channel_weights(node: ir.Node, slot: Slot) -> ChannelWeights:
    constant = node.inputs[slot.index]
    assert constant is not None  # noqa: S101 - a slot is an input that is there
    weight = ir.array(constant)
    if node.op_type == "Conv":
        depthwise = slot.axis == 0
        shape = (1, weight.shape[0], -1) if depthwise else (*weight.shape[:2], -1)
        return ChannelWeights.of(weight.reshape(shape), depthwise=depthwise)
    return ChannelWeights.of((weight.T if slot.axis == 0 else weight)[:, :, None], depthwise=False)

"""Channels equalised: less noise in the artifact on samples that took no part, and nothing kept that does not help."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir, targets
from infer_opt.calibrate.plan import Plan
from infer_opt.calibrate.planner import lowered_plans, watched_values
from infer_opt.calibrate.ranges import MinMax
from infer_opt.calibrate.repairs.equalisation import Equalised, equalised
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.sketch import Sketch
from infer_opt.calibrate.statistics import collect
from infer_opt.profiles import Profile
from tests.targets.networks import Feeds, Network, for_any_host, normal

X86, T4 = for_any_host("x86-avx512-vnni"), for_any_host("t4")
UNLIKE = np.exp2(np.linspace(-6, 2, 8)).astype(np.float32)
TEXT = "net (float[1,8,8,8] x) => (float[] y) { [a] t = Conv(x, w, b) r = Relu(t) [c] y = Conv(r, v) }"
CONSTANTS = {
    "w": normal(8, 8, 3, 3) * UNLIKE[:, None, None, None],
    "b": normal(8, seed=1) * UNLIKE,
    "v": normal(8, 8, 3, 3, seed=2) / UNLIKE[:, None, None],
}
NETWORK = Network(TEXT, CONSTANTS)


def images(first: int, count: int = 8) -> Feeds:
    """Samples by seed."""
    return Feeds([{"x": normal(1, 8, 8, 8, seed=seed)} for seed in range(first, first + count)])


class Bench:
    """A network, a device, and what equalising makes of it."""

    def __init__(self, network: Network, device: Profile, folder: Path) -> None:
        self.target, self.model, self.samples = targets.create(device), network.load(folder), images(0)
        self.sketches = collect(
            self.model, watched_values(self.model, self.target.regions(self.model)), self.samples
        ).sketches

    def plans(self, model: ir.Model, sketches: Mapping[str, Sketch]) -> list[Plan]:
        """All in INT8."""
        return lowered_plans(model, self.target.regions(model), sketches, MinMax())

    def done(self) -> Equalised:
        """By the samples that calibrate."""
        trial = Trial.of_samples(self.model, self.samples, 1)
        return equalised(self.target, self.model, self.sketches, self.samples, trial, self.plans)

    def sqnr(self, model: ir.Model, sketches: Mapping[str, Sketch]) -> float:
        """Of the one output in INT8, on samples that took no part."""
        written = self.target.rehearse(model, self.plans(model, sketches)[0])
        [error] = Trial.of(self.model, list(images(100)), {}).errors(written)
        return error.sqnr


@pytest.mark.parametrize("device", [X86, T4], ids=["x86", "t4"])
def test_noise_falls_where_channels_are_unlike(device: Profile, tmp_path: Path) -> None:
    """And the model computes the same to the bit in float."""
    bench = Bench(NETWORK, device, tmp_path)
    done = bench.done()
    assert done.repair is not None
    assert done.repair.regions == ("a", "c")
    assert done.repair.after > done.repair.before + 6
    assert bench.sqnr(done.model, done.sketches) > bench.sqnr(bench.model, bench.sketches) + 6
    [error] = Trial.of(bench.model, list(images(100)), {}).errors(done.model)
    assert error.noise == 0.0


def test_ranges_are_those_of_the_new_model(tmp_path: Path) -> None:
    """Of what the layers hand on; the input's stay."""
    bench = Bench(NETWORK, X86, tmp_path)
    done = bench.done()
    values = watched_values(done.model, bench.target.regions(done.model))
    anew = collect(done.model, values, bench.samples).sketches
    for value in values:
        assert (done.sketches[value].minimum, done.sketches[value].maximum) == (
            anew[value].minimum,
            anew[value].maximum,
        )
    assert done.sketches["r"].maximum != bench.sketches["r"].maximum
    assert done.sketches["x"] is bench.sketches["x"]


def test_alike_channels_are_left_alone(tmp_path: Path) -> None:
    """The same model comes back."""
    alike = Network(TEXT, {"w": normal(8, 8, 3, 3), "b": normal(8, seed=1), "v": normal(8, 8, 3, 3, seed=2)})
    bench = Bench(alike, X86, tmp_path)
    done = bench.done()
    assert done.repair is None
    assert done.model is bench.model
    assert done.sketches is bench.sketches


def test_what_the_outputs_do_not_confirm_is_dropped(tmp_path: Path) -> None:
    """The formula promises much, but a curve that is flat there throws all noise away."""
    text = TEXT.replace("y = Conv(r, v)", "u = Conv(r, v) s = Add(u, far) y = HardSigmoid(s)")
    bench = Bench(Network(text, {**CONSTANTS, "far": np.float32(1e4)}), X86, tmp_path)
    assert bench.done().repair is None

"""Probes: what the instrumented copy reports, and that every element of a value has the same chance to be seen."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.calibrate.instrument import OFFSETS, SUBSAMPLE, Instrumented, _lattice_steps, instrument
from tests.targets.networks import Feed, Network, normal, run

IDENTITY = "net (float[{0}] x) => (float[{0}] y) {{ y = Neg(x) }}"


def probed(made: Instrumented, feed: Feed, *offsets: int) -> Feed:
    """Outputs of the instrumented copy; missing offsets are 0."""
    drawn = np.array([*offsets, *[0] * (OFFSETS - len(offsets))], np.int64)
    return run(ir.serialize(made.model), {**feed, made.offsets: drawn})


@pytest.mark.parametrize("shape", ["3,4", "N,4", "", "1,1,1,1,1,1,1,2,6", "1,40,30,20"])
def test_a_probe_reports_extremes_and_sum(tmp_path: Path, shape: str) -> None:
    """Of values of fixed, dynamic, no, more than eight and many dimensions, as numpy has them."""
    sizes = [3 if part == "N" else int(part) for part in shape.split(",") if part]
    x = np.asarray(normal(*sizes))
    made = instrument(Network(IDENTITY.format(shape).replace("[]", "")).load(tmp_path), ["x", "y"])
    found = probed(made, {"x": x})
    for probe, value in zip(made.probes, (x, -x), strict=True):
        assert found[probe.maximum] == value.max()
        assert found[probe.minimum] == value.min()
        assert found[probe.sum] == pytest.approx(value.sum(), rel=1e-4, abs=1e-3)
        assert 0 < found[probe.subsample].size <= SUBSAMPLE
        assert np.isin(found[probe.subsample], value).all()


def test_the_models_own_outputs_come_first_and_unchanged(tmp_path: Path) -> None:
    """The copy computes what the model does; the model itself is left alone."""
    network = Network("net (float[2,3] x) => (float[2,3] b, float[2,3] a) { a = Relu(x) b = Neg(a) }")
    model = network.load(tmp_path)
    before = ir.fingerprint(model)
    made = instrument(model, ["a", "b"])
    found = probed(made, {"x": normal(2, 3)})
    assert list(found)[:2] == ["b", "a"]
    for name, value in network.run({"x": normal(2, 3)}).items():
        np.testing.assert_array_equal(found[name], value)
    assert ir.fingerprint(model) == before


@pytest.mark.parametrize("shape", [(1, 5000), (3, 100, 61), (2, 70, 9, 9), (16385,)])
def test_all_offsets_together_see_every_element_once(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """The subsamples of a fixed shape are a partition: no element is out of reach, none counts twice."""
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    made = instrument(Network(IDENTITY.format(",".join(map(str, shape)))).load(tmp_path), ["x"])
    steps = _lattice_steps(list(shape))
    seen = [
        probed(made, {"x": x}, *offsets)[made.probes[0].subsample].ravel()
        for offsets in itertools.product(*(range(step) for step in steps))
    ]
    assert len(seen) > 1
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), x.ravel())


def test_offsets_see_every_element_of_a_shape_known_at_run_time(tmp_path: Path) -> None:
    """10,000 elements: every third one, from each of three places."""
    x = np.arange(10000, dtype=np.float32).reshape(100, 100)
    made = instrument(Network(IDENTITY.format("N,M")).load(tmp_path), ["x"])
    seen = [probed(made, {"x": x}, offset)[made.probes[0].subsample] for offset in range(3)]
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), x.ravel())


def test_offsets_may_be_any_number(tmp_path: Path) -> None:
    """They are taken modulo the step, the largest int64 too."""
    x = np.arange(5000, dtype=np.float32)
    made = instrument(Network(IDENTITY.format("5000")).load(tmp_path), ["x"])
    found = probed(made, {"x": x}, np.iinfo(np.int64).max)[made.probes[0].subsample]
    np.testing.assert_array_equal(found, x[1::2])


def test_the_lattice_thins_the_longest_axes() -> None:
    """At most SUBSAMPLE elements are left, at least a quarter of that, and small values are kept whole."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        shape = [int(size) for size in rng.integers(1, 60, rng.integers(1, 6))]
        steps = _lattice_steps(shape)
        kept = math.prod(-(-size // step) for size, step in zip(shape, steps, strict=True))
        assert kept <= SUBSAMPLE
        if math.prod(shape) <= SUBSAMPLE:
            assert steps == [1] * len(shape)
        else:
            assert kept > SUBSAMPLE // 4
    assert _lattice_steps([1, 3, 640, 640])[:2] == [1, 1]


def test_names_of_the_model_are_left_to_it(tmp_path: Path) -> None:
    """A model may use the names that probes would take."""
    text = """net (float[4] probe_offsets) => (float[4] probe_constant) {
        probe_0 = Relu(probe_offsets)  probe_constant = Neg(probe_0)
    }"""
    made = instrument(Network(text).load(tmp_path), ["probe_offsets", "probe_0"])
    found = probed(made, {"probe_offsets": np.array([1, -2, 3, 4], np.float32)})
    np.testing.assert_array_equal(found["probe_constant"], [-1, 0, -3, -4])
    assert [float(found[probe.minimum]) for probe in made.probes] == [-2, 0]

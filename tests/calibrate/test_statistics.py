"""Statistics of activations: exact where they are said to be exact, close where they are sampled, small in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from infer_opt.calibrate.instrument import SUBSAMPLE
from infer_opt.calibrate.runner import RunError
from infer_opt.calibrate.statistics import Statistics, collect
from infer_opt.cli.resident import resident_bytes
from infer_opt.errors import InputError
from tests.targets.networks import Feed, Feeds, Network, normal

ROOT = Path(__file__).parents[2]
RELU = Network("net (float[N,C] x) => (float[N,C] y) { y = Relu(x) }")
SECOND_HALF = Network(
    "net (float[1,H] x) => (float[1,K] y) { s = Slice(x, start, end, axis) y = Neg(s) }",
    {"start": np.array([4]), "end": np.array([1 << 40]), "axis": np.array([1])},
)


def found_in(network: Network, values: list[str], feeds: list[Feed], folder: Path, seed: int = 0) -> Statistics:
    """What `collect` finds."""
    return collect(network.load(folder), values, Feeds(feeds), seed=seed)


def whole_numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Small integers as float32: sums and products of them are exact in any order."""
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


def test_extremes_of_every_value_are_exact(tmp_path: Path) -> None:
    """Inputs, inner values and outputs of a small net, over samples of different sizes, against all their elements."""
    network = Network(
        """net (float[N,3,H,W] x, float[N,K] side) => (float[N,5] y) {
            c = Conv<pads=[1,1,1,1]>(x, w, b)  r = Relu(c)  m = MaxPool<kernel_shape=[2,2]>(r)
            g = GlobalMaxPool(m)  f = Flatten(g)  p = MatMul(f, v)  s = ReduceSum<keepdims=1>(side, one)  y = Add(p, s)
        }""",
        {"w": whole_numbers(4, 3, 3, 3), "b": whole_numbers(4), "v": whole_numbers(4, 5), "one": np.array([1])},
    )
    feeds = [
        {"x": whole_numbers(n, 3, h, w, seed=n), "side": whole_numbers(n, k, seed=k)}
        for n, h, w, k in [(1, 8, 8, 3), (2, 40, 61, 1), (3, 5, 90, 7)]
    ]
    values = ["x", "side", "c", "r", "m", "g", "p", "s", "y"]
    sketches = found_in(network, values, feeds, tmp_path).sketches
    truth = [network.every_value(feed) for feed in feeds]
    assert list(sketches) == values
    for name, sketch in sketches.items():
        assert sketch.minimum == min(sample[name].min() for sample in truth), name
        assert sketch.maximum == max(sample[name].max() for sample in truth), name
        assert (sketch.samples, sketch.nans, sketch.infinities) == (3, 0, 0)
        widest = [np.abs(sample[name]).max() for sample in truth]
        assert sketch.widest_sample == int(np.argmax(widest))


@pytest.mark.parametrize("size", [8, 30_000])
def test_nan_and_infinities_are_counted_and_left_out(tmp_path: Path, size: int) -> None:
    """All of them, also those that the subsample misses; extremes and histogram hold finite numbers only."""
    feeds = []
    for seed in range(3):
        x = normal(1, size, seed=seed)
        x[0, :4] = np.nan, np.inf, -np.inf, np.nan
        feeds.append({"x": x})
    statistics = found_in(SECOND_HALF, ["x", "s", "y"], feeds, tmp_path)
    x, s = statistics.sketches["x"], statistics.sketches["s"]
    finite = np.concatenate([feed["x"][np.isfinite(feed["x"])] for feed in feeds])
    assert (x.nans, x.infinities) == (6, 6)
    assert (x.minimum, x.maximum) == (finite.min(), finite.max())
    assert (s.nans, s.infinities) == (0, 0)
    assert x.count <= 3 * SUBSAMPLE
    assert statistics.dirty_samples == [f"memory sample {index}: `x`" for index in range(3)]


def test_a_value_without_a_finite_element_has_no_extremes(tmp_path: Path) -> None:
    """Nothing is made up for a value that is NaN throughout."""
    feed = {"x": np.array([[np.nan] * 4 + [1, 2]], np.float32)}
    network = Network(
        "net (float[1,H] x) => (float[1,K] y) { y = Slice(x, e, z, o) s = Slice(x, o0, e, o) t = Neg(s) }",
        {"e": np.array([4]), "z": np.array([9]), "o": np.array([1]), "o0": np.array([0])},
    )
    sketch = found_in(network, ["t"], [feed], tmp_path).sketches["t"]
    assert (sketch.minimum, sketch.maximum, sketch.count, sketch.nans) == (np.inf, -np.inf, 0, 4)


def test_padding_with_minus_infinity_is_not_a_value_of_the_net(tmp_path: Path) -> None:
    """Exporters pad before a MaxPool so: 40 of 64 elements are -inf, and the range is that of the others."""
    network = Network(
        "net (float[1,1,6,4] x) => (float[1,1,7,7] y) { p = Pad(x, by, low) y = MaxPool<kernel_shape=[2,2]>(p) }",
        {"by": np.array([0, 0, 1, 2, 0, 0, 1, 2]), "low": np.array(-np.inf, np.float32)},
    )
    feeds: list[Feed] = [{"x": normal(1, 1, 6, 4, seed=seed)} for seed in range(2)]
    found = found_in(network, ["p"], feeds, tmp_path)
    everything = np.concatenate([feed["x"] for feed in feeds])
    sketch = found.sketches["p"]
    assert sketch.infinities == 2 * 40
    assert (sketch.minimum, sketch.maximum) == (everything.min(), everything.max())
    assert found.dirty_samples == []


def test_sums_beyond_float32_are_no_fault(tmp_path: Path) -> None:
    """Large finite elements overflow the sum that looks for NaN; the value is finite all the same."""
    feed = {"x": np.full((2, 8), 3e38, np.float32)}
    sketch = found_in(RELU, ["x"], [feed], tmp_path).sketches["x"]
    assert (sketch.minimum, sketch.nans, sketch.infinities) == (np.float32(3e38), 0, 0)


@pytest.mark.parametrize("opset", [13, 18, 20, 21])
def test_empty_values_are_samples_without_elements(tmp_path: Path, opset: int) -> None:
    """A Slice of length 0 has no extremes; a sample of size 0 among others changes nothing but the count."""
    network = Network(
        "net (float[N,C] x) => (float[N,C] y) { e = Slice(x, zero, zero, zero) q = Relu(e) y = Relu(x) }",
        {"zero": np.array([0])},
        opset,
    )
    feeds: list[Feed] = [{"x": normal(rows, 4, seed=rows)} for rows in (3, 0, 5)]
    sketches = found_in(network, ["x", "e"], feeds, tmp_path).sketches
    full = np.concatenate([feed["x"] for feed in feeds])
    assert (sketches["e"].minimum, sketches["e"].maximum) == (np.inf, -np.inf)
    assert (sketches["e"].count, sketches["e"].samples) == (0, 3)
    assert (sketches["x"].minimum, sketches["x"].maximum) == (full.min(), full.max())
    assert (sketches["x"].count, sketches["x"].samples) == (32, 3)


@pytest.mark.parametrize("dimensions", ["8,50,70", "N,M,K"])
def test_the_histogram_is_that_of_the_whole_data(tmp_path: Path, dimensions: str) -> None:
    """Of 224,000 normal numbers the subsample knows every quantile within the Dvoretzky-Kiefer-Wolfowitz bound.

    P(sup |F_n - F| > sqrt(ln(2 / a) / 2n)) <= a; here a = 0.001, and the state is the same for the same seed.
    """
    network = Network(f"net (float[{dimensions}] x) => (float[{dimensions}] y) {{ y = Relu(x) }}")
    feeds: list[Feed] = [{"x": normal(8, 50, 70, seed=seed)} for seed in range(8)]
    sketch = found_in(network, ["x"], feeds, tmp_path).sketches["x"]
    whole, _ = np.histogram(np.concatenate([feed["x"] for feed in feeds]), sketch.edges())
    assert whole.sum() == 224_000
    assert SUBSAMPLE * 8 * 0.5 < sketch.count <= SUBSAMPLE * 8
    gap = np.abs(np.cumsum(sketch.histogram) / sketch.count - np.cumsum(whole) / whole.sum()).max()
    assert gap < np.sqrt(np.log(2 / 0.001) / (2 * sketch.count))


def test_every_channel_has_its_share_of_the_histogram(tmp_path: Path) -> None:
    """Channels that differ are all seen, within a quarter of an equal share over 64 samples."""
    network = Network("net (float[1,64,48,48] x) => (float[1,64,48,48] y) { y = Relu(x) }")
    x = np.broadcast_to(np.arange(1, 65, dtype=np.float32).reshape(1, 64, 1, 1), (1, 64, 48, 48)).copy()
    sketch = found_in(network, ["x"], [{"x": x}] * 64, tmp_path).sketches["x"]
    counts, _ = np.histogram(np.repeat(sketch.edges()[:-1], sketch.histogram), np.arange(1, 66))
    np.testing.assert_allclose(counts, sketch.count / 64, rtol=0.25)


def test_the_seed_decides_what_is_sampled(tmp_path: Path) -> None:
    """The same seed gives the same bytes; another one another subsample of the same data."""
    feeds: list[Feed] = [{"x": normal(100, 90, seed=seed)} for seed in range(2)]
    states = [found_in(RELU, ["x"], feeds, tmp_path, seed).sketches["x"].to_arrays() for seed in (0, 0, 1)]
    np.testing.assert_equal(states[0], states[1])
    np.testing.assert_equal(states[0]["extremes"], states[2]["extremes"])
    assert (states[0]["histogram"] != states[2]["histogram"]).any()


@pytest.mark.parametrize(("bad", "what"), [(np.nan, "2 elements"), (np.inf, "2 elements")])
def test_a_bad_sample_that_reaches_an_output_is_an_error(tmp_path: Path, bad: float, what: str) -> None:
    """Named: the sample, the input and how much of it, and the output."""
    good, broken = normal(2, 4), normal(2, 4)
    broken[0, :2] = bad
    with pytest.raises(InputError) as caught:
        found_in(RELU, ["y"], [{"x": good}, {"x": broken}], tmp_path)
    assert caught.value.message == f"memory sample 1: NaN or Inf in input `x` ({what}) reaches output `y`"
    assert caught.value.hint == "remove the sample, or mend the preprocessing that made it"


def test_infinite_outputs_of_clean_samples_are_the_models_own(tmp_path: Path) -> None:
    """A model that computes 1 / 0 is not the fault of its samples."""
    network = Network("net (float[N] x) => (float[N] y) { y = Reciprocal(x) }")
    found = found_in(network, ["y"], [{"x": np.array([0, 2], np.float32)}], tmp_path)
    assert found.dirty_samples == []
    assert (found.sketches["y"].infinities, found.sketches["y"].maximum) == (1, 0.5)


def test_a_sample_that_does_not_run_is_named(tmp_path: Path) -> None:
    """With the node that refuses it."""
    network = Network(
        "net (float[N,C] x) => (float[N,C] y) { [add] y = Add(x, c) }", {"c": np.ones((1, 3), np.float32)}
    )
    with pytest.raises(RunError, match=r"the model fails on memory sample 1: node `add` \(Add\)"):
        found_in(network, ["y"], [{"x": normal(2, 3)}, {"x": normal(2, 4)}], tmp_path)


def test_extremes_hold_the_subsample_where_two_sessions_round_differently(tmp_path: Path) -> None:
    """The whole of a value whose sum overflows comes from a second session, in which onnxruntime fuses Conv and Mul."""
    network = Network(
        "net (float[1,32,9,9] x) => (float[1,32,9,9] y) { c = Conv<pads=[1,1,1,1]>(x, w) r = Mul(c, k) y = Neg(r) }",
        {"w": np.abs(normal(32, 32, 3, 3)), "k": np.abs(normal(1, 32, 1, 1, seed=1)) * np.float32(1e34)},
    )
    feeds: list[Feed] = [{"x": np.abs(normal(1, 32, 9, 9, seed=seed))} for seed in range(8)]
    sketch = found_in(network, ["c", "r"], feeds, tmp_path).sketches["r"]
    truth = [network.every_value(feed)["r"] for feed in feeds]
    assert sketch.count == 8 * 32 * 81
    np.testing.assert_allclose(sketch.minimum, min(value.min() for value in truth), rtol=1e-5)
    np.testing.assert_allclose(sketch.maximum, max(value.max() for value in truth), rtol=1e-5)


def test_each_sample_is_one_step_of_progress(tmp_path: Path) -> None:
    """`advance` is called after each."""
    steps: list[int] = []
    collect(RELU.load(tmp_path), ["y"], Feeds([{"x": normal(1, 2)}] * 5), advance=lambda: steps.append(1))
    assert len(steps) == 5


_MEMORY = """
import sys
import numpy as np
from pathlib import Path
from infer_opt.calibrate.statistics import collect
from infer_opt.cli.resident import resident_bytes
from tests.targets.networks import Lazy, Network

def peak():
    return resident_bytes("VmHWM") / (1 << 20)

layers = "".join(f"v{i + 1} = Conv<pads=[1,1,1,1]>(v{i}, w) " for i in range(40))
network = Network(
    "net (float[1,16,N,128] v0) => (float[1,16,N,128] y) { " + layers + "y = Relu(v40) }",
    {"w": np.full((16, 16, 3, 3), 1 / 144, np.float32)},
)
model = network.load(Path(sys.argv[1]))
make = lambda index: {"v0": np.full((1, 16, 128, 128), index, np.float32)}
names = [f"v{i}" for i in range(41)]
collect(model, ["v40"], Lazy(make, 3))
few = peak()
collect(model, names, Lazy(make, 3))
many_values = peak()
collect(model, names, Lazy(make, 40))
print(many_values - few, peak() - many_values)
"""


@pytest.mark.skipif(resident_bytes("VmHWM") is None, reason="peak memory is read from Linux's /proc")
def test_memory_does_not_grow_with_values_or_samples(tmp_path: Path) -> None:
    """41 watched values of 1 MiB add less than 12 MiB to one; 40 samples add less than 4 MiB to 3."""
    command = [sys.executable, "-c", _MEMORY, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    by_values, by_samples = map(float, done.stdout.split())
    assert by_values < 12
    assert by_samples < 4

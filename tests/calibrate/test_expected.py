"""What the original makes of the samples: how often it runs, and what its failures are."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.expected import Expected
from infer_opt.calibrate.runner import RunError, Runner
from infer_opt.errors import InputError
from tests.targets.networks import Network, normal

NEG = Network("net (float[N] x) => (float[N] y) { y = Neg(x) }")
FIXED = Network("net (float[N] x) => (float[N] y) { [flat] z = Reshape(x, s) y = Neg(z) }", {"s": np.array([3])})


class Counted(Runner):
    """A session that counts its runs."""

    runs = 0

    def run(self, feed: dict[str, np.ndarray], sample: str = "a sample") -> dict[str, np.ndarray]:
        """See `Runner`."""
        self.runs += 1
        return super().run(feed, sample)


def counted(network: Network) -> Counted:
    """A session of a network."""
    return Counted(network.proto().SerializeToString(), "the original")


def test_each_sample_runs_once() -> None:
    """However many candidates ask; samples are told apart by their names."""
    runner = counted(NEG)
    expected = Expected(runner)
    samples = {name: {"x": normal(4, seed=seed)} for seed, name in enumerate(("a", "b", "a with noise"))}
    for _ in range(3):
        for name, feed in samples.items():
            np.testing.assert_array_equal(expected.outputs(feed, name)["y"], -feed["x"])
    assert runner.runs == 3


def test_memory_for_outputs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit runs again: 40 bytes hold 16 and 20, and neither 28 nor 24 more."""
    monkeypatch.setattr("infer_opt.calibrate.expected._MOST_BYTES", 40)
    runner = counted(NEG)
    expected = Expected(runner)
    samples = {str(size): {"x": normal(size)} for size in (4, 5, 7, 6)}
    for name, feed in samples.items():
        expected.outputs(feed, name)
    assert runner.runs == 4
    for name, runs in (("4", 4), ("5", 4), ("7", 5), ("6", 6), ("4", 6)):
        np.testing.assert_array_equal(expected.outputs(samples[name], name)["y"], -samples[name]["x"])
        assert runner.runs == runs


def test_a_failure_of_the_original_is_not_a_candidates() -> None:
    """No RunError: whoever catches those of candidates must not take it for one."""
    with pytest.raises(InputError, match=r"^the original fails on sample 1: node `flat` \(Reshape\)") as caught:
        Expected(counted(FIXED)).outputs({"x": normal(4)}, "sample 1")
    assert not isinstance(caught.value, RunError)
    assert caught.value.hint == "check the model's shapes, and the sample's, against each other"


def test_a_nan_that_reaches_an_output_is_named() -> None:
    """Sample, input and output."""
    with pytest.raises(InputError, match=r"^row 1: NaN or Inf in input `x` \(4 elements\) reaches output `y`$"):
        Expected(counted(NEG)).outputs({"x": np.full(4, np.nan, np.float32)}, "row 1")

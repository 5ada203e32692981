"""Candidates against the original, with real sessions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.calibrate.metrics import EXACT_DB
from infer_opt.calibrate.runner import RunError, Runner
from infer_opt.calibrate.verification import compare
from infer_opt.errors import InputError
from tests.targets.networks import Feed, Network, normal, sqnr

TWO_OUTPUTS = (
    "net (float[N,4] x) => (float[N,3] y, int64[N] top) {{ y = MatMul(x, w) top = ArgMax<axis=1, keepdims=0>({0}) }}"
)
WEIGHT = normal(4, 3)


def runner(network: Network) -> Runner:
    """A session of a network."""
    return Runner(network.proto().SerializeToString(), "the candidate")


def test_errors_are_those_of_all_samples_together() -> None:
    """Each output of each candidate, in the original's order, pooled over samples of different sizes."""
    original = Network(TWO_OUTPUTS.format("y"), {"w": WEIGHT})
    rounded = Network(TWO_OUTPUTS.format("y"), {"w": WEIGHT.round(1)})
    feeds: list[Feed] = [{"x": normal(rows, 4, seed=rows)} for rows in (1, 5, 20)]
    found = compare(runner(original), {"same": runner(original), "rounded": runner(rounded)}, feeds, "sample {}".format)
    assert list(found) == ["same", "rounded"]
    assert [error.name for error in found["rounded"]] == ["y", "top"]
    assert [error.sqnr for error in found["same"]] == [EXACT_DB, EXACT_DB]
    everything = np.concatenate([feed["x"] for feed in feeds])
    y, top = found["rounded"]
    assert y.sqnr == pytest.approx(sqnr(everything @ WEIGHT, everything @ WEIGHT.round(1)), abs=1e-3)
    classes = [(everything @ weight).argmax(1) for weight in (WEIGHT, WEIGHT.round(1))]
    assert y.agreement is None
    assert top.unequal == (classes[0] != classes[1]).sum()


def test_agreement_is_that_of_all_samples_together() -> None:
    """Of a softmax, over feeds of different sizes; rounding to tens changes some of the classes."""
    text = "net (float[N,4] x) => (float[N,3] y) { z = MatMul(x, w) y = Softmax<axis=1>(z) }"
    coarse = WEIGHT.round(0)
    feeds: list[Feed] = [{"x": normal(rows, 4, seed=rows)} for rows in (1, 5, 20)]
    original, rounded = (runner(Network(text, {"w": weight})) for weight in (WEIGHT, coarse))
    [y] = compare(original, {"rounded": rounded}, feeds)["rounded"]
    everything = np.concatenate([feed["x"] for feed in feeds])
    same = (everything @ WEIGHT).argmax(1) == (everything @ coarse).argmax(1)
    assert 0.5 < same.mean() < 1
    assert y.agreement == same.mean()


def test_outputs_are_matched_by_name() -> None:
    """A candidate may give them in another order."""
    original = Network("net (float[2] x) => (float[2] a, float[2] b) { a = Relu(x) b = Neg(x) }")
    swapped = Network("net (float[2] x) => (float[2] b, float[2] a) { a = Relu(x) b = Neg(x) }")
    found = compare(runner(original), {"swapped": runner(swapped)}, [{"x": normal(2)}])
    assert [(error.name, error.sqnr) for error in found["swapped"]] == [("a", EXACT_DB), ("b", EXACT_DB)]


def test_parts_of_a_concat_are_judged_one_by_one(tmp_path: Path) -> None:
    """Scores that are lost show, though large boxes beside them pool to more than 30 dB."""
    text = (
        "net (float[1,4,9] boxes, float[1,2,9] scores) => (float[1,6,9] y) {{"
        " b = Mul(boxes, big) s = Mul(scores, gain) y = Concat<axis=1>(b, s) }}"
    )
    constants = {"big": np.float32(100), "gain": np.float32(1)}
    original = Network(text.format(), constants)
    zeroed = Network(text.format(), constants | {"gain": np.float32(0)})
    feeds: list[Feed] = [{"boxes": normal(1, 4, 9, seed=seed), "scores": normal(1, 2, 9)} for seed in range(2)]
    parts = ir.output_parts(original.load(tmp_path))
    whole, boxes, scores = compare(runner(original), {"zeroed": runner(zeroed)}, feeds, parts=parts)["zeroed"]
    assert [whole.name, boxes.name, scores.name] == ["y", "y[0:4]", "y[4:6]"]
    assert whole.sqnr > 30
    assert boxes.sqnr == EXACT_DB
    assert scores.sqnr == pytest.approx(0.0, abs=1e-6)


def test_a_bad_sample_is_named() -> None:
    """With the input and the output that its NaN reaches."""
    original = Network(TWO_OUTPUTS.format("y"), {"w": WEIGHT})
    feeds: list[Feed] = [{"x": normal(1, 4)}, {"x": np.full((1, 4), np.nan, np.float32)}]
    with pytest.raises(InputError, match=r"^row 1: NaN or Inf in input `x` \(4 elements\) reaches output `y`$"):
        compare(runner(original), {}, feeds, "row {}".format)


def test_a_candidate_that_does_not_run_is_named() -> None:
    """With the sample on which it fails."""
    original = Network("net (float[N] x) => (float[N] y) { y = Neg(x) }")
    fixed = Network("net (float[N] x) => (float[N] y) { [flat] z = Reshape(x, s) y = Neg(z) }", {"s": np.array([3])})
    feeds: list[Feed] = [{"x": normal(3)}, {"x": normal(4)}]
    with pytest.raises(RunError, match=r"^the candidate fails on sample 1: node `flat` \(Reshape\)"):
        compare(runner(original), {"fixed": runner(fixed)}, feeds)


def test_a_candidate_that_fails_on_a_feed_is_left_out_with_the_reason() -> None:
    """The others are compared on every feed; the failures of earlier stages stay."""
    original = Network("net (float[N] x) => (float[N] y) { y = Neg(x) }")
    fixed = Network("net (float[N] x) => (float[N] y) { [flat] z = Reshape(x, s) y = Neg(z) }", {"s": np.array([3])})
    feeds: list[Feed] = [{"x": normal(3)}, {"x": normal(4)}, {"x": normal(3)}]
    failures, steps = {"earlier": "no kernel"}, []
    found = compare(
        runner(original),
        {"fixed": runner(fixed), "same": runner(original)},
        feeds,
        "row {}".format,
        failures=failures,
        advance=lambda: steps.append(1),
    )
    assert list(found) == ["same"]
    assert (found["same"][0].elements, found["same"][0].sqnr) == (10, EXACT_DB)
    assert list(failures) == ["earlier", "fixed"]
    assert failures["earlier"] == "no kernel"
    assert failures["fixed"].startswith("the candidate fails on row 1: node `flat` (Reshape): ")
    assert len(steps) == 3


def test_an_original_that_fails_is_nobody_elses_failure() -> None:
    """Also where the failures of candidates are gathered."""
    fixed = Network("net (float[N] x) => (float[N] y) { [flat] z = Reshape(x, s) y = Neg(z) }", {"s": np.array([3])})
    failures: dict[str, str] = {}
    with pytest.raises(RunError, match="node `flat`"):
        compare(runner(fixed), {"fixed": runner(fixed)}, [{"x": normal(4)}], failures=failures)
    assert failures == {}


def test_each_sample_is_one_step_of_progress() -> None:
    """`advance` is called after each."""
    network = Network("net (float[2] x) => (float[2] y) { y = Neg(x) }")
    steps: list[int] = []
    compare(runner(network), {}, [{"x": normal(2)}] * 4, advance=lambda: steps.append(1))
    assert len(steps) == 4

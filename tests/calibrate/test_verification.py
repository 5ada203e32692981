"""Candidates against the original, with real sessions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.expected import Expected
from infer_opt.calibrate.metrics import EXACT_DB, METRICS, OutputError
from infer_opt.calibrate.runner import RunError, Runner
from infer_opt.calibrate.verification import compare
from infer_opt.errors import InputError
from tests.targets.networks import Feed, Network, normal, sqnr

TWO_OUTPUTS = Network(
    "net (float[N,4] x) => (float[N,3] y, int64[N] top) { y = MatMul(x, w) top = ArgMax<axis=1, keepdims=0>(y) }",
    {"w": normal(4, 3)},
)
WEIGHT = TWO_OUTPUTS.constants["w"]
NEG = Network("net (float[N] x) => (float[N] y) { y = Neg(x) }")
FIXED = Network("net (float[N] x) => (float[N] y) { [flat] z = Reshape(x, s) y = Neg(z) }", {"s": np.array([3])})


def runner(network: Network) -> Runner:
    """A session of a network."""
    return Runner(network.proto().SerializeToString(), "the candidate")


def compared(original: Network, candidate: Network, feeds: Iterable[Feed], **options: Any) -> list[OutputError]:
    """Errors of the candidate."""
    return compare(Expected(runner(original)), runner(candidate), feeds, **options)


def test_errors_are_those_of_all_samples_together() -> None:
    """Each output, in the original's order, pooled over samples of different sizes."""
    rounded = replace(TWO_OUTPUTS, constants={"w": WEIGHT.round(1)})
    feeds: list[Feed] = [{"x": normal(rows, 4, seed=rows)} for rows in (1, 5, 20)]
    assert [error.sqnr for error in compared(TWO_OUTPUTS, TWO_OUTPUTS, feeds)] == [EXACT_DB, EXACT_DB]
    everything = np.concatenate([feed["x"] for feed in feeds])
    y, top = compared(TWO_OUTPUTS, rounded, feeds)
    assert (y.name, top.name) == ("y", "top")
    assert y.sqnr == pytest.approx(sqnr(everything @ WEIGHT, everything @ WEIGHT.round(1)), abs=1e-3)
    classes = [(everything @ weight).argmax(1) for weight in (WEIGHT, WEIGHT.round(1))]
    assert y.kind.name == "numbers"
    assert top.unequal == (classes[0] != classes[1]).sum()


def test_agreement_is_that_of_all_samples_together() -> None:
    """Of a softmax, over feeds of different sizes; rounding to tens changes some of the classes."""
    text = "net (float[N,4] x) => (float[N,3] y) { z = MatMul(x, w) y = Softmax<axis=1>(z) }"
    coarse = WEIGHT.round(0)
    feeds: list[Feed] = [{"x": normal(rows, 4, seed=rows)} for rows in (1, 5, 20)]
    [y] = compared(Network(text, {"w": WEIGHT}), Network(text, {"w": coarse}), feeds)
    everything = np.concatenate([feed["x"] for feed in feeds])
    same = (everything @ WEIGHT).argmax(1) == (everything @ coarse).argmax(1)
    assert 0.5 < same.mean() < 1
    assert (y.kind.name, y.drop) == ("class scores", (~same).mean())


def test_outputs_are_matched_by_name() -> None:
    """A candidate may give them in another order."""
    original = Network("net (float[2] x) => (float[2] a, float[2] b) { a = Relu(x) b = Neg(x) }")
    swapped = Network("net (float[2] x) => (float[2] b, float[2] a) { a = Relu(x) b = Neg(x) }")
    found = compared(original, swapped, [{"x": normal(2)}])
    assert [(error.name, error.sqnr) for error in found] == [("a", EXACT_DB), ("b", EXACT_DB)]


JOINED = Network(
    "net (float[1,4,9] boxes, float[1,2,9] scores) => (float[1,6,9] y) {"
    " b = Mul(boxes, big) s = Mul(scores, gain) y = Concat<axis=1>(b, s) }",
    {"big": np.float32(100), "gain": np.float32(1)},
)


def test_parts_of_a_concat_are_judged_in_place_of_the_whole(tmp_path: Path) -> None:
    """Scores that are lost show, though large boxes beside them pool to more than 30 dB."""
    zeroed = replace(JOINED, constants=JOINED.constants | {"gain": np.float32(0)})
    feeds: list[Feed] = [{"boxes": normal(1, 4, 9, seed=seed), "scores": normal(1, 2, 9)} for seed in range(2)]
    parts = ir.output_parts(JOINED.load(tmp_path))
    whole, boxes, scores = found = compared(JOINED, zeroed, feeds, parts=parts)
    assert [(error.name, error.judged) for error in found] == [("y", False), ("y[0:4]", True), ("y[4:6]", True)]
    assert whole.sqnr > 30
    assert boxes.sqnr == EXACT_DB
    assert scores.sqnr == pytest.approx(0.0, abs=1e-6)
    assert Budget().refuses(found) == "output `y[4:6]` keeps 0.0 dB at axis 1, index 0, under 20 dB"


def test_each_part_is_of_a_kind_of_its_own(tmp_path: Path) -> None:
    """Boxes are numbers, and scores beside them are shares."""
    scores = (normal(1, 2, 9) > 0).astype(np.float32)
    feeds: list[Feed] = [{"boxes": normal(1, 4, 9), "scores": scores}]
    whole, *found = compared(JOINED, JOINED, feeds, parts=ir.output_parts(JOINED.load(tmp_path)))
    assert [error.kind.name for error in found] == ["numbers", "shares"]
    assert whole.drop is None


def test_a_bad_sample_is_named() -> None:
    """With the input and the output that its NaN reaches."""
    feeds: list[Feed] = [{"x": normal(1, 4)}, {"x": np.full((1, 4), np.nan, np.float32)}]
    with pytest.raises(InputError, match=r"^row 1: NaN or Inf in input `x` \(4 elements\) reaches output `y`$"):
        compared(TWO_OUTPUTS, TWO_OUTPUTS, feeds, describe="row {}".format)


def test_a_candidate_that_does_not_run_is_named() -> None:
    """With the sample on which it fails."""
    feeds: list[Feed] = [{"x": normal(3)}, {"x": normal(4)}]
    with pytest.raises(RunError, match=r"^the candidate fails on sample 1: node `flat` \(Reshape\)"):
        compared(NEG, FIXED, feeds)


def test_an_original_that_fails_is_nobody_elses_failure() -> None:
    """It is the user's model or sample, and no candidate's."""
    with pytest.raises(InputError, match="node `flat`") as caught:
        compared(FIXED, NEG, [{"x": normal(4)}])
    assert not isinstance(caught.value, RunError)


def test_each_sample_is_one_step_of_progress() -> None:
    """`advance` is called after each."""
    steps: list[int] = []
    compared(NEG, NEG, [{"x": normal(2)}] * 4, advance=lambda: steps.append(1))
    assert len(steps) == 4


LSTM = Network(
    "net (float[1,1,4] x, float[1,1,3] h, float[1,1,3] c) => (float[1,1,1,3] y, float[1,1,3] hn, float[1,1,3] cn) {"
    " c0 = Mul(c, taken) y, hn, c1 = LSTM<hidden_size=3>(x, w, r, , , h, c0) cn = Mul(c1, given) }",
    {"w": normal(1, 12, 4), "r": normal(1, 12, 3, seed=1), "taken": np.float32(1), "given": np.float32(1)},
)
NOTHING = np.zeros((1, 1, 3), np.float32)
STATE = {"hn": "h", "cn": "c"}


def later(taken: float, given: float, start: np.ndarray = NOTHING) -> list[OutputError]:
    """A candidate that scales the state it takes and gives, against the original, over three samples."""
    scaled = replace(LSTM, constants=LSTM.constants | {"taken": np.float32(taken), "given": np.float32(given)})
    feeds: list[Feed] = [{"x": normal(1, 1, 4, seed=seed), "h": NOTHING, "c": start} for seed in range(3)]
    return compare(Expected(runner(LSTM), STATE), runner(scaled), feeds)


def test_a_state_of_another_form_is_right_if_later_outputs_are() -> None:
    """Twice as large, and halved when it is taken: nothing that anybody sees."""
    y, hn, cn = found = later(0.5, 2)
    assert cn.sqnr == pytest.approx(0.0, abs=1e-5)
    assert (y.elements, hn.elements, cn.elements) == (18, 9, 9)  # y of two runs, the state of one
    assert y.sqnr > 120
    assert [error.judged for error in found] == [True, False, False]
    assert Budget().refuses(found) is None
    assert Budget().collapses(found) == []


def test_a_state_is_wrong_if_later_outputs_are() -> None:
    """The first run is exact: the error comes with the state that it left."""
    found = later(1, 2)
    reason = Budget().refuses(found)
    assert reason is not None
    assert reason.startswith("output `y` keeps ")
    first = compared(
        LSTM,
        replace(LSTM, constants=LSTM.constants | {"given": np.float32(2)}),
        [{"x": normal(1, 1, 4), "h": NOTHING, "c": NOTHING}],
    )
    assert first[0].sqnr == EXACT_DB


def test_later_outputs_are_those_of_two_steps() -> None:
    """Against the network run by hand, from the state that each left."""
    doubled = replace(LSTM, constants=LSTM.constants | {"given": np.float32(2)})
    signal = noise = 0.0
    for seed in range(3):
        feed: Feed = {"x": normal(1, 1, 4, seed=seed), "h": NOTHING, "c": NOTHING}
        both = [(LSTM, feed), (doubled, feed)]
        for _ in range(2):
            wanted, got = (network.run(given) for network, given in both)
            signal += float(np.square(wanted["y"], dtype=np.float64).sum())
            noise += float(np.square(wanted["y"].astype(np.float64) - got["y"]).sum())
            both = [
                (network, {"x": feed["x"], "h": left["hn"], "c": left["cn"]})
                for (network, _), left in zip(both, (wanted, got), strict=True)
            ]
    assert later(1, 2)[0].sqnr == pytest.approx(10 * np.log10(signal / noise), abs=1e-3)


def test_a_state_that_cannot_be_handed_on_is_left_alone() -> None:
    """Of another shape than the input's: a feed of two rows, whose state is one row. Nothing runs twice."""
    pooled = Network("net (float[N,3] h) => (float[N,3] y, float[M,3] hn) { y = Relu(h) hn = ReduceMean<axes=[0]>(h) }")
    feeds: list[Feed] = [{"h": normal(2, 3)}]
    y, hn = compare(Expected(runner(pooled), {"hn": "h"}), runner(pooled), feeds)
    assert (y.elements, hn.elements) == (6, 3)


def test_a_state_that_is_broken_is_told() -> None:
    """NaN in it is no matter of later outputs; it is not fed to anybody."""
    found = later(1, np.nan)
    assert found[0].elements == 9
    assert Budget().refuses(found) == "output `cn` has NaN or Inf in other places than the original"


def test_detections_are_judged_on_boxes_and_scores_together(tmp_path: Path) -> None:
    """A Concat of both would be judged part by part otherwise, and boxes alone are no detections."""
    text = "net (float[N,4,9] boxes, float[N,2,9] scores) => (float[N,6,9] y) { y = Concat<axis=1>(boxes, scores) }"
    network = Network(text)
    boxes, scores = np.full((1, 4, 9), 8, np.float32), np.zeros((1, 2, 9), np.float32)
    boxes[0, 0], scores[0, 0, :3] = np.arange(9) * 20, 0.9
    parts = ir.output_parts(network.load(tmp_path))
    assert parts
    [y] = compared(network, network, [{"boxes": boxes, "scores": scores}], parts=parts, metric=METRICS["detection"])
    assert (y.kind.name, y.drop, y.kind.words()) == ("detections", 0.0, "F1 1.000 of 3 detections")
    kinds = compared(network, network, [{"boxes": boxes, "scores": scores}], parts=parts, metric=METRICS["sqnr"])
    assert [error.name for error in kinds] == ["y", "y[0:4]", "y[4:6]"]

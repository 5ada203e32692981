"""An early-exit model from the command line: INT8 in both branches, and a word about what no sample takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

from tests.hosts import target_here
from tests.targets.early_exit import EARLY, EARLY_EXIT, LATE, samples
from tests.targets.networks import Feeds, sqnr

NETWORK = ("early_exit.onnx", "--target", target_here(), "--precision", "int8", "--calib", "feeds.npz", "--out", "out")


def prepare(feeds: Feeds) -> None:
    """The model and its samples, in this folder."""
    EARLY_EXIT.save(Path(), "early_exit.onnx")
    np.savez("feeds.npz", x=np.stack([feed["x"] for feed in feeds]))


def regions() -> dict[str, tuple[str, str]]:
    """Precision and reason of every region, by its name."""
    found = json.loads(Path("out/report.json").read_text(encoding="utf-8"))["regions"]
    return {region["name"]: (region["precision"], region["reason"]) for region in found}


def test_both_branches_of_an_early_exit_are_quantized(infer_opt: Callable) -> None:
    """Every layer of the trunk and of both branches, with outputs near the original's whichever way they come."""
    prepare(samples(16, 16))
    ran = infer_opt("compile", *NETWORK)
    assert (ran.code, "warning" in ran.err) == (0, False)
    found = regions()
    for layer in ("trunk", "head", "early_conv", "early_matmul", "late_conv", "deeper", "late_matmul"):
        assert found[layer][0] == "int8", layer
    before, after = (onnxruntime.InferenceSession(path) for path in ("early_exit.onnx", "out/model.onnx"))
    for feed in samples(4, 4):
        assert sqnr(before.run(None, feed)[0], after.run(None, feed)[0]) > 30


def test_a_branch_that_no_calibration_sample_takes_is_named(infer_opt: Callable) -> None:
    """In a warning, and as the reason why its layers stay in float."""
    prepare(samples(16, 0))
    ran = infer_opt("compile", *NETWORK)
    assert ran.code == 0
    assert f"no calibration sample takes `{LATE}`: what stands in it was not quantized" in ran.err
    assert regions()["deeper"] == ("fp32", f"never seen: no calibration sample takes `{LATE}`")
    assert regions()["early_conv"][0] == "int8"


def test_a_branch_that_no_held_out_sample_takes_is_not_verified(infer_opt: Callable) -> None:
    """The last quarter of the samples all leave late."""
    both, late = samples(6, 6), samples(0, 10)
    prepare(Feeds([*both, *late.feed[6:]]))
    ran = infer_opt("compile", *NETWORK)
    assert ran.code == 0
    assert f"no held-out sample takes `{EARLY}`: its INT8 was not verified" in ran.err
    assert LATE not in ran.err
    assert regions()["early_conv"][0] == "int8"


def test_sensitivity_is_measured_in_a_branch_that_is_seldom_taken(infer_opt: Callable) -> None:
    """One of 24 samples leaves early; its layers have an error and times all the same."""
    late, early = samples(0, 31), samples(1, 0)
    prepare(Feeds([*late.feed[:5], *early.feed, *late.feed[5:]]))
    options = ("--target", target_here(), "--calib", "feeds.npz", "--json")
    table = infer_opt("sensitivity", "early_exit.onnx", *options).json
    [found] = [group for group in table["groups"] if "early_conv" in group["regions"]]
    assert min(found["sqnr_db"].values()) < 100

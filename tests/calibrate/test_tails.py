"""Tails: a change is tried on the shortest end of the model that holds it, with the same result as on the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.calibrate import tails
from infer_opt.calibrate.sensitivity import Trial
from infer_opt.calibrate.tails import Tails
from infer_opt.targets.qdq import write_qdq
from tests.targets.early_exit import EARLY_EXIT, samples
from tests.targets.networks import Network, for_any_host, int8_plan, normal, uniform_feeds

X86 = for_any_host("x86-avx512-vnni")
IMAGES = uniform_feeds(4, {"x": (1, 8, 8, 8)})
DEEP = Network(
    "net (float[1,8,8,8] x) => (float[] y) {"
    + " ".join(
        f"[conv{index}] c{index} = Conv<pads=[1,1,1,1]>({f'r{index - 1}' if index else 'x'}, w{index}) "
        f"[relu{index}] {'y' if index == 11 else f'r{index}'} = Relu(c{index})"
        for index in range(12)
    )
    + "}",
    {f"w{index}": normal(8, 8, 3, 3, seed=index, scale=0.15) for index in range(12)},
)


def test_a_late_group_runs_on_a_short_tail(tmp_path: Path) -> None:
    """The later, the fewer nodes; each tail gives the noise that the whole model shows."""
    model = DEEP.load(tmp_path)
    plan = int8_plan(model, X86, IMAGES)
    trial = Trial.of(model, list(IMAGES), ir.output_parts(model))
    found = Tails(model, trial, plan.regions)
    lengths = []
    for index in range(12):
        names = [f"conv{index}"]
        tail = found.of(names)
        lengths.append(len(list(tail.model.graph)))
        [part] = tail.trial.errors(write_qdq(tail.model, plan.only(names)))
        [whole] = trial.errors(write_qdq(model, plan.only(names)))
        assert part.noise == pytest.approx(whole.noise, rel=1e-3)
        assert part.signal == pytest.approx(whole.signal, rel=1e-6)
    assert lengths == sorted(lengths, reverse=True)
    assert (lengths[0], len(set(lengths))) == (24, 9)
    assert lengths[-1] <= 4


def test_tails_share_what_is_equal(tmp_path: Path) -> None:
    """The outputs that a tail expects are the arrays that are kept anyway."""
    model = DEEP.load(tmp_path)
    trial = Trial.of(model, list(IMAGES), ir.output_parts(model))
    tail = Tails(model, trial, int8_plan(model, X86, IMAGES).regions).of(["conv11"])
    for kept, made in zip(trial.outputs, tail.trial.outputs, strict=True):
        assert kept["y"] is made["y"] or not np.array_equal(kept["y"], made["y"])


def test_what_is_kept_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more would have to be kept than is allowed, everything runs on the whole model."""
    monkeypatch.setattr(tails, "_MOST_BYTES", 1 << 10)
    model = DEEP.load(tmp_path)
    trial = Trial.of(model, list(IMAGES), ir.output_parts(model))
    assert Tails(model, trial, int8_plan(model, X86, IMAGES).regions).of(["conv11"]).model is model


def test_what_stands_in_a_branch_runs_on_the_whole_model(tmp_path: Path) -> None:
    """A branch belongs to the node that carries it, which may need all of the model."""
    model = EARLY_EXIT.load(tmp_path)
    feeds = samples(early=2, late=2)
    plan = int8_plan(model, X86, feeds)
    trial = Trial.of(model, list(feeds), ir.output_parts(model))
    found = Tails(model, trial, plan.regions)
    inside = [region.name for region in plan.regions if region.scope]
    assert inside
    assert all(found.of([name]).model is model for name in inside)

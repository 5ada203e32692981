"""Sensing that begins again: a journal answers for what it holds, and for nothing that it was not asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir, targets
from infer_opt.calibrate.deadline import Deadline
from infer_opt.calibrate.progress import Silent, Stages
from infer_opt.calibrate.sensing import Means, Sensed, sense_plans
from infer_opt.calibrate.sensitivity import Trial
from tests.targets.networks import Network, int8_plan, normal, profile, uniform_feeds

ARM = profile("arm-a78")  # not timed here
IMAGES = uniform_feeds(8, {"x": (1, 8, 8, 8)})
CHAIN = Network(
    """net (float[1,8,8,8] x) => (float[] y) {
        [one] a = Conv(x, w1) [r1] b = Relu(a) [two] c = Conv(b, w2) [r2] d = Relu(c) [three] y = Conv(d, w3) }""",
    {name: normal(8, 8, 1, 1, seed=seed) for seed, name in enumerate(("w1", "w2", "w3"))},
)


class Killed(Exception):  # noqa: N818 - what ends a run, and no error of it
    """The run ends here."""


class Sensing:
    """The chain, sensed with a cache folder; tells what was run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cache = folder / "cache"
        self.model = CHAIN.load(folder)
        self.plan = int8_plan(self.model, ARM, IMAGES)
        self.trial = Trial.of(self.model, list(IMAGES), ir.output_parts(self.model))
        self.runs = 0
        self.killed_before: int | None = None
        errors = Trial.last_errors

        def counted(trial: Trial, model: ir.Model) -> object:
            if self.runs == self.killed_before:
                raise Killed
            self.runs += 1
            return errors(trial, model)

        monkeypatch.setattr(Trial, "last_errors", counted)

    def run(
        self, setting: str = "", trial: Trial | None = None, deadline: Deadline | None = None
    ) -> tuple[int, Sensed]:
        """How many groups were run, and what was found."""
        self.runs = 0
        means = Means(cache=self.cache, setting=setting, deadline=deadline or Deadline())
        target = targets.create(ARM)
        found = sense_plans(target, self.model, [self.plan], trial or self.trial, Stages(Silent()), means)
        return self.runs, found

    @property
    def journal(self) -> Path:
        """The one file of the cache."""
        [file] = self.cache.iterdir()
        return file


@pytest.fixture
def sensing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sensing:
    """Nothing is known yet."""
    return Sensing(tmp_path, monkeypatch)


def test_a_second_run_measures_nothing(sensing: Sensing) -> None:
    """And finds the same to the last bit."""
    first, second = sensing.run(), sensing.run()
    assert (first[0], second[0]) == (3, 0)
    assert first[1].sensitivity == second[1].sensitivity


def test_a_run_that_was_killed_goes_on(sensing: Sensing) -> None:
    """Only the groups that it had not run are run."""
    sensing.killed_before = 2
    with pytest.raises(Killed):
        sensing.run()
    sensing.killed_before = None
    assert sensing.run()[0] == 1


def test_what_is_known_counts_when_the_time_is_over(sensing: Sensing) -> None:
    """The report is told of what is left out, and of nothing where all was known."""
    sensing.killed_before = 2
    with pytest.raises(Killed):
        sensing.run()
    sensing.killed_before = None
    over = Deadline(0.0)
    runs, found = sensing.run(deadline=over)
    assert (runs, len(found.alternatives), over.cut) == (0, 2, ["some sensitivities"])
    sensing.run()
    over = Deadline(0.0)
    runs, found = sensing.run(deadline=over)
    assert (runs, len(found.alternatives), over.cut) == (0, 3, [])


def test_another_question_is_not_answered(sensing: Sensing) -> None:
    """Of another device or host, other samples, or another model."""
    sensing.run()
    assert sensing.run(setting="another CPU")[0] == 3
    feeds = [{"x": feed["x"] * np.float32(0.5)} for feed in sensing.trial.feeds]
    assert sensing.run(trial=replace(sensing.trial, feeds=feeds))[0] == 3
    sensing.model = replace_weights(sensing.model)
    assert sensing.run()[0] == 3


def replace_weights(model: ir.Model) -> ir.Model:
    """The model with one weight doubled, under the same name."""
    value = model.graph.initializers["w2"]
    value.const_value = ir.tensor(value.const_value.numpy() * np.float32(2), name="w2")
    return model


def test_what_was_changed_in_a_journal_is_measured_again(sensing: Sensing) -> None:
    """A digit of one line, and a whole file of something else."""
    _, found = sensing.run()
    text = sensing.journal.read_text()
    sensing.journal.write_text(text.replace('"powers": {"y": ', '"powers": {"y": 1', 1))
    runs, again = sensing.run()
    assert runs == 1
    assert again.sensitivity == found.sensitivity
    sensing.journal.write_text('{"key": "int8 one", "result": {}}\n')
    assert sensing.run()[0] == 3


def test_a_journal_names_nothing_of_the_machine(sensing: Sensing, tmp_path: Path) -> None:
    """Names of groups, of outputs, and numbers."""
    sensing.run(setting="secret")
    text = sensing.journal.read_text()
    assert "int8 one" in text
    assert "secret" not in text
    assert str(tmp_path) not in text

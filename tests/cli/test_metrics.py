"""`compile --metric` and `--eval`, and what budgets make of them, from the words typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hosts import target_here

TARGET = ("--target", target_here())

TOP1 = """import numpy as np
import onnx
from onnx import numpy_helper

def score(run):
    weight = numpy_helper.to_array(onnx.load("loud.onnx").graph.initializer[0])
    samples = np.load("loud.npz")["x"][:, 0]
    found = run({"x": samples})["y"]
    return (found.argmax(1) == (samples @ weight).argmax(1)).mean()

def same(run):
    return 0.5
"""


@pytest.fixture
def compile_loud(infer_opt: Callable, loud: tuple[str, str]) -> Callable:
    """Compiles the model that INT8 ruins, beside mine.py with scores."""
    Path("mine.py").write_text(TOP1)
    model, samples = loud
    return lambda *words: infer_opt("compile", model, *TARGET, "--calib", samples, "--out", "made", "--json", *words)


def int8(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """The candidate with all in INT8."""
    return next(item for item in report["candidates"] if item["name"] == "int8")


def test_a_metric_judges_what_it_fits(compile_loud: Callable, fits: Callable) -> None:
    """Four numbers a row are scores where the user says so; no drop at all leaves the original's precision, code 0."""
    ran = compile_loud("--metric", "top1", "--max-drop", "0")
    assert ran.code == 0
    fits("report", ran.json)
    [output] = ran.json["outputs"]
    assert output["kind"] == "top classes"
    assert ran.json["chosen"] in {"fp32", "original"}
    assert int8(ran.json)["refused"].startswith("output `y` loses 0.")
    assert int8(ran.json)["refused"].endswith(" of --max-drop 0")


def test_a_metric_that_fits_nothing_is_an_error_before_any_work(compile_loud: Callable) -> None:
    """And no quiet SQNR."""
    ran = compile_loud("--metric", "detection")
    assert (ran.code, ran.out) == (1, "")
    [error, hint] = ran.err.splitlines()[-2:]
    assert error == "error: --metric detection fits no output of `loud.onnx`: `y` float32[1, 4]"
    assert hint.startswith("hint: it takes [n, 4 + classes, places] or [n, places, 4 + classes]")
    assert not Path("made").exists()


def test_a_missed_speed_up_says_what_stands_in_its_way(compile_loud: Callable) -> None:
    """What was reached, the fastest that is right, and what was refused and why."""
    ran = compile_loud("--metric", "top1", "--min-speedup", "50")
    assert ran.code == 3
    error = ran.err.splitlines()[-2]
    assert "x (measured) misses --min-speedup 50; " in error
    assert f"{ran.json['chosen']} is fastest of what is right enough" in error
    assert "int8 was refused: the top class of `y` is lost in " in error


def test_a_score_judges_in_place_of_the_defaults(compile_loud: Callable, fits: Callable) -> None:
    """It falls by more than a hundredth in INT8."""
    ran = compile_loud("--eval", "mine.py:score")
    assert ran.code == 0
    fits("report", ran.json)
    assert ran.json["chosen"] in {"fp32", "original"}
    lost = int8(ran.json)
    assert lost["score"]["original"] == 1.0
    assert lost["score"]["candidate"] < 0.9
    assert lost["refused"] == f"the score falls from 1 to {lost['score']['candidate']:.4g}, by more than 0.01"


def test_where_a_score_does_not_fall_nothing_else_refuses(compile_loud: Callable) -> None:
    """However noisy the outputs are: whoever has a score knows better."""
    ran = compile_loud("--eval", "mine.py:same", "--max-drop", "0")
    assert ran.code == 0
    assert int8(ran.json)["refused"] is None
    assert int8(ran.json)["score"] == {"original": 0.5, "candidate": 0.5}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--eval", "x"), "`x` is no file"),
        (("--eval", "mine.py"), "`mine.py` names no function"),
        (("--eval", "mine.py:scoer"), "`mine.py` has no function `scoer`"),
        (("--eval", "mine.py:score", "--no-verify"), "--eval scores a model that runs here, and nothing is run"),
    ],
)
def test_faults_of_a_score(compile_loud: Callable, words: tuple[str, ...], error: str) -> None:
    """Code 1, before any work."""
    ran = compile_loud(*words)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[-2] == f"error: {error}"


def test_an_error_in_a_score_names_its_line(compile_loud: Callable) -> None:
    """The third of the user's file."""
    Path("bad.py").write_text("def score(run):\n    limits = {}\n    return limits['top']\n")
    ran = compile_loud("--eval", "bad.py:score")
    assert ran.code == 1
    assert ran.err.splitlines()[-2] == "error: `bad.py` line 3: KeyError: 'top'"

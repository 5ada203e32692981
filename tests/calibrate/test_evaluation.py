"""Scores by a function of the user's, of sessions that the test makes up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infer_opt.calibrate.evaluation import Evaluation, Score
from infer_opt.calibrate.runner import RunError
from infer_opt.errors import InputError
from tests.targets.networks import Feed


@dataclass
class Doubler:
    """Gives its input twofold, off by some."""

    off: float = 0.0
    fails: bool = False

    def run(self, feed: Feed, sample: str = "") -> Feed:
        """See `Runner`."""
        if self.fails:
            raise RunError(f"the candidate fails on {sample}", "mend it")
        return {"y": feed["x"] * 2 + self.off}


def evaluation(text: str, folder: Path, name: str = "score") -> Evaluation:
    """Of a file with such a text, scored on the original."""
    (folder / "mine.py").write_text(text)
    original: Any = Doubler()
    return Evaluation.of(f"{folder / 'mine.py'}:{name}", original)


ERROR = """import numpy as np

def score(run):
    print("scoring")
    return -np.abs(run({"x": np.float32([1, 2, 3])})["y"] - [2, 4, 6]).mean()
"""


def test_a_score_is_what_the_function_makes_of_outputs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The original has no error, and the candidate one of a quarter; what is printed goes to stderr."""
    made = evaluation(ERROR, tmp_path)
    candidate: Any = Doubler(off=0.25)
    assert made.original == 0.0
    assert made.score(candidate) == Score(original=0.0, candidate=-0.25)
    assert made.score(candidate).drop == 0.25
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("returned", ["0.5", "np.float32(0.5)", "np.array(0.5)", "np.float64(0.5)"])
def test_any_number_will_do(returned: str, tmp_path: Path) -> None:
    """Of Python or of numpy."""
    assert evaluation(f"import numpy as np\ndef score(run): return {returned}\n", tmp_path).original == 0.5


@pytest.mark.parametrize("returned", ["None", "'high'", "float('nan')", "float('inf')", "[0.5]", "1j"])
def test_what_is_no_number_is_named_with_its_place(returned: str, tmp_path: Path) -> None:
    """The line that the function begins in."""
    with pytest.raises(InputError, match=r"mine\.py` line 2: it returns .*, no number to compare"):
        evaluation(f"\ndef score(run): return {returned}\n", tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def score(run):\n    return run({'x': 1})['z']\n", "mine.py` line 2: KeyError: 'z'"),
        ("def score(run):\n    return helper()\n\ndef helper():\n    1 / 0\n", "mine.py` line 5: ZeroDivisionError"),
        ("def score():\n    return 1\n", "mine.py`: TypeError: score() takes 0 positional arguments"),
        ("import nowhere_at_all\n", "mine.py` line 1: ModuleNotFoundError"),
        ("def other(run):\n    return 1\n", "mine.py` has no function `score`"),
    ],
)
def test_what_the_code_raises_is_named_with_its_line(text: str, reason: str, tmp_path: Path) -> None:
    """Of the user's file, and not of ours."""
    with pytest.raises(InputError) as raised:
        evaluation(text, tmp_path)
    assert reason in raised.value.message
    assert not isinstance(raised.value, RunError)


def test_what_the_original_does_not_run_on_is_the_functions_fault(tmp_path: Path) -> None:
    """What a candidate alone does not run on is the candidate's."""
    (tmp_path / "mine.py").write_text("def score(run):\n    return run({'x': 1})['y']\n")
    broken: Any = Doubler(fails=True)
    with pytest.raises(InputError, match=r"mine\.py` line 2: RunError: .* fails on an input of") as raised:
        Evaluation.of(f"{tmp_path / 'mine.py'}:score", broken)
    assert not isinstance(raised.value, RunError)
    with pytest.raises(RunError, match="the candidate fails on an input of"):
        evaluation("def score(run):\n    return run({'x': 1})['y']\n", tmp_path).score(broken)


@pytest.mark.parametrize("source", ["missing", "missing.py", "missing.py:score", "a:b:c"])
def test_a_file_that_is_not_there_is_named(source: str) -> None:
    """Also where no function is."""
    original: Any = Doubler()
    with pytest.raises(InputError) as raised:
        Evaluation.of(source, original)
    assert raised.value.message == f"`{source.removesuffix(':score').removesuffix(':c')}` is no file"

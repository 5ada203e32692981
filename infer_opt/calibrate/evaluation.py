"""Scores by a function of the user's, `FILE.py:function`, which runs the model on data that only it knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from infer_opt.calibrate.runner import RunError, Runner
from infer_opt.calibrate.user_code import load_function
from infer_opt.errors import InputError, place_of, running_user_code

__all__ = ["Evaluation", "Score"]

_CONTRACT = "it takes `run(inputs) -> outputs`, dicts of arrays by name, and returns a number, higher for better"

Outputs = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Score:
    """What the function gives for a candidate, and gave for the original."""

    original: float
    candidate: float

    @property
    def drop(self) -> float:
        """How much worse the candidate is; negative where it is better."""
        return self.original - self.candidate


@dataclass(frozen=True)
class Evaluation:
    """The function, loaded, and the original's score."""

    source: str
    function: Callable[[Callable[..., Outputs]], object]
    original: float

    @classmethod
    def of(cls, source: str, original: Runner) -> Evaluation:
        """Load the function and score the original.

        Raises:
            InputError: no such file or function, its code raises (with its line), or what it returns is no number.
        """
        function = load_function(source, _CONTRACT)
        return cls(source, function, _score(source, function, original))

    def score(self, candidate: Runner) -> Score:
        """Score a candidate.

        Raises:
            InputError: as `of`.
            RunError: the candidate does not run on what the original ran on.
        """
        return Score(self.original, _score(self.source, self.function, candidate, (RunError,)))


def _score(
    source: str,
    function: Callable[[Callable[..., Outputs]], object],
    runner: Runner,
    answers: tuple[type[Exception], ...] = (),
) -> float:
    def run(inputs: Mapping[str, np.ndarray[Any, Any]]) -> Outputs:
        return runner.run(inputs, f"an input of `{source}`")

    with running_user_code(source.rpartition(":")[0], _CONTRACT, answers):
        found = function(run)
    if isinstance(found, np.ndarray) and found.ndim == 0:
        found = found.item()
    if not isinstance(found, Real) or not math.isfinite(float(found)):
        what = f"{found}" if isinstance(found, Real) else type(found).__name__
        raise InputError(
            f"{place_of(function)}: it returns {what}, no number to compare", f"return a float; {_CONTRACT}"
        )
    return float(found)

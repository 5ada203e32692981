"""Errors that grow on changed samples, in numbers made for it."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.drift import drift
from infer_opt.calibrate.metrics import OutputError
from tests.calibrate.metrics.made_errors import broken, error_of, floats, integers, mask, reshaped, with_sqnr

GROWN = "the error of output `{}` is {} as large on samples {}: calibrated on cleaner inputs than those"


def odds(error: float) -> OutputError:
    """Class scores whose log odds are off by so much: (0.8, 0.2) has odds of 4."""
    first = 1 / (1 + np.exp(-(np.log(4) + error)))
    return error_of(floats(0.8, 0.2), floats(first, 1 - first), "scores")


@pytest.mark.parametrize(
    ("before", "after", "grown"),
    [
        (with_sqnr(40), with_sqnr(20), "10 times"),
        (with_sqnr(40), with_sqnr(27.9), "4 times"),
        (with_sqnr(40), with_sqnr(28), None),
        (with_sqnr(25), with_sqnr(20), None),
        (with_sqnr(80), with_sqnr(33), None),
        (with_sqnr(20), with_sqnr(40), None),
        (odds(0.03), odds(0.15), "5 times"),
        (odds(0.05), odds(0.15), None),
        (odds(0.01), odds(0.09), None),
        (odds(0), odds(0.2), "infinitely many times"),
        (odds(0), odds(0), None),
        (odds(0.03), odds(-0.3), "10 times"),
    ],
    ids=[
        "grown",
        "just over four times",
        "just under four times",
        "large before",
        "small",
        "shrunk",
        "scores grown",
        "scores three times",
        "scores small",
        "scores exact before",
        "scores exact",
        "scores the other way",
    ],
)
def test_an_error_that_grows_and_matters_is_drift(before: OutputError, after: OutputError, grown: str | None) -> None:
    """More than four times as an amplitude (12.04 dB), and past what is right where nobody knows the inputs."""
    words = None if grown is None else GROWN.format(after.name, grown, "with noise")
    assert drift([before], {"noise": [after]}) == words


def test_masks_that_fade_are_drift() -> None:
    """They lack 0.02 of their overlap, then 0.2."""
    clean, noisy = (error_of(mask(100, 400), mask(100, 400) * np.float32(kept), "mask") for kept in (0.96, 2 / 3))
    assert drift([clean], {"blur": [noisy]}) == GROWN.format("mask", "10 times", "blurred")


def test_the_first_that_grows_is_named() -> None:
    """Change by change, output by output; other changes by their names."""
    fine, bad = with_sqnr(40, "fine"), with_sqnr(20, "bad")
    clean = [with_sqnr(40, "fine"), with_sqnr(40, "bad")]
    assert drift(clean, {"noise": [fine, with_sqnr(40, "bad")], "contrast": [fine, bad]}) == GROWN.format(
        "bad", "10 times", "with contrast"
    )
    assert drift(clean, {}) is None


@pytest.mark.parametrize("error", [broken(), reshaped()])
def test_what_is_broken_on_changed_samples_alone_is_told(error: OutputError) -> None:
    """However right it was."""
    reason = f"output `{error.name}` {error.broken}, on samples with noise"
    assert drift([with_sqnr(60, error.name)], {"noise": [error]}) == reason


@pytest.mark.parametrize("flags", [{"joined": True}, {"state": True}])
def test_what_is_judged_elsewhere_does_not_drift(flags: dict[str, bool]) -> None:
    """The parts of a whole do, and what comes of a state."""
    clean, noisy = OutputError("y", **flags), OutputError("y", **flags)
    clean.add(floats(1, 2, 3), floats(1, 2, 3.001))
    noisy.add(floats(1, 2, 3), floats(3, 2, 1))
    assert drift([clean], {"noise": [noisy]}) is None


def test_integers_do_not_drift() -> None:
    """They are equal or not, and that is judged on clean samples."""
    assert drift([integers(0)], {"noise": [integers(9)]}) is None


def test_errors_of_two_kinds_cannot_be_compared() -> None:
    """Scores that are none on noisy samples: nothing tells by how much the error grew."""
    clean, noisy = odds(0.001), error_of(floats(3, -2), floats(-3, 2), "scores")
    assert (clean.kind.name, noisy.kind.name) == ("class scores", "numbers")
    assert drift([clean], {"noise": [noisy]}) is None

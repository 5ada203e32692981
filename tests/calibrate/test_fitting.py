"""Whether a metric fits, on an original that the test makes up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infer_opt.calibrate.expected import Expected
from infer_opt.calibrate.fitting import check_metric
from infer_opt.calibrate.metrics import METRICS
from infer_opt.errors import InputError
from tests.targets.networks import Feed, Lazy


class Original:
    """Gives what it is fed."""

    what = "`model.onnx`"
    runs = 0

    def __init__(self, *outputs: str) -> None:
        self.outputs = outputs

    def run(self, feed: Feed, sample: str = "") -> Feed:
        """See `Runner`."""
        del sample
        self.runs += 1
        return {name: feed[name] for name in self.outputs}


def found(places: int) -> np.ndarray:
    """A grid of 2 classes and 9 places in which so many are taken."""
    grid = np.zeros((1, 6, 9), np.float32)
    grid[0, 4, :places] = 0.9
    grid[0, :4, :places] = np.arange(places) * 40 + 10
    return grid


FEEDS: list[Feed] = [
    {
        "grid": found(places),
        "scores": np.eye(8, dtype=np.float32)[:2],
        "five": np.eye(5, dtype=np.float32)[:2],
        "row": np.ones(4, np.float32),
        "top": np.array([[3, 1]]),
        "scalar": np.float32(1),
    }
    for places in (0, 0, 2, 1)
]


def check(metric: str, *outputs: str, state: dict[str, str] | None = None) -> int:
    """How many runs it took."""
    original: Any = Original(*outputs)
    samples = Lazy(lambda index: FEEDS[index], 4, "made up")
    check_metric(metric, METRICS[metric], Expected(original, state), samples)
    return int(original.runs)


@pytest.mark.parametrize(
    ("metric", "outputs", "runs"),
    [
        ("sqnr", ("top", "row"), 1),
        ("cosine", ("row",), 1),
        ("top1", ("scalar", "scores"), 1),
        ("top5", ("scores",), 1),
        ("ctc", ("grid",), 1),
        ("detection", ("scores", "grid"), 3),  # the first sample in which something is found
    ],
)
def test_what_fits_one_output_is_taken(metric: str, outputs: tuple[str, ...], runs: int) -> None:
    """As soon as a sample shows it."""
    assert check(metric, *outputs) == runs


@pytest.mark.parametrize(
    ("metric", "outputs"),
    [
        ("sqnr", ("top",)),
        ("cosine", ("scalar", "top")),
        ("top1", ("row", "scalar", "top")),
        ("top5", ("five",)),  # all of them would be among the first five
        ("detection", ("scores",)),
        ("ctc", ("scores",)),
    ],
)
def test_what_fits_no_output_is_an_error(metric: str, outputs: tuple[str, ...]) -> None:
    """With the outputs, their dtypes and shapes, and what the metric takes."""
    with pytest.raises(InputError) as raised:
        check(metric, *outputs)
    assert raised.value.message.startswith(f"--metric {metric} fits no output of `model.onnx`: ")
    for name in outputs:
        array = FEEDS[0][name]
        assert f"`{name}` {array.dtype}{list(array.shape)}" in raised.value.message
    assert METRICS[metric].takes in str(raised.value.hint)


def test_a_state_is_no_output_to_fit() -> None:
    """It is judged by what comes of it."""
    with pytest.raises(InputError, match="fits no output"):
        check("cosine", "row", state={"row": "h0"})

"""The demo: its model and samples are what they say, its verdict holds, and it runs from end to end."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "digits"
MODEL = FOLDER / "digits.onnx"
CALIBRATION = FOLDER / "calib.npz"
LARGEST_TOGETHER = 1_000_000  # bytes


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> SimpleNamespace:
    """The names of a script of the demo, which imports its neighbours as it would when it is run."""
    sys.path.insert(0, str(FOLDER))
    try:
        return SimpleNamespace(**runpy.run_path(str(FOLDER / request.param)))
    finally:
        sys.path.remove(str(FOLDER))


def test_the_model_leaves_the_compiler_its_work() -> None:
    """Every Conv is followed by a BatchNormalization of its own, and the files stay small."""
    model = onnx.load(MODEL)
    onnx.checker.check_model(model, full_check=True)
    operators = [node.op_type for node in model.graph.node]
    assert operators[:21] == ["Conv", "BatchNormalization", "Relu"] * 7
    assert MODEL.stat().st_size + CALIBRATION.stat().st_size < LARGEST_TOGETHER


@pytest.mark.parametrize("script", ["digits_data.py"], indirect=True)
def test_the_samples_are_training_digits(script: SimpleNamespace) -> None:
    """They are the first 64 of the training split, and none of them is among the digits that are scored."""
    split = script.load_split()
    samples = np.load(CALIBRATION)["image"]
    assert samples.dtype == np.float32
    np.testing.assert_array_equal(samples, split.train.images[:64])
    assert (len(split.train.labels), len(split.test.labels)) == (1437, 360)
    trained_on = {image.tobytes() for image in split.train.images}
    assert not any(image.tobytes() in trained_on for image in split.test.images)


@pytest.mark.parametrize("script", ["digits_data.py"], indirect=True)
def test_digits_are_enlarged_without_losing_ink(script: SimpleNamespace) -> None:
    """Half-pixel centres keep the mean of a line, and a constant image stays constant."""
    weights = script.interpolation_weights(8, 32)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=0), 4, atol=1e-12)
    np.testing.assert_allclose(script.enlarge(np.full((2, 8, 8), 0.25), 32), 0.25, atol=1e-12)


@pytest.mark.parametrize("script", ["digits_data.py"], indirect=True)
def test_the_model_reads_digits(script: SimpleNamespace) -> None:
    """At least 98 of 100 digits that it never saw, so that a loss through compilation can be seen."""
    digits = script.load_split().test
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    [logits] = session.run(None, {"image": digits.images})
    assert (logits.argmax(axis=1) == digits.labels).mean() >= 0.98


@pytest.mark.parametrize("script", ["run_demo.py"], indirect=True)
@pytest.mark.parametrize(
    ("accuracy", "latency", "status"), [(0.99, 0.5, 0), (0.98, 1.0, 0), (0.97, 0.5, 1), (0.99, 1.01, 1)]
)
def test_the_verdict_needs_accuracy_and_speed(
    script: SimpleNamespace, accuracy: float, latency: float, status: int
) -> None:
    """Up to a point of accuracy may go, a slower artifact may not come."""
    before = script.Measured(accuracy=0.989, latency=1.0, kilobytes=1.0)
    after = script.Measured(accuracy=accuracy, latency=latency, kilobytes=1.0)
    assert script.verdict(before, after) == status


def test_the_demo_runs() -> None:
    """From the command line to the table; the script itself fails where accuracy or speed is lost."""
    command = [sys.executable, str(FOLDER / "run_demo.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for measured in ("accuracy", "P50 latency", "model file", "speed-up"):
        assert measured in done.stdout

"""Sessions: outputs by name, and errors that name node and sample without a line of onnxruntime's sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infer_opt.calibrate.runner import RunError, Runner, to_keep
from infer_opt.errors import InputError
from tests.targets.networks import Network, normal, profile, run, session_of, uniform_feeds
from tests.targets.networks import int8 as compiled_to_int8

ADD = Network(
    "net (float[N,C] x) => (float[N,C] y, float[N,C] z) { [plus] y = Add(x, c) z = Neg(y) }", {"c": normal(3)}
)


def test_outputs_come_by_name_in_the_models_order(tmp_path: Path) -> None:
    """From a file and from bytes alike."""
    x = normal(2, 3)
    for model in (ADD.save(tmp_path), ADD.proto().SerializeToString()):
        runner = Runner(model, "the model")
        assert runner.outputs == ("y", "z")
        found = runner.run({"x": x})
        assert list(found) == ["y", "z"]
        np.testing.assert_array_equal(found["y"], x + normal(3))


def test_a_file_that_is_no_model_is_an_input_error(tmp_path: Path) -> None:
    """One line, with the name that the caller gave."""
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no protobuf at all")
    with pytest.raises(RunError, match=r"^onnxruntime cannot load `broken\.onnx`: ") as caught:
        Runner(broken, "`broken.onnx`")
    assert isinstance(caught.value, InputError)
    assert "\n" not in caught.value.message
    assert caught.value.hint == "check the model with `onnx.checker`"


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    """As the file may go between two looks at it."""
    with pytest.raises(RunError, match="cannot load the model"):
        Runner(tmp_path / "gone.onnx", "the model")


def test_an_operator_that_does_not_exist_is_an_input_error() -> None:
    """The message names it."""
    model = Network("net (float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }").proto()
    model.graph.node[0].op_type = "Gulu"
    with pytest.raises(RunError, match="Gulu"):
        Runner(model.SerializeToString(), "the model")


def test_a_failing_node_is_named_with_the_sample() -> None:
    """And nothing is said of files and lines of onnxruntime."""
    with pytest.raises(RunError) as caught:
        Runner(ADD.proto().SerializeToString(), "the model").run({"x": normal(2, 4)}, "calib.npz sample 7")
    message = caught.value.message
    assert message.startswith("the model fails on calib.npz sample 7: node `plus` (Add): ")
    assert ".cc:" not in message
    assert ".h:" not in message


def test_a_feed_of_another_type_is_an_input_error() -> None:
    """In onnxruntime's own words."""
    with pytest.raises(RunError, match=r"the model fails on a sample: .*float"):
        Runner(ADD.proto().SerializeToString(), "the model").run({"x": np.ones((2, 3), np.int64)})


@pytest.mark.parametrize("options", [{"arena": False}, {"optimized": False}, {"mode": "lean"}, {"threads": 2}])
def test_options_do_not_change_results(options: dict[str, Any]) -> None:
    """Beyond the last bits."""
    network = Network(
        "net (float[1,8,16,16] x) => (float[1,8,16,16] y) { c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) y = Add(r, x) }",
        {"w": normal(8, 8, 3, 3)},
    )
    feed = {"x": normal(1, 8, 16, 16)}
    model = network.proto().SerializeToString()
    plain, found = Runner(model, "the model").run(feed), Runner(model, "the model", **options).run(feed)
    np.testing.assert_allclose(found["y"], plain["y"], rtol=1e-4, atol=1e-4)


def is_signed(runner: Runner) -> bool:
    """Whether onnxruntime was told to leave signed activations as they are."""
    key = "session.qdqisint8allowed"
    try:
        return bool(runner._session.get_session_options().get_session_config_entry(key) == "1")
    except RuntimeError:  # what onnxruntime says of a key that was never set
        return False


def test_signed_keeps_signed_activations(tmp_path: Path) -> None:
    """What runs is what onnxruntime runs on Arm, where s8 stays s8, bit for bit."""
    network = Network(
        "net (float[1,4,8,8] x) => (float[1,4,6,6] y) { c = Conv(x, w) y = Relu(c) }", {"w": normal(4, 4, 3, 3)}
    )
    made = compiled_to_int8(network, profile("arm-a78"), uniform_feeds(2, {"x": (1, 4, 8, 8)}), tmp_path)
    feed = {"x": normal(1, 4, 8, 8)}
    runner = Runner(made.data, "the artifact", signed=True)
    assert is_signed(runner)
    assert not is_signed(Runner(made.data, "the artifact"))
    found = runner.run(feed)
    expected = run(made.data, feed, session_qdqisint8allowed="1")
    np.testing.assert_array_equal(found["y"], expected["y"])


def test_seconds_are_those_of_one_run() -> None:
    """The mean over repeats: about as long as the whole by their number, and never 0."""
    network = Network("net (float[256,256] x) => (float[256,256] y) { z = MatMul(x, x) y = MatMul(z, x) }")
    runner = Runner(network.proto().SerializeToString(), "the model")
    feed = {"x": normal(256, 256)}
    once = min(runner.seconds(feed) for _ in range(5))
    many = min(runner.seconds(feed, 4) for _ in range(5))
    assert once > 1e-5
    assert 0.2 < many / once < 5


def test_the_session_runs_on_the_cpu_alone(tmp_path: Path) -> None:
    """Whatever else is installed: results must not depend on it."""
    runner = Runner(ADD.save(tmp_path), "the model")
    assert runner._session.get_providers() == session_of(tmp_path / "model.onnx", None).get_providers()
    assert runner._session.get_providers() == ["CPUExecutionProvider"]


def test_memory_that_runs_out_is_no_fault_of_the_model() -> None:
    """An error of the model would leave a candidate out, and another would win on a smaller machine."""
    model = Network("net (int64[3] x) => (float[] y) { [vast] y = ConstantOfShape(x) }").proto()
    runner = Runner(model.SerializeToString(), "the model")
    with pytest.raises(MemoryError, match=r"^the model on sample 7: .*memory"):
        runner.run({"x": np.array([1 << 20, 1 << 20, 1 << 10])}, "sample 7")


def test_outputs_to_keep_are_copies(tmp_path: Path) -> None:
    """With the same numbers, in memory that belongs to nobody else."""
    made = Runner.of_model(ADD.load(tmp_path), "the model").run({"x": normal(2, 3)})
    kept = to_keep(made)
    np.testing.assert_array_equal(kept["y"], made["y"])
    assert kept["y"].flags.owndata
    assert not np.shares_memory(kept["y"], made["y"])

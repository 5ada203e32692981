"""LSTMs with ranges found at run time, against the equations of the ONNX specification over quantized numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from infer_opt import ir
from infer_opt.calibrate.plan import DYNAMIC
from infer_opt.calibrate.planner import dynamic_plan
from infer_opt.targets.dynamic import write_dynamic
from infer_opt.targets.qdq import write_qdq
from infer_opt.targets.regions import find_regions
from tests.targets.networks import Network, for_any_host, normal, optimized, run, sqnr
from tests.targets.test_dynamic import quantized_at_run_time

X86 = for_any_host("x86-avx512-vnni").dialect
assert X86 is not None
STEPS, READ, HIDDEN = 7, 8, 12
TEXT = """net (float[7,1,8] x) => (float[] y, float[] yh, float[] yc) {{
    [cell] y, yh, yc = LSTM<hidden_size=12{more}>(x, w, r, b) }}"""


def network(directions: int, more: str = "") -> Network:
    """An LSTM of one or two directions."""
    if directions == 2:
        more = f', direction="bidirectional"{more}'
    return Network(
        TEXT.format(more=more),
        {
            "w": normal(directions, 4 * HIDDEN, READ, scale=0.4),
            "r": normal(directions, 4 * HIDDEN, HIDDEN, seed=1, scale=0.4),
            "b": normal(directions, 8 * HIDDEN, seed=2, scale=0.2),
        },
    )


def written(source: Network, folder: Path) -> bytes:
    """The network with its LSTM lowered."""
    model = source.load(folder)
    plan = dynamic_plan(model, find_regions(model, X86, int8=True))
    assert [scheme.precision for _, scheme in plan.lowered()] == [DYNAMIC]
    return ir.serialize(write_dynamic(write_qdq(model, plan), plan))


def read_quantized(x: np.ndarray) -> np.ndarray:
    """What a kernel reads after DynamicQuantizeLinear, as numbers."""
    if not x.any():  # the first hidden state
        return x
    levels, scale, zero = quantized_at_run_time(x)
    return (levels.astype(np.float32) - np.float32(zero)) * scale


def rows_quantized(weight: np.ndarray) -> np.ndarray:
    """Weights with one scale a row, the largest of all directions at 63."""
    steps = np.abs(weight).max(axis=(0, 2))[:, None] / 63
    return np.rint(weight / steps) * steps


def by_the_equations(x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> np.ndarray:
    """All hidden states of one direction, gates in the order input, output, forget, cell."""
    read, h, c, states = read_quantized(x[:, 0]), np.zeros(HIDDEN), np.zeros(HIDDEN), []
    for step in read:
        gates = w @ step + r @ read_quantized(h.astype(np.float32)) + b[: 4 * HIDDEN] + b[4 * HIDDEN :]
        i, o, f, g = np.split(gates, 4)
        i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        states.append(h)
    return np.array(states)


@pytest.mark.parametrize("directions", [1, 2])
def test_numbers_are_those_of_the_equations(tmp_path: Path, directions: int) -> None:
    """To 1e-3 of states in [-1, 1], and nearer to the equations than the float LSTM is."""
    source = network(directions)
    w, r, b = (source.constants[name] for name in ("w", "r", "b"))
    x = normal(STEPS, 1, READ, seed=5)
    got = run(written(source, tmp_path), {"x": x})
    quantized_w, quantized_r = rows_quantized(w), rows_quantized(r)
    for direction in range(directions):
        turned = slice(None, None, -1) if direction else slice(None)
        expected = by_the_equations(x[turned], quantized_w[direction], quantized_r[direction], b[direction])[turned]
        np.testing.assert_allclose(got["y"][:, direction, 0], expected, atol=1e-3)
    exact = source.run({"x": x})
    assert all(sqnr(exact[name], got[name]) > 25 for name in ("y", "yh", "yc"))
    assert np.abs(got["y"] - exact["y"]).max() > 1e-3


def test_the_text(tmp_path: Path) -> None:
    """One operator of onnxruntime's, under the same name and with the same outputs; the float weights are gone."""
    model = onnx.load_from_string(written(network(1), tmp_path))
    [node] = model.graph.node
    assert (node.domain, node.op_type, node.name, list(node.output)) == (
        "com.microsoft",
        "DynamicQuantizeLSTM",
        "cell",
        ["y", "yh", "yc"],
    )
    weights = ["w_scale", "w_zero_point", "r_scale", "r_zero_point"]
    assert list(node.input) == ["x", "w_quantized", "r_quantized", "b", "", "", "", "", *weights]
    shapes = {tensor.name: numpy_helper.to_array(tensor).shape for tensor in model.graph.initializer}
    assert shapes == {
        "w_quantized": (1, READ, 4 * HIDDEN),
        "w_scale": (1, 4 * HIDDEN),
        "w_zero_point": (1, 4 * HIDDEN),
        "r_quantized": (1, HIDDEN, 4 * HIDDEN),
        "r_scale": (1, 4 * HIDDEN),
        "r_zero_point": (1, 4 * HIDDEN),
        "b": (1, 8 * HIDDEN),
    }
    assert {opset.domain for opset in model.opset_import} == {"", "com.microsoft"}


def test_onnxruntime_runs_it_as_it_is(tmp_path: Path) -> None:
    """Behind a product that finds its range too."""
    text = """net (float[7,1,8] x) => (float[] y) {
        [first] m = MatMul(x, p) [cell] y, yh, yc = LSTM<hidden_size=12>(m, w, r, b) }"""
    source = Network(text, {**network(1).constants, "p": normal(READ, READ)})
    model = source.load(tmp_path)
    plan = dynamic_plan(model, find_regions(model, X86, int8=True))
    data = ir.serialize(write_dynamic(write_qdq(model, plan), plan))
    assert optimized(data, tmp_path) == ["DynamicQuantizeLSTM", "DynamicQuantizeMatMul"]


def test_an_lstm_with_the_batch_first_or_weights_from_outside_stays(tmp_path: Path) -> None:
    """The kernel has no such layout, and only constants are stored in integers."""
    outside = "net (float[7,1,8] x, float[1,48,12] r) => (float[] y) { y = LSTM<hidden_size=12>(x, w, r) }"
    for source in (
        Network(TEXT.format(more=", layout=1"), network(1).constants),
        Network(outside, {"w": normal(1, 48, 8)}),
    ):
        [region] = find_regions(source.load(tmp_path), X86, int8=True)
        assert region.precisions == ("fp32",)

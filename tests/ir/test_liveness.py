"""Peak memory of activations against sums done by hand; all values are float32 unless said otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from infer_opt import ir


def load(folder: Path, body: str, weights: dict[str, np.ndarray] | None = None) -> ir.Model:
    """A model from ONNX text, read back as a user's would be."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{body}')
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (weights or {}).items())
    onnx.save(proto, folder / "case.onnx")
    model = ir.load(folder / "case.onnx")
    ir.infer_shapes(model, outputs=True)
    return model


def test_a_chain_holds_two_values_at_a_time(tmp_path: Path) -> None:
    """Input 40 and its successor 40; then 40 and 80, the most; then 80 and 4."""
    model = load(
        tmp_path,
        """net (float[10] x) => (float[1] y) {
            a = Relu(x)
            b = Concat<axis = 0>(a, a)
            y = ReduceSum(b)
        }""",
    )
    assert ir.activation_peak(model) == ir.Peak(40 + 80, str(model.graph[1].name), ())


def test_a_value_is_held_to_its_last_reader(tmp_path: Path) -> None:
    """The skip connection keeps x alive: x, b and y at the Add, three times 40."""
    model = load(tmp_path, "net (float[10] x) => (float[10] y) {\n a = Relu(x)\n b = Neg(a)\n y = Add(b, x)\n}")
    assert ir.activation_peak(model).bytes == 3 * 40


def test_outputs_are_held_to_the_end(tmp_path: Path) -> None:
    """The value a is an output and stays beside b and y; without being one it would go."""
    kept = load(
        tmp_path, "net (float[10] x) => (float[10] a, float[10] y) {\n a = Relu(x)\n b = Neg(a)\n y = Abs(b)\n}"
    )
    assert ir.activation_peak(kept).bytes == 3 * 40
    gone = load(tmp_path, "net (float[10] x) => (float[10] y) {\n a = Relu(x)\n b = Neg(a)\n y = Abs(b)\n}")
    assert ir.activation_peak(gone).bytes == 2 * 40


def test_what_nobody_reads_is_held_no_longer_than_its_node(tmp_path: Path) -> None:
    """The second output of TopK (int64) is made and dropped: 40 + 16 + 32, and later 16 + 16."""
    model = load(
        tmp_path,
        "net (float[10] x) => (float[4] y) {\n v, i = TopK(x, k)\n y = Relu(v)\n}",
        {"k": np.array([4], np.int64)},
    )
    assert ir.activation_peak(model).bytes == 40 + 16 + 32


def test_constants_do_not_count(tmp_path: Path) -> None:
    """Nor what is made of constants alone, as a weight's DequantizeLinear is."""
    model = load(
        tmp_path,
        "net (float[1, 8] x) => (float[1, 8] y) {\n w = DequantizeLinear(q, s)\n y = MatMul(x, w)\n}",
        {"q": np.ones((8, 8), np.int8), "s": np.array(0.5, np.float32)},
    )
    assert ir.activation_peak(model).bytes == 32 + 32


def test_inputs_alone_can_be_the_most(tmp_path: Path) -> None:
    """No node is named then."""
    model = load(tmp_path, "net (float[100] x) => (float[1] y) {\n y = ReduceSum(x)\n}")
    assert ir.activation_peak(model) == ir.Peak(404, str(model.graph[0].name), ())
    empty = load(
        tmp_path,
        "net (float[100] x, float[1] z) => (float[0] y) {\n y = Slice(z, b, b)\n}",
        {"b": np.zeros(1, np.int64)},
    )
    assert ir.activation_peak(empty) == ir.Peak(404, None, ())


def test_a_subgraph_adds_its_own_peak(tmp_path: Path) -> None:
    """While the If runs: c and x before it, its result 40, and 40 + 40 inside the branch that needs more."""
    model = load(
        tmp_path,
        """net (bool c, float[10] x) => (float[10] y) {
            y = If(c) <
                then_branch = one () => (float[10] t) { t = Relu(x) },
                else_branch = two () => (float[10] e) { m = Neg(x) \n e = Abs(m) }
            >
        }""",
    )
    assert ir.activation_peak(model).bytes == 1 + 40 + 40 + 80


def test_values_of_no_fixed_size_are_named(tmp_path: Path) -> None:
    """And count as empty, so that the figure is a lower bound."""
    model = load(tmp_path, "net (float[n] x, float[10] z) => (float[n] y, float[10] w) {\n y = Relu(x)\n w = Abs(z)\n}")
    found = ir.activation_peak(model)
    assert found.bytes == 80
    assert set(found.unknown) == {"x", "y"}

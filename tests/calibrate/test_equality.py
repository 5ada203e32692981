"""Equality of rewritten graphs: planted faults are caught, rounding passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.calibrate.equality import Equality
from infer_opt.calibrate.runner import Runner
from tests.targets.networks import Feed, Network, normal

WEIGHT, BIAS, GAIN = normal(8, 4), normal(4, seed=1), normal(4, seed=2)
ORIGINAL = Network(
    """net (float[N,8] x) => (float[N,4] y, int64[N] top) {
        p = MatMul(x, w)  q = Add(p, b)  y = Mul(q, g)  top = ArgMax<axis=1, keepdims=0>(y)
    }""",
    {"w": WEIGHT, "b": BIAS, "g": GAIN},
)
FEEDS: list[Feed] = [{"x": normal(rows, 8, seed=rows)} for rows in (3, 20)]


def fault(rewritten: Network, folder: Path, original: Network = ORIGINAL, feeds: list[Feed] = FEEDS) -> str | None:
    """What is found against the original."""
    runner = Runner(original.proto().SerializeToString(), "the original")
    return Equality(runner, feeds).fault(rewritten.load(folder))


def test_the_same_model_is_equal(tmp_path: Path) -> None:
    """Itself."""
    assert fault(ORIGINAL, tmp_path) is None


def test_another_order_of_float_sums_is_equal(tmp_path: Path) -> None:
    """Mul folded into Gemm: the same sums, rounded elsewhere."""
    rewritten = Network(
        "net (float[N,8] x) => (float[N,4] y, int64[N] top) { y = Gemm(x, w, b) top = ArgMax<axis=1, keepdims=0>(y) }",
        {"w": WEIGHT * GAIN, "b": BIAS * GAIN},
    )
    assert fault(rewritten, tmp_path) is None


@pytest.mark.parametrize("share", [0.002, 0.1, -1.0])
def test_a_planted_error_is_caught(tmp_path: Path, share: float) -> None:
    """Also one of 0.2 % of a weight's size: 54 dB."""
    rewritten = Network(ORIGINAL.text, {"w": WEIGHT * np.float32(1 + share), "b": BIAS, "g": GAIN})
    found = fault(rewritten, tmp_path)
    assert found is not None
    assert found.startswith("output `y` changed: ")
    assert found.endswith(" dB, at least 60 dB wanted")


def test_a_changed_integer_output_is_caught(tmp_path: Path) -> None:
    """ArgMax of the wrong thing, while the float output is right."""
    text = ORIGINAL.text.replace("keepdims=0>(y)", "keepdims=0>(q)")
    found = fault(Network(text, ORIGINAL.constants), tmp_path)
    assert found is not None
    assert found.startswith("output `top` changed: ")


def test_a_changed_shape_is_caught(tmp_path: Path) -> None:
    """The rank of an output belongs to what a caller relies on."""
    text = ORIGINAL.text.replace("int64[N] top", "int64[N,M] top").replace("keepdims=0", "keepdims=1")
    found = fault(Network(text, ORIGINAL.constants), tmp_path)
    assert found is not None
    assert found.startswith("output `top` changed: ")


def test_a_graph_that_does_not_run_any_more_is_a_fault(tmp_path: Path) -> None:
    """In onnxruntime's words, with the node."""
    text = ORIGINAL.text.replace("p = MatMul(x, w)", "[broken] r = Reshape(x, s) p = MatMul(r, w)")
    found = fault(Network(text, {**ORIGINAL.constants, "s": np.array([3, 8])}), tmp_path)
    assert found is not None
    assert "node `broken` (Reshape)" in found


def test_a_graph_that_does_not_load_any_more_is_a_fault(tmp_path: Path) -> None:
    """A rewrite to an operator that onnxruntime does not have."""
    model = ORIGINAL.load(tmp_path)
    next(iter(model.graph)).op_type = "Nonsense"
    runner = Runner(ORIGINAL.proto().SerializeToString(), "the original")
    found = Equality(runner, FEEDS).fault(model)
    assert found is not None
    assert "Nonsense" in found


def test_one_bad_sample_is_enough(tmp_path: Path) -> None:
    """A rewrite that fixes a dimension holds on the sample of that size only."""
    text = "net (float[N,8] x) => (float[M] y) { y = Reshape(x, s) }"
    original, fixed = (Network(text, {"s": np.array([size])}) for size in (-1, 24))
    assert fault(fixed, tmp_path, original, FEEDS[:1]) is None
    assert fault(fixed, tmp_path, original, FEEDS) is not None


@pytest.mark.parametrize(
    ("text", "equal"), [("p = Mul(x, h) q = Mul(p, k)", True), ("p = Mul(x, f) q = Mul(p, k)", False)]
)
def test_a_model_that_magnifies_rounding_is_held_to_its_own_conditioning(
    tmp_path: Path,
    text: str,
    equal: bool,  # noqa: FBT001
) -> None:
    """The sine of 100,000 times the input: one more rounding costs more than 60 dB allow, 0.1 % costs everything."""
    constants = {"h": np.float32(100), "k": np.float32(1000), "f": np.float32(100.1), "g": np.float32(1e5)}
    original = Network("net (float[N,8] x) => (float[N,8] y) { q = Mul(x, g) y = Sin(q) }", constants)
    rewritten = Network(f"net (float[N,8] x) => (float[N,8] y) {{ {text} y = Sin(q) }}", constants)
    found = fault(rewritten, tmp_path, original, [{"x": normal(500, 8)}])
    assert (found is None) == equal


def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    """Looking changes nothing."""
    model = ORIGINAL.load(tmp_path)
    before = ir.fingerprint(model)
    Equality(Runner(ORIGINAL.proto().SerializeToString(), "the original"), FEEDS).fault(model)
    assert ir.fingerprint(model) == before

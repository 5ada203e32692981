"""`infer-opt inspect`: figures against hand-computed ones, and what is not known said to be so."""

from __future__ import annotations

from collections.abc import Callable

CONV, HEAD = 8 * 8 * 8 * 3 * 9, 128 * 5  # multiply-adds of the kit's network for one sample
WEIGHTS = 8 * 3 * 9 + 8 + 128 * 5 + 5


def test_a_model_of_fixed_shapes(infer_opt: Callable, fits: Callable) -> None:
    """Every figure by hand; the peak is the Conv's output beside the Relu's."""
    found = infer_opt("inspect", "fixed.onnx", "--json").json
    fits("inspect", found)
    assert found["operators"] == {"Conv": 1, "Flatten": 1, "Gemm": 1, "MaxPool": 1, "Relu": 1}
    assert found["parameters"] == WEIGHTS
    assert found["weight_bytes"] == {"float": 4 * WEIGHTS}
    assert found["multiply_adds"] == {"known": CONV + HEAD, "unknown_nodes": []}
    assert found["activation_peak"] == {"bytes": 2 * 4 * 8 * 64, "node": "relu", "unsized_values": []}
    assert found["opsets"] == {"ai.onnx": 17}
    assert found["inputs"] == [{"name": "x", "dtype": "float", "shape": [1, 3, 8, 8], "optional": False}]
    assert found["sparse_2_4"] == {"groups": 32 * 5, "sparse": 0, "share": 0.0}  # three input channels are no four
    assert (found["target"], found["regions"]) == (None, None)


def test_dynamic_shapes_are_not_guessed(infer_opt: Callable) -> None:
    """What depends on the batch is listed as not counted, until --shape fixes it."""
    found = infer_opt("inspect", "net.onnx", "--json").json
    assert found["multiply_adds"] == {"known": 0, "unknown_nodes": ["conv", "head_gemm"]}
    assert "x" in found["activation_peak"]["unsized_values"]
    text = infer_opt("inspect", "net.onnx").out
    assert "not counted: 2 nodes whose shapes are dynamic (first: `conv`)" in text
    assert "to count what is dynamic, pass --shape x:1x3x8x8\n" in text
    fixed = infer_opt("inspect", "net.onnx", "--shape", "x:2x3x8x8", "--json").json
    assert fixed["multiply_adds"] == {"known": 2 * (CONV + HEAD), "unknown_nodes": []}


def test_an_artifact(infer_opt: Callable, fits: Callable) -> None:
    """Its ONNX file: INT8 weights, and the work of the original."""
    found = infer_opt("inspect", "compiled", "--shape", "x:1x3x8x8", "--json").json
    fits("inspect", found)
    assert found["model"].endswith("compiled/model.onnx")
    assert found["weight_bytes"]["int8"] >= 8 * 3 * 9 + 128 * 5
    assert found["multiply_adds"]["known"] == CONV + HEAD
    assert found["sparse_2_4"]["groups"] == 32 * 5


def test_regions_of_a_target(infer_opt: Callable, fits: Callable) -> None:
    """Which precisions each could have, by the names of the original, and why not lower."""
    found = infer_opt("inspect", "fixed.onnx", "--target", "x86-avx2", "--json").json
    fits("inspect", found)
    regions = {region["name"]: region for region in found["regions"]}
    assert regions["conv"]["nodes"] == ["conv", "relu"]
    assert regions["conv"]["precisions"] == ["fp32", "int8"]
    text = infer_opt("inspect", "fixed.onnx", "--target", "t4").out
    assert "regions for t4, after its graph passes" in text


def test_text_for_people(infer_opt: Callable) -> None:
    """On stdout, unwrapped, nothing on stderr."""
    ran = infer_opt("inspect", "fixed.onnx")
    assert (ran.code, ran.err) == (0, "")
    assert "  multiply-adds  14,464\n" in ran.out
    assert "  activations    4.1 kB, during `relu`\n" in ran.out
    assert "\nConv          1\n" in ran.out


def test_bad_input(infer_opt: Callable, tmp_path: object) -> None:
    """A folder that is no artifact, and a file that is no model."""
    assert infer_opt("inspect", str(tmp_path)).code == 1
    ran = infer_opt("inspect", "calib.npz")
    assert ran.code == 1
    assert "calib.npz` is not an ONNX model" in ran.err

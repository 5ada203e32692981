"""Saving: the same model comes back, deterministic, with nothing that a reader infers by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest

from infer_opt import ir
from infer_opt.passes import Pipeline
from tests.onnx_text import HEADER, load, parse, run

MODELS = {
    "initializers": """m (float[N,2] x) => (float[N,2] y)
        <float[2] w = {1, 2}, int64[2] s = {-1, 2}> { t = Add(x, w)  y = Reshape(t, s) }""",
    "default": "m (float[N] x, float[1] w = {2}) => (float[N] y) { y = Add(x, w) }",
    "strings": 'm (float[N] x) => (float[N] y, string[1] s) <string[1] k = {"a"}> { y = Relu(x)  s = Identity(k) }',
    "branches": """m (float[N] x, bool p) => (float[N] y) {
        y = If(p) <then_branch = g () => (float[N] a) <float[1] c = {1}> { a = Add(x, c) },
                   else_branch = h () => (float[N] b) { b = Neg(x) }> }""",
    "optional": "m (float[N] x) => (float[N] y) <float high = {1}> { y = Clip(x, , high) }",
    "other domain": f"""{HEADER.replace("]", ', "com.microsoft": 1]')} m (float[N] x) => (float[N] y) {{
        y = com.microsoft.Gelu(x) }}""",
}


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_what_is_saved_loads_as_the_same_model(text: str, tmp_path: Path) -> None:
    """Text and fingerprint are equal, and the bytes are too when it is saved once more."""
    model = load(text, tmp_path)
    [file] = ir.save(model, tmp_path / "saved.onnx")
    again = ir.load(file)
    assert ir.text(again) == ir.text(model)
    assert ir.fingerprint(again) == ir.fingerprint(model)
    assert ir.serialize(again) == file.read_bytes()
    onnx.checker.check_model(file.read_bytes(), full_check=True)


@pytest.mark.parametrize("name", ["int4", "uint4", "bfloat16", "float8e4m3fn", "float16", "bool"])
def test_every_dtype_is_saved_as_it_is(name: str, tmp_path: Path) -> None:
    """Packed and small floating-point dtypes come back bit for bit."""
    dtype = onnx_ir.DataType[name.upper()]
    content = onnx_ir.tensor(np.array([1, 0, 1]).astype(dtype.numpy()), dtype=dtype)
    model = load(HEADER.replace("13", "23") + "m (float[N] x) => (float[N] y) { y = Relu(x) }", tmp_path)
    ir.add_initializer(model.graph, "w", content)
    ir.save(model, tmp_path / "saved.onnx")
    found = ir.load(tmp_path / "saved.onnx").graph.initializers["w"].const_value
    assert found is not None
    assert (found.dtype, found.tobytes()) == (dtype, content.tobytes())


def test_dtypes_and_shapes_of_inner_values_are_left_out(tmp_path: Path) -> None:
    """Those of outputs stay."""
    model = load("m (float[N] x) => (float[N] y) { a = Relu(x)  y = Neg(a) }", tmp_path)
    saved = onnx.ModelProto.FromString(ir.serialize(model))
    assert len(saved.graph.value_info) == 0
    assert saved.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "N"
    assert ir.dims(next(iter(model.graph)).outputs[0]) == ("N",)


def test_saving_leaves_the_model_as_it_is(tmp_path: Path) -> None:
    """The work is done on a copy."""
    model = load(MODELS["branches"], tmp_path)
    before = ir.text(model)
    ir.serialize(model)
    assert ir.text(model) == before


def test_initializers_of_branches_of_old_models(tmp_path: Path) -> None:
    """Before IR version 4 an initializer is an input, which branches do not have: it moves to the main graph."""
    text = """<ir_version: 3, opset_import: ["": 9]> m (float[N] x, bool p) => (float[N] y) {
        y = If(p) <then_branch = g () => (float[N] a) { c = Constant<value = float[1] {1}>()  a = Add(x, c) },
                   else_branch = h () => (float[N] b) { b = Neg(x) }> }"""
    model, _ = Pipeline.parse("simplify").run(load(text, tmp_path))
    data = ir.serialize(model)
    onnx.checker.check_model(data)
    assert [value.name for value in onnx.ModelProto.FromString(data).graph.input] == ["x", "p", "c"]
    feed = {"x": np.array([1, -2], np.float32), "p": np.array(1, np.bool_)}
    expected = run(parse(text).SerializeToString(), feed)
    np.testing.assert_array_equal(run(data, feed), expected)

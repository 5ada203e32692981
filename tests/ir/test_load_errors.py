"""Faulty model files: each is refused in one line that names the file and the culprit, with a hint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from infer_opt import ir
from infer_opt.errors import InputError
from infer_opt.ir.schemas import latest_ir_version, latest_opset
from tests.onnx_text import HEADER, parse

GOOD = "m (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
COPY_AGAIN = "copy or export the file again; it is truncated or corrupt"
OWN_NAME = "give each value its own name; most exporters do"


def refusal(file: Path) -> tuple[str, str | None]:
    """Message and hint of the refusal, with `FILE` for the path."""
    with pytest.raises(InputError) as caught:
        ir.load(file)
    assert "\n" not in caught.value.message
    return caught.value.message.replace(str(file), "FILE"), caught.value.hint


def refusal_of(proto: onnx.ModelProto, folder: Path) -> tuple[str, str | None]:
    """Message and hint of the refusal of a model."""
    file = folder / "model.onnx"
    file.write_bytes(proto.SerializeToString())
    return refusal(file)


def model_with(
    tensor: TensorProto | None = None, change: Callable[[onnx.ModelProto], object] | None = None
) -> onnx.ModelProto:
    """The good model with another initializer, or changed by a function."""
    proto = parse(GOOD)
    if tensor is not None:
        tensor.name = "w"
        proto.graph.initializer[0].CopyFrom(tensor)
    if change is not None:
        change(proto)
    return proto


def test_the_model_that_the_tests_spoil_is_good(tmp_path: Path) -> None:
    """Otherwise any refusal below could be for another fault."""
    (tmp_path / "model.onnx").write_bytes(parse(GOOD).SerializeToString())
    assert [node.op_type for node in ir.load(tmp_path / "model.onnx").graph] == ["Add"]


def test_a_missing_file(tmp_path: Path) -> None:
    """Nothing is there."""
    assert refusal(tmp_path / "model.onnx") == ("`FILE` does not exist", "check the path of the model")


def test_a_folder(tmp_path: Path) -> None:
    """A folder of a name that looks like a model."""
    (tmp_path / "model.onnx").mkdir()
    expected = ("`FILE` is a folder, not an ONNX file", "name the .onnx file itself")
    assert refusal(tmp_path / "model.onnx") == expected


NOT_ONNX = "`FILE` is not an ONNX model, or is truncated"
EMPTY = "`FILE` is empty or not an ONNX model"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", EMPTY, id="empty"),
        pytest.param(bytes(4096), NOT_ONNX, id="zeros"),
        pytest.param(b"not a model at all\n", NOT_ONNX, id="text"),
        pytest.param(b"PK\x03\x04" + bytes(100), NOT_ONNX, id="zip"),
        pytest.param(parse(GOOD).SerializeToString()[:-9], NOT_ONNX, id="truncated"),
        pytest.param(onnx.ModelProto(ir_version=8).SerializeToString(), EMPTY, id="no graph"),
    ],
)
def test_bytes_that_are_no_model(content: bytes, message: str, tmp_path: Path) -> None:
    """Whatever the bytes are, the parser's own words do not reach the user."""
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    assert refusal(file) == (message, "check that the export or the copy finished")


def test_a_graph_without_outputs(tmp_path: Path) -> None:
    """An interrupted export may leave one."""
    proto = model_with(change=lambda proto: proto.graph.ClearField("output"))
    assert refusal_of(proto, tmp_path) == (
        "`FILE` holds no graph with outputs",
        "check that the export finished and is an ONNX model",
    )


@pytest.mark.parametrize(("opset", "ir_version"), [(latest_opset() + 1, 8), (13, latest_ir_version() + 1)])
def test_a_version_from_the_future(opset: int, ir_version: int, tmp_path: Path) -> None:
    """Both versions are named, and the newest known."""
    proto = parse(GOOD.replace("m (", f'<ir_version: {ir_version}, opset_import: ["": {opset}]> m (', 1))
    newest = f"newest known here: opset {latest_opset()}, IR version {latest_ir_version()}"
    assert refusal_of(proto, tmp_path) == (
        f"`FILE` declares opset {opset} and IR version {ir_version}; {newest}",
        "update the `onnx` package, or export the model with an older opset",
    )


def test_an_opset_from_before_broadcasting(tmp_path: Path) -> None:
    """Opset 6 is too old; 7 is read."""
    proto = parse(HEADER.replace("13", "6") + GOOD)
    expected = ("`FILE` declares opset 6, older than 7", "export the model again with opset 13 or newer")
    assert refusal_of(proto, tmp_path) == expected
    (tmp_path / "model.onnx").write_bytes(parse(HEADER.replace("13", "7") + GOOD).SerializeToString())
    assert ir.load(tmp_path / "model.onnx").opset_imports == {"": 7}


def test_no_opset(tmp_path: Path) -> None:
    """A model that imports only a domain of its own."""
    proto = parse(HEADER.replace('""', '"my.domain"') + GOOD)
    expected = ("`FILE` declares no opset for the ai.onnx domain", "export the model again")
    assert refusal_of(proto, tmp_path) == expected


def test_functions_that_call_each_other(tmp_path: Path) -> None:
    """The circle is spelled out."""
    text = """<ir_version: 8, opset_import: ["": 13, "my": 1]> m (float[2] x) => (float[2] y) { y = my.F(x) }
        <domain: "my", opset_import: ["": 13, "my": 1]> F (a) => (b) { b = my.G(a) }
        <domain: "my", opset_import: ["": 13, "my": 1]> G (a) => (b) { b = my.F(a) }"""
    message, hint = refusal_of(parse(text), tmp_path)
    circles = {"my::F -> my::G -> my::F", "my::G -> my::F -> my::G"}
    assert message in {f"`FILE`: function calls itself: {circle}" for circle in circles}
    assert hint == "export the model again without recursive functions"


def test_functions_of_different_opsets(tmp_path: Path) -> None:
    """Their operators would mean something else once inlined."""
    text = """<ir_version: 8, opset_import: ["": 13, "my": 1]> m (float[2] x) => (float[2] y) { y = my.F(x) }
        <domain: "my", opset_import: ["": 11]> F (a) => (b) { b = Relu(a) }"""
    message, hint = refusal_of(parse(text), tmp_path)
    assert message.startswith("`FILE`: a local function cannot be inlined: Opset mismatch when inlining")
    assert hint == "export without functions"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        pytest.param(
            "m (float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }",
            "`FILE`: value `y` is made twice, again by node `y` (Neg)",
            OWN_NAME,
            id="two makers",
        ),
        pytest.param(
            "m (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { w = Relu(x) y = Neg(w) }",
            "`FILE`: value `w` is made twice, again by node `w` (Relu)",
            OWN_NAME,
            id="maker and initializer",
        ),
        pytest.param(
            "m (float[2] x, float[2] x) => (float[2] y) { y = Relu(x) }",
            "`FILE`: value `x` is declared twice",
            OWN_NAME,
            id="two inputs",
        ),
        pytest.param(
            "m (float[2] x) => (float[2] y) { t = Relu(x) y = Add(t, lost) }",
            "`FILE`: node `y` (Add) reads `lost`, which nothing makes",
            "export the model again; a node or an initializer was lost",
            id="lost input",
        ),
        pytest.param(
            "m (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) }",
            "`FILE`: output `z` is made by no node",
            "export the model again",
            id="lost output",
        ),
        pytest.param(
            "m (float[2] x, bool p) => (float[2] y) { t = Exp(x) y = If(p) <then_branch = g () => (float[2] t) { },"
            " else_branch = h () => (float[2] e) { e = Neg(x) }> }",
            "`FILE`: output `t` is made by no node",
            "export the model again",
            id="output of a branch that is made around it",
        ),
        pytest.param(
            "m (float[2] x) => (float[2] y) { a = Add(x, b) b = Relu(a) y = Neg(b) }",
            "`FILE`: the graph is cyclic: `a` (Add) -> `b` (Relu) -> `a` (Add)",
            "write loops with the Loop or Scan operator",
            id="cycle",
        ),
        pytest.param(
            """m (float[2] x, bool p) => (float[2] y) {
                 a = If(p) <then_branch = g () => (float[2] t) { t = Add(x, b) },
                            else_branch = h () => (float[2] e) { e = Neg(x) }>
                 b = Relu(a)  y = Neg(b) }""",
            "`FILE`: the graph is cyclic: `a` (If) -> `b` (Relu) -> `a` (If)",
            "write loops with the Loop or Scan operator",
            id="cycle through a branch",
        ),
        pytest.param(
            """m (float[2] x, bool p) => (float[2] y) {
                 y = If(p) <then_branch = g () => (float[2] t) { t = Add(x, lost) },
                            else_branch = h () => (float[2] e) { e = Neg(x) }> }""",
            "`FILE`: node `t` (Add) reads `lost`, which nothing makes",
            "export the model again; a node or an initializer was lost",
            id="lost in a branch",
        ),
        pytest.param(
            """<ir_version: 8, opset_import: ["": 13, "my": 1]> m (float[2] x) => (float[2] y) { y = my.F(x) }
               <domain: "my", opset_import: ["": 13]> F (a) => (b) { b = Add(a, lost) }""",
            "`FILE`: node `b` (Add) reads `lost`, which nothing makes",
            "export the model again; a node or an initializer was lost",
            id="lost in a function",
        ),
    ],
)
def test_a_graph_with_a_fault(text: str, message: str, hint: str, tmp_path: Path) -> None:
    """The value and the node are named; a node without a name by its output."""
    assert refusal_of(parse(text), tmp_path) == (message, hint)


def test_an_initializer_declared_twice(tmp_path: Path) -> None:
    """Nobody can tell which is meant."""
    proto = model_with(change=lambda proto: proto.graph.initializer.append(proto.graph.initializer[0]))
    assert refusal_of(proto, tmp_path) == ("`FILE`: value `w` is declared twice", OWN_NAME)


def tensor(dims: tuple[int, ...], dtype: int = TensorProto.FLOAT, **content: object) -> TensorProto:
    """A tensor that holds what it is told."""
    return TensorProto(dims=dims, data_type=dtype, **content)


@pytest.mark.parametrize(
    ("spoiled", "message"),
    [
        pytest.param(tensor((2, 3), raw_data=bytes(20)), "tensor `w` declares 2x3 (24 bytes) but carries 20", id="raw"),
        pytest.param(
            tensor((3,), TensorProto.INT4, raw_data=bytes(3)),
            "tensor `w` declares 3 (2 bytes) but carries 3",
            id="packed raw",
        ),
        pytest.param(
            tensor((2, 2), float_data=[1, 2, 3]), "tensor `w` declares 2x2 (4 elements) but carries 3", id="floats"
        ),
        pytest.param(tensor((2, 2)), "tensor `w` declares 2x2 (4 elements) but carries 0", id="nothing"),
        pytest.param(
            tensor((), TensorProto.INT64, int64_data=[1, 2]),
            "tensor `w` declares a scalar (1 elements) but carries 2",
            id="scalar",
        ),
        pytest.param(
            tensor((1, 2, 3, 4, 5), TensorProto.STRING, string_data=[b"a"]),
            "tensor `w` declares 1x2x3x4x... (120 elements) but carries 1",
            id="strings",
        ),
    ],
)
def test_a_tensor_whose_content_does_not_fit(spoiled: TensorProto, message: str, tmp_path: Path) -> None:
    """Declared and carried sizes are both named."""
    assert refusal_of(model_with(spoiled), tmp_path) == (f"`FILE`: {message}", COPY_AGAIN)


@pytest.mark.parametrize(
    "good",
    [
        tensor((3,), TensorProto.INT4, int32_data=[0x21, 0x03]),
        tensor((2,), TensorProto.COMPLEX64, float_data=[1, 2, 3, 4]),
        tensor((0, 2)),
        tensor((2,), TensorProto.STRING, string_data=[b"a", b"b"]),
        tensor((2,), TensorProto.FLOAT16, int32_data=[1, 2]),
        tensor((2,), TensorProto.DOUBLE, double_data=[1, 2]),
        tensor((2,), TensorProto.UINT64, uint64_data=[1, 2]),
        tensor((8,), TensorProto.FLOAT6E2M3, raw_data=bytes(6)),
    ],
    ids=lambda good: TensorProto.DataType.Name(good.data_type),
)
def test_a_tensor_of_any_dtype_whose_content_fits(good: TensorProto, tmp_path: Path) -> None:
    """Packed, complex, empty and string tensors are counted as they are stored."""
    proto = model_with(good, lambda proto: proto.graph.node[0].CopyFrom(helper.make_node("Relu", ["x"], ["y"])))
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    assert list(ir.load(tmp_path / "model.onnx").graph.initializers) == ["w"]


def test_a_tensor_with_a_negative_dimension(tmp_path: Path) -> None:
    """Two of them would multiply to a plausible size."""
    assert refusal_of(model_with(tensor((-1, -2), raw_data=bytes(8))), tmp_path) == (
        "`FILE`: tensor `w` has a negative dimension",
        "export the model again",
    )


def test_a_tensor_of_an_unknown_element_type(tmp_path: Path) -> None:
    """A dtype from the future, or none at all."""
    assert refusal_of(model_with(tensor((2,), 99, raw_data=bytes(8))), tmp_path) == (
        "`FILE`: tensor `w` has the unknown element type 99",
        "update the `onnx` package, or export the model again",
    )


def test_a_faulty_tensor_in_a_constant_of_a_branch(tmp_path: Path) -> None:
    """Attributes of nodes in subgraphs are looked at too."""
    text = """m (float[2] x, bool p) => (float[2] y) {
        y = If(p) <then_branch = g () => (float[2] t) { c = Constant<value = float[2] {1, 2}>()  t = Add(x, c) },
                   else_branch = h () => (float[2] e) { e = Neg(x) }> }"""
    proto = parse(text)
    branch = next(attr.g for attr in proto.graph.node[0].attribute if attr.name == "then_branch")
    spoiled = numpy_helper.from_array(np.ones(2, np.float32), "c")
    spoiled.raw_data = spoiled.raw_data[:-1]
    branch.node[0].attribute[0].t.CopyFrom(spoiled)
    message = "`FILE`: tensor `c` declares 2 (8 bytes) but carries 7"
    assert refusal_of(proto, tmp_path) == (message, COPY_AGAIN)

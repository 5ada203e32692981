"""Surgery: a user's functions on an onnx-graphsurgeon Graph, and what of the file is kept around it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import numpy_helper

from infer_opt import ir
from infer_opt.errors import InputError
from tests.onnx_text import parse, run

CONTRACT = "a function takes a Graph"
TEXT = """
<ir_version: 9, opset_import: ["": 15, "com.microsoft": 1], producer_name: "exporter", model_version: 3>
g (float[n,4] x) => (float[n,300] y, float[n,4] z) {
    v = MatMul(x, w)
    y = Relu(v)
    z = com.microsoft.Gelu(x)
}
"""
WEIGHT = np.arange(1200, dtype=np.float32).reshape(4, 300) - 600
X = np.array([[1, -2, 3, -4], [0.5, 1, -1, 2]], np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The file of a model with metadata, two domains and two outputs."""
    proto = parse(TEXT)
    proto.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    onnx.helper.set_model_props(proto, {"classes": "cat,dog,bird", "author": "someone"})
    onnx.save(proto, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def operated(model: Path, *functions: Callable[[Any], Any]) -> onnx.ModelProto:
    """The model after the functions."""
    out = model.parent / "out" / model.name
    out.parent.mkdir()
    ir.operate(model, functions, out, __file__, CONTRACT)
    return onnx.load(out)


def test_without_a_change_the_model_is_the_same(model: Path) -> None:
    """Outputs bit for bit, and what onnx-graphsurgeon does not carry over: IR version, opsets, metadata."""
    before, after = onnx.load(model), operated(model, lambda graph: None)  # noqa: ARG005 - it has to be taken
    assert after.ir_version == 9
    assert {item.domain: item.version for item in after.opset_import} == {"": 15, "com.microsoft": 1}
    assert after.producer_name == "exporter"
    assert {item.key: item.value for item in after.metadata_props} == {"classes": "cat,dog,bird", "author": "someone"}
    assert list(after.graph.input) == list(before.graph.input)
    assert list(after.graph.output) == list(before.graph.output)
    for got, wanted in zip(run(after.SerializeToString(), {"x": X}), run(model.read_bytes(), {"x": X}), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_an_output_is_renamed_and_one_dropped(model: Path) -> None:
    """What only fed the dropped one is gone too."""

    def cut(graph: gs.Graph) -> None:
        graph.outputs.pop()
        graph.outputs[0].name = "scores"

    after = operated(model, cut)
    assert [value.name for value in after.graph.output] == ["scores"]
    assert [node.op_type for node in after.graph.node] == ["MatMul", "Relu"]
    [scores] = run(after.SerializeToString(), {"x": X})
    np.testing.assert_array_equal(scores, np.maximum(X @ WEIGHT, 0))


def test_an_inner_value_can_become_an_output(model: Path) -> None:
    """Its dtype, which an output needs, is inferred; what stays inside gets none written, as it had none."""
    seen = []

    def cut(graph: gs.Graph) -> None:
        [relu] = [node for node in graph.nodes if node.op == "Relu"]
        seen.extend(value.dtype for node in graph.nodes for value in node.outputs)
        graph.outputs = [relu.inputs[0]]
        graph.outputs[0].name = "sums"

    after = operated(model, cut)
    assert seen == [np.float32] * 3
    [sums] = after.graph.output
    assert (sums.name, sums.type.tensor_type.elem_type) == ("sums", onnx.TensorProto.FLOAT)
    [got] = run(after.SerializeToString(), {"x": X})
    np.testing.assert_array_equal(got, X @ WEIGHT)


def test_what_functions_make_of_dtypes_is_theirs(model: Path) -> None:
    """No inferred dtype is written down beside a value that a Cast before it changed."""

    def halve(graph: gs.Graph) -> None:
        [product] = [node for node in graph.nodes if node.op == "MatMul"]
        half = gs.Variable("half", np.float16)
        graph.nodes.append(gs.Node("Cast", "cast", {"to": np.float16}, [product.inputs[0]], [half]))
        product.inputs = [half, gs.Constant("w16", WEIGHT.astype(np.float16))]
        graph.outputs[0].dtype = np.float16

    after = operated(model, halve)
    assert [value.name for value in after.graph.value_info] == ["half"]
    y, _ = run(after.SerializeToString(), {"x": X})
    assert y.dtype == np.float16


def insert_scale(graph: gs.Graph) -> None:
    """Twice the sum before the Relu; the node is put last, and sorted into its place."""
    [relu] = [node for node in graph.nodes if node.op == "Relu"]
    doubled = gs.Variable("doubled", np.float32)
    graph.nodes.append(
        gs.Node("Mul", "double", inputs=[relu.inputs[0], gs.Constant("two", np.float32([2]))], outputs=[doubled])
    )
    relu.inputs = [doubled]


def test_a_node_is_inserted(model: Path) -> None:
    """With a new weight."""
    after = operated(model, insert_scale)
    assert [node.op_type for node in after.graph.node if node.domain == ""] == ["MatMul", "Mul", "Relu"]
    y, _ = run(after.SerializeToString(), {"x": X})
    np.testing.assert_array_equal(y, np.maximum(2 * (X @ WEIGHT), 0))


def test_a_function_may_return_another_graph(model: Path) -> None:
    """The next one gets that; metadata is still the model's."""

    def other(graph: gs.Graph) -> gs.Graph:
        x = gs.Variable("x", np.float32, ["n", 4])
        y = gs.Variable("y", np.float32, ["n", 4])
        node = gs.Node("Neg", "negative", inputs=[x], outputs=[y])
        return gs.Graph([node], [x], [y], opset=graph.opset)

    def rename(graph: gs.Graph) -> None:
        graph.outputs[0].name = "negated"

    after = operated(model, other, rename)
    assert [value.name for value in after.graph.output] == ["negated"]
    assert (after.ir_version, after.opset_import[0].version) == (9, 15)
    assert len(after.metadata_props) == 2


def test_functions_are_called_in_order(model: Path) -> None:
    """Each sees what the one before left."""
    calls: list[Sequence[str]] = []

    def numbered(graph: gs.Graph) -> None:
        calls.append([value.name for value in graph.outputs])
        graph.outputs[0].name += "x"

    operated(model, numbered, numbered, numbered)
    assert calls == [["y", "z"], ["yx", "z"], ["yxx", "z"]]


def test_weights_beside_the_model_stay_beside_it(model: Path) -> None:
    """A file of their own again, and the values are right."""
    proto = onnx.load(model)
    onnx.save(proto, model, save_as_external_data=True, location="net.weights", size_threshold=0)
    out = model.parent / "out" / model.name
    out.parent.mkdir()
    ir.operate(model, [insert_scale], out, __file__, CONTRACT)
    assert sorted(file.name for file in out.parent.iterdir()) == ["net.onnx", "net.onnx.data"]
    y, _ = run(onnx.load(out).SerializeToString(), {"x": X})
    np.testing.assert_array_equal(y, np.maximum(2 * (X @ WEIGHT), 0))
    assert (model.parent / "net.weights").is_file()


def returns_a_list(graph: gs.Graph) -> Any:
    """The nodes, and no Graph."""
    return graph.nodes


def raises(graph: gs.Graph) -> None:
    """A KeyError."""
    graph.tensors()["nothing"]


def circle(graph: gs.Graph) -> None:
    """A node that reads what it makes."""
    [relu] = [node for node in graph.nodes if node.op == "Relu"]
    relu.inputs = list(relu.outputs)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raises, f" line {raises.__code__.co_firstlineno + 2}: KeyError: 'nothing'"),
        (returns_a_list, ": TypeError: function `returns_a_list` returned list, and no Graph"),
    ],
)
def test_what_a_function_does_wrong(function: Callable[[Any], Any], message: str, model: Path) -> None:
    """File and, where it raised, line; nothing is written."""
    with pytest.raises(InputError) as caught:
        operated(model, function)
    assert caught.value.message == f"`{__file__}`{message}"
    assert caught.value.hint == f"correct the code; {CONTRACT}"
    assert list((model.parent / "out").iterdir()) == []


def test_a_graph_that_cannot_be_sorted(model: Path) -> None:
    """It is what the functions left; the words are onnx-graphsurgeon's."""
    with pytest.raises(InputError) as caught:
        operated(model, circle)
    assert caught.value.message.startswith(f"`{__file__}`: OnnxGraphSurgeonException: Cycle detected in graph!")


def test_what_has_to_be_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it."""
    ir.require_graphsurgeon()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # noqa: ARG005 - that of importlib
    with pytest.raises(InputError) as caught:
        ir.require_graphsurgeon()
    assert (caught.value.message, caught.value.hint) == (
        "--surgery needs onnx-graphsurgeon",
        "install it with `pip install 'infer-opt[surgery]'`",
    )

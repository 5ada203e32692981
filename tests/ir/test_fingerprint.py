"""Fingerprints: the same for the same model, another for any change of what it computes or what it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from infer_opt import ir
from tests.onnx_text import load, parse

TEXT = """m (float[N,3] x, bool p) => (float[N,3] y) <float[3] w = {1, 2, 3}, double[1] d = {0.1}> {
    a = Add(x, w)
    big = Constant<value = float[3,4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>()
    b = LeakyRelu<alpha = 0.5>(a)
    e = Cast<to = 1>(d)
    f = Mul(b, e)
    y = If(p) <then_branch = g () => (float[N,3] t) <float[1] c = {1}> { t = Mul(f, c) },
               else_branch = h () => (float[N,3] u) { u = Neg(f) }> }"""


def model() -> onnx.ModelProto:
    """The model, each time anew."""
    return parse(TEXT)


def node(proto: onnx.ModelProto, op: str) -> onnx.NodeProto:
    """The first node of an operator."""
    return next(node for node in proto.graph.node if node.op_type == op)


def then_branch(proto: onnx.ModelProto) -> onnx.GraphProto:
    """The branch that holds an initializer."""
    return next(attr.g for attr in node(proto, "If").attribute if attr.name == "then_branch")


def change(tensor: TensorProto) -> None:
    """Change the last bit of the last element."""
    values = numpy_helper.to_array(tensor).copy()
    values.reshape(-1)[-1] = np.nextafter(values.reshape(-1)[-1], np.inf)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def rename_symbol(proto: onnx.ModelProto) -> None:
    """Call the symbolic dimension something else."""
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = "M"


CHANGES: dict[str, Callable[[onnx.ModelProto], object]] = {
    "weight": lambda proto: change(proto.graph.initializer[0]),
    "double weight": lambda proto: change(proto.graph.initializer[1]),
    "weight in a branch": lambda proto: change(then_branch(proto).initializer[0]),
    "constant node": lambda proto: change(node(proto, "Constant").attribute[0].t),
    "attribute": lambda proto: setattr(node(proto, "LeakyRelu").attribute[0], "f", 0.50001),
    "operator in a branch": lambda proto: setattr(then_branch(proto).node[0], "op_type", "Div"),
    "node name": lambda proto: setattr(node(proto, "Add"), "name", "other"),
    "input name": lambda proto: (
        setattr(proto.graph.input[0], "name", "z"),
        node(proto, "Add").input.__setitem__(0, "z"),
    ),
    "symbol": rename_symbol,
    "opset": lambda proto: setattr(proto.opset_import[0], "version", 14),
    "order of inputs": lambda proto: node(proto, "Add").input.reverse(),
    "new initializer": lambda proto: proto.graph.initializer.append(helper.make_tensor("n", 1, [1], [1.0])),
}


@pytest.mark.parametrize("name", CHANGES)
def test_any_change_gives_another_fingerprint(name: str, tmp_path: Path) -> None:
    """One bit of one weight is enough."""
    changed = model()
    CHANGES[name](changed)
    assert ir.fingerprint(load(changed, tmp_path)) != ir.fingerprint(load(model(), tmp_path))


def test_all_changes_give_different_fingerprints(tmp_path: Path) -> None:
    """No two of them are alike."""
    found = set()
    for apply in CHANGES.values():
        changed = model()
        apply(changed)
        found.add(ir.fingerprint(load(changed, tmp_path)))
    assert len(found) == len(CHANGES)


def test_saving_and_loading_keep_the_fingerprint(tmp_path: Path) -> None:
    """Names that loading gave are written."""
    loaded = load(model(), tmp_path)
    ir.save(loaded, tmp_path / "saved.onnx")
    assert ir.fingerprint(ir.load(tmp_path / "saved.onnx")) == ir.fingerprint(loaded)
    assert ir.fingerprint(ir.clone(loaded)) == ir.fingerprint(loaded)


def test_where_weights_lie_and_who_made_the_model_do_not_count(tmp_path: Path) -> None:
    """The fields of a tensor, the producer and the metadata say nothing of the computation."""
    other = model()
    other.producer_name = "exporter"
    helper.set_model_props(other, {"note": "text"})
    weight = other.graph.initializer[0]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight), weight.name))
    assert weight.HasField("raw_data")
    assert ir.fingerprint(load(other, tmp_path)) == ir.fingerprint(load(model(), tmp_path))


def test_strings_count(tmp_path: Path) -> None:
    """They have no bytes of fixed width."""
    text = 'm (float[N] x) => (float[N] y, string[2] s) <string[2] k = {"a", "bc"}> { y = Relu(x)  s = Identity(k) }'
    assert ir.fingerprint(load(text, tmp_path)) != ir.fingerprint(
        load(text.replace('"a", "bc"', '"ab", "c"'), tmp_path)
    )

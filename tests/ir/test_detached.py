"""Detached weights: a session of the small bytes and the arrays gives what one of the whole model gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from infer_opt import ir
from infer_opt.calibrate.runner import Runner
from tests.targets.networks import Network, normal

LARGE = normal(64, 64, 3, 3)
CONV = Network(
    "net (float[N,64,8,8] x) => (float[N,64,8,8] y) { c = Conv<pads=[1,1,1,1]>(x, w, b) y = Add(c, s) }",
    {"w": LARGE, "b": normal(64), "s": normal(64, 8, 8)},
)


def test_larger_weights_stand_beside_the_bytes(tmp_path: Path) -> None:
    """Small ones, which may decide shapes, stay; outputs are those of the whole model, bit for bit."""
    model = CONV.load(tmp_path)
    detached = ir.detach(model)
    assert set(detached.weights) == {"w", "s"}
    assert len(detached.model) < 2000 < LARGE.nbytes
    feed = {"x": normal(2, 64, 8, 8)}
    whole = Runner(ir.serialize(model), "the model").run(feed)
    np.testing.assert_array_equal(Runner(detached, "the model").run(feed)["y"], whole["y"])


def test_a_disposable_model_is_changed_and_gives_the_same(tmp_path: Path) -> None:
    """No copy is made of its graph; what shares its tensors stays whole."""
    model = CONV.load(tmp_path)
    copy, kept = ir.clone(model), ir.fingerprint(model)
    detached = ir.detach(copy, disposable=True)
    assert detached.model == ir.detach(model).model
    assert copy.graph[0].outputs[0].shape is None
    assert ir.fingerprint(model) == kept
    feed = {"x": normal(2, 64, 8, 8)}
    whole = Runner(ir.serialize(model), "the model").run(feed)
    np.testing.assert_array_equal(Runner(detached, "the model").run(feed)["y"], whole["y"])


def test_weights_are_shared_with_the_model_and_the_model_stays_as_it_was(tmp_path: Path) -> None:
    """No copy is made of what the model holds in memory."""
    model = CONV.load(tmp_path)
    model.graph.initializers["w"].const_value = ir.tensor(LARGE)
    before = ir.fingerprint(model)
    assert np.shares_memory(ir.detach(model).weights["w"], LARGE)
    assert ir.fingerprint(model) == before


def test_external_data_is_not_read_before_it_is_used(tmp_path: Path) -> None:
    """It comes as the memory map of its file."""
    proto = CONV.proto()
    onnx.save(proto, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    detached = ir.detach(ir.load(tmp_path / "net.onnx"))
    assert isinstance(detached.weights["w"].base, np.memmap | memoryview) or not detached.weights["w"].flags.owndata
    np.testing.assert_array_equal(detached.weights["w"], LARGE)


@pytest.mark.parametrize("kind", [onnx.TensorProto.BFLOAT16, onnx.TensorProto.INT4])
def test_what_numpy_has_no_type_for_stays_inside(tmp_path: Path, kind: int) -> None:
    """bfloat16 and 4-bit weights."""
    weight = onnx.helper.make_tensor("w", kind, [4096], np.ones(4096))
    cast = onnx.helper.make_node("Cast", ["w"], ["f"], to=onnx.TensorProto.FLOAT)
    add = onnx.helper.make_node("Add", ["x", "f"], ["y"])
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4096]) for name in "xy"]
    graph = onnx.helper.make_graph([cast, add], "net", values[:1], values[1:], [weight])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(proto, tmp_path / "net.onnx")
    assert not ir.detach(ir.load(tmp_path / "net.onnx")).weights


def test_an_old_model_that_lists_its_initializers_stays_whole(tmp_path: Path) -> None:
    """Before IR version 4 they are inputs too, and no constants to a runtime that gets them from outside."""
    proto = CONV.proto()
    proto.ir_version = 3
    proto.graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in proto.graph.initializer
    )
    onnx.save(proto, tmp_path / "net.onnx")
    assert not ir.detach(ir.load(tmp_path / "net.onnx")).weights


def test_a_weight_that_nobody_reads_and_one_that_only_a_branch_reads(tmp_path: Path) -> None:
    """The first stays inside, the second is found from the branch."""
    text = """net (bool c, float[64,64] x) => (float[64,64] y) {
        y = If (c) <then_branch = t () => (float[64,64] p) { p = Add(x, inner) },
                    else_branch = e () => (float[64,64] q) { q = Neg(x) }> }"""
    model = Network(text, {"inner": normal(64, 64), "unused": normal(64, 64)}).load(tmp_path)
    detached = ir.detach(model)
    assert set(detached.weights) == {"inner"}
    feed = {"c": np.ones((), np.bool_), "x": normal(64, 64)}
    found = Runner(detached, "the model").run(feed)["y"]
    np.testing.assert_array_equal(found, normal(64, 64) + normal(64, 64))

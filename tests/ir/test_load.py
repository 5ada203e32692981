"""Loading: sorted, named, inlined, its shapes inferred anew, and everything a caller sees left as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from infer_opt import ir
from tests.onnx_text import HEADER, load, parse, random_feed, run


def typed(model: ir.Model) -> dict[str, str]:
    """Dtype and shape of every value that a node makes, by name, as the text form writes them."""
    values = [value for graph in model.graphs() for node in graph for value in node.outputs]
    return {
        str(value.name): f"{value.dtype.name.lower()}{list(ir.dims(value) or [])}" for value in values if value.dtype
    }


def test_nodes_out_of_order_are_sorted(tmp_path: Path) -> None:
    """Each node stands behind those it reads, those that its branches read too."""
    text = """m (float[2] x, bool p) => (float[2] y) {
        y = Neg(c)
        c = If(p) <then_branch = g () => (float[2] t) { t = Abs(u)  u = Relu(b) },
                   else_branch = h () => (float[2] e) { e = Neg(x) }>
        b = Exp(a)
        a = Relu(x) }"""
    model = load(text, tmp_path)
    assert [node.op_type for node in model.graph] == ["Relu", "Exp", "If", "Neg"]
    ir.check_legal(model)


def test_unnamed_nodes_are_named_after_their_outputs(tmp_path: Path) -> None:
    """That is what a user can look up in a viewer."""
    model = load("m (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }", tmp_path)
    assert [node.name for node in model.graph] == ["Relu:a", "Neg:y"]


def test_doubly_named_nodes_get_names_of_their_own(tmp_path: Path) -> None:
    """The first keeps the name."""
    proto = parse("m (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(a)  y = Abs(b) }")
    for node in proto.graph.node:
        node.name = "n"
    assert [node.name for node in load(proto, tmp_path).graph] == ["n", "n_1", "n_2"]


SIBLINGS = """m (float[N] x, bool p) => (float[N] y) {
    r = If(p) <
      then_branch = g () => (float[N] t) <float[1] w = {1}> { u = Add(x, w)  t = Neg(u) },
      else_branch = h () => (float[N] t) <float[1] w = {2}> { u = Mul(x, w)  t = Abs(u) }>
    y = Relu(r) }"""


def test_sibling_branches_get_names_of_their_own(tmp_path: Path) -> None:
    """No name is taken twice in the whole model, and both branches still compute what they did."""
    model = load(SIBLINGS, tmp_path)
    values = [value for graph in model.graphs() for node in graph for value in node.outputs]
    names = [value.name for value in values] + [name for graph in model.graphs() for name in graph.initializers]
    assert len(names) == len(set(names)) == 8
    for sign in (True, False):
        feed = {**random_feed(parse(SIBLINGS), {"N": 3}, 0), "p": np.array(sign)}
        expected = run(parse(SIBLINGS).SerializeToString(), feed)
        np.testing.assert_array_equal(run(ir.serialize(model), feed), expected)


def test_a_branch_may_use_a_name_that_comes_later_outside(tmp_path: Path) -> None:
    """It is another value, and no cycle."""
    text = """m (float[N] x, bool p) => (float[N] t) {
        r = If(p) <then_branch = g () => (float[N] a) { t = Abs(x)  a = Relu(t) },
                   else_branch = h () => (float[N] b) { b = Neg(x) }>
        t = Relu(r) }"""
    model = load(text, tmp_path)
    assert [node.op_type for node in model.graph] == ["If", "Relu"]
    inner = [
        value.name for graph in model.graphs() if graph is not model.graph for node in graph for value in node.outputs
    ]
    assert sorted(inner) == ["a", "b", "t_1"]
    assert ir.interface(model).outputs[0].name == "t"


def test_inputs_and_outputs_keep_their_names(tmp_path: Path) -> None:
    """A branch that uses the name of an output gives way."""
    model = load("m (float[N] y1) => (float[N] y, float[N] z) { y = Relu(y1)  z = Neg(y) }", tmp_path)
    interface = ir.interface(model)
    assert [port.name for port in (*interface.inputs, *interface.outputs)] == ["y1", "y", "z"]


def test_optional_outputs_that_are_not_wanted_stay_unnamed(tmp_path: Path) -> None:
    """A name would ask for them."""
    text = "m (float[3] x) => (int64[2] y) <int64[1] k = {2}> { , y = TopK(x, k) }"
    model = load(text, tmp_path)
    assert [value.name or "" for value in next(iter(model.graph)).outputs] == ["", "y"]


FUNCTIONS = """<ir_version: 8, opset_import: ["": 13, "my": 1]>
    m (float[2,3] x) => (float[2,3] y) { t = my.Outer <slope = 0.5>(x)  y = my.Inner(t) }
    <domain: "my", opset_import: ["": 13]>
    Inner <alpha: float = 0.25>(a) => (b) { c = LeakyRelu<alpha: float = @alpha>(a)  b = Neg(c) }
    <domain: "my", opset_import: ["": 13, "my": 1]>
    Outer <slope>(a) => (b) { c = my.Inner<alpha: float = @slope>(a)  b = Abs(c) }"""


def test_functions_are_inlined_with_their_attributes(tmp_path: Path) -> None:
    """An attribute is passed down two levels, or takes its default."""
    model = load(FUNCTIONS, tmp_path)
    slopes = [ir.attribute(node, "alpha") for node in model.graph if node.op_type == "LeakyRelu"]
    assert slopes == [0.5, 0.25]
    assert [node.op_type for node in model.graph] == ["LeakyRelu", "Neg", "Abs", "LeakyRelu", "Neg"]
    assert not model.functions
    feed = random_feed(parse(FUNCTIONS), {}, 0)
    expected = run(parse(FUNCTIONS).SerializeToString(), feed)
    np.testing.assert_array_equal(run(ir.serialize(model), feed), expected)


def test_functions_with_nodes_out_of_order_are_inlined(tmp_path: Path) -> None:
    """They are sorted first."""
    text = """<ir_version: 8, opset_import: ["": 13, "my": 1]> m (float[2] x) => (float[2] y) { y = my.F(x) }
        <domain: "my", opset_import: ["": 13]> F (a) => (b) { b = Neg(c)  c = Relu(a) }"""
    assert [node.op_type for node in load(text, tmp_path).graph] == ["Relu", "Neg"]


def test_annotations_of_inner_values_are_not_trusted(tmp_path: Path) -> None:
    """Shapes in the file that are false, in the main graph and in a branch, are inferred anew."""
    proto = parse("""m (float[N] x, bool p) => (float[N] y) {
        a = Relu(x)
        y = If(p) <then_branch = g () => (float[N] t) { b = Abs(a)  t = Neg(b) },
                   else_branch = h () => (float[N] e) { e = Neg(a) }> }""")
    branch = next(attr.g for attr in proto.graph.node[1].attribute if attr.name == "then_branch")
    proto.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [7]))
    branch.value_info.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [7]))
    shapes = typed(load(proto, tmp_path))
    assert shapes["a"] == shapes["b"] == "float['N']"


def test_initializers_listed_as_inputs_by_old_models_are_constants(tmp_path: Path) -> None:
    """Before IR version 4 they had to be listed, and the list is written again on saving."""
    text = '<ir_version: 3, opset_import: ["": 9]> m (float[N] x, float[1] w) => (float[N] y) { y = Add(x, w) }'
    proto = parse(text)
    proto.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0]))
    model = load(proto, tmp_path)
    assert [port.name for port in ir.interface(model).inputs] == ["x"]
    assert ir.is_constant(model.graph.initializers["w"])
    saved = onnx.ModelProto.FromString(ir.serialize(model))
    onnx.checker.check_model(saved)
    assert (saved.ir_version, [value.name for value in saved.graph.input]) == (3, ["x", "w"])


def test_initializers_listed_as_inputs_by_new_models_are_defaults(tmp_path: Path) -> None:
    """A caller may give another value, so the input stays."""
    model = load("m (float[N] x, float[1] w = {2}) => (float[N] y) { y = Add(x, w) }", tmp_path)
    assert [(port.name, port.optional) for port in ir.interface(model).inputs] == [("x", False), ("w", True)]
    assert not ir.is_constant(model.graph.initializers["w"])


def test_the_long_name_of_the_default_domain(tmp_path: Path) -> None:
    """`ai.onnx` is the empty domain."""
    text = HEADER.replace('""', '"ai.onnx"') + "m (float[2] x) => (float[2] y) { y = ai.onnx.Relu(x) }"
    model = load(text, tmp_path)
    assert (model.opset_imports, next(iter(model.graph)).domain) == ({"": 13}, "")


def test_metadata_is_kept(tmp_path: Path) -> None:
    """Producer, versions, descriptions and properties are there after loading and saving."""
    proto = parse("m (float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.producer_name, proto.producer_version, proto.model_version = "exporter", "1.2", 7
    proto.domain, proto.doc_string, proto.graph.doc_string = "example", "what it is", "what it does"
    helper.set_model_props(proto, {"classes": "cat,dog", "stride": "32"})
    saved = onnx.ModelProto.FromString(ir.serialize(load(proto, tmp_path)))
    kept = ("producer_name", "producer_version", "model_version", "domain", "doc_string", "ir_version")
    assert {name: getattr(saved, name) for name in kept} == {name: getattr(proto, name) for name in kept}
    assert saved.graph.doc_string == "what it does"
    assert {item.key: item.value for item in saved.metadata_props} == {"classes": "cat,dog", "stride": "32"}


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_may_be_text(kind: type, tmp_path: Path) -> None:
    """Both are read."""
    load("m (float[2] x) => (float[2] y) { y = Relu(x) }", tmp_path)
    assert len(ir.load(kind(tmp_path / "model.onnx")).graph) == 1

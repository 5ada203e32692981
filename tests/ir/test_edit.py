"""Edits: substitution keeps the interface, and a new node knows which nodes it stands for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from tests.onnx_text import load, node_kinds


def values_of(model: ir.Model) -> dict[str, ir.Value]:
    """Every value by its name."""
    found = [*model.graph.inputs, *model.graph.initializers.values()]
    found += [value for graph in model.graphs() for node in graph for value in node.outputs]
    return {str(value.name): value for value in found}


def test_an_inner_value_is_substituted_for_all_its_users(tmp_path: Path) -> None:
    """A branch that reads it is one of them."""
    text = """m (float[N] x, bool p) => (float[N] y, float[N] z) {
        a = Relu(x)  b = Identity(a)  y = Neg(b)
        z = If(p) <then_branch = g () => (float[N] t) { t = Abs(b) },
                   else_branch = h () => (float[N] e) { e = Neg(x) }> }"""
    model = load(text, tmp_path)
    values = values_of(model)
    assert ir.substitute(values["b"], values["a"])
    assert not values["b"].uses()
    assert {user.op_type for user, _ in values["a"].uses()} == {"Identity", "Neg", "Abs"}


def test_an_output_hands_its_name_on(tmp_path: Path) -> None:
    """The new value takes name, dtype and declared shape, and its other users follow it."""
    text = "m (float[N] x) => (float[M] y, float[N] z) { a = Relu(x)  y = Identity(a)  z = Neg(a) }"
    model = load(text, tmp_path)
    values = values_of(model)
    before = ir.interface(model)
    assert ir.substitute(values["y"], values["a"])
    ir.remove(next(node for node in model.graph if node.op_type == "Identity"))
    assert ir.interface(model) == before
    assert (values["a"].name, ir.dims(values["a"])) == ("y", ("M",))
    ir.check_legal(model)


@pytest.mark.parametrize("other", ["x", "w", "z"])
def test_an_output_is_not_handed_on_to_what_has_a_name_of_its_own(other: str, tmp_path: Path) -> None:
    """An input, an initializer and another output keep theirs; nothing is changed."""
    text = """m (float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}> {
        a = Add(x, w)  z = Relu(a)  y = Identity(a) }"""
    model = load(text, tmp_path)
    values = values_of(model)
    before = ir.text(model)
    assert not ir.substitute(values["y"], values[other])
    assert ir.text(model) == before


def test_the_output_of_a_branch_is_not_handed_on_to_a_value_outside(tmp_path: Path) -> None:
    """A branch makes its own output."""
    text = """m (float[N] x, bool p) => (float[N] y) {
        a = Relu(x)
        y = If(p) <then_branch = g () => (float[N] t) { t = Identity(a) },
                   else_branch = h () => (float[N] e) { e = Neg(a) }> }"""
    model = load(text, tmp_path)
    values = values_of(model)
    assert not ir.substitute(values["t"], values["a"])


def test_a_node_in_use_is_not_removed(tmp_path: Path) -> None:
    """Its users would read what nobody makes."""
    model = load("m (float[N] x) => (float[N] y) { a = Relu(x)  y = Neg(a) }", tmp_path)
    with pytest.raises(ValueError, match="still"):
        ir.remove(next(iter(model.graph)))
    assert node_kinds(model) == ["Relu", "Neg"]


def test_replaced_nodes_hand_on_their_output(tmp_path: Path) -> None:
    """The replacement stands where the last of them stood, under the old name."""
    model = load("m (float[N] x) => (float[N] y) { a = Relu(x)  y = Neg(a)  b = Abs(x) }", tmp_path)
    relu, neg, _ = model.graph
    made = ir.make_node("Exp", [model.graph.inputs[0]], name="made")
    ir.replace_nodes(model.graph, [relu, neg], neg.outputs[0], [made], made.outputs[0])
    assert node_kinds(model) == ["Exp", "Abs"]
    assert ir.interface(model).outputs[0].name == "y"
    ir.check_legal(model)


def test_a_clone_shares_the_weights_and_nothing_else(tmp_path: Path) -> None:
    """Changing the copy leaves the original as it is; where nodes came from is copied."""
    model = load("m (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", tmp_path)
    node = next(iter(model.graph))
    ir.set_origin(node, [ir.make_node("Mul", [None], name="old")])
    copy = ir.clone(model)
    before = ir.text(model)
    assert copy.graph.initializers["w"].const_value is model.graph.initializers["w"].const_value
    assert ir.origin(next(iter(copy.graph))) == ("old",)
    next(iter(copy.graph)).op_type = "Mul"
    ir.add_initializer(copy.graph, "v", np.zeros(3, np.float32))
    assert ir.text(model) == before


def test_origins_are_gathered_in_order_each_once() -> None:
    """A node of the file stands for itself, one without a name for nothing."""
    first, second = ir.make_node("Relu", [None], name="first"), ir.make_node("Relu", [None], name="second")
    merged, again = ir.make_node("Relu", [None], name="merged"), ir.make_node("Relu", [None], name="again")
    ir.set_origin(merged, [second, first])
    ir.set_origin(again, [first, merged, ir.make_node("Relu", [None])])
    assert (ir.origin(first), ir.origin(merged), ir.origin(again)) == (
        ("first",),
        ("second", "first"),
        ("first", "second"),
    )


def test_attributes_have_plain_values_and_defaults(tmp_path: Path) -> None:
    """A list, a number, a word, and one that is not there."""
    text = (
        'm (float[1,1,4,4] x, float[1,1,3,3] w) => (float[1,1,4,4] y) { y = Conv<auto_pad="VALID", pads=[1,1]>(x, w) }'
    )
    conv = next(iter(load(text, tmp_path).graph))
    assert (ir.attribute(conv, "auto_pad"), list(ir.attribute(conv, "pads"))) == ("VALID", [1, 1])
    assert (ir.attribute(conv, "group", 1), ir.attribute(conv, "group")) == (1, None)


def test_inner_graphs_are_those_of_the_branches(tmp_path: Path) -> None:
    """A node without any has none."""
    text = """m (float[N] x, bool p) => (float[N] y) { a = Relu(x)
        y = If(p) <then_branch = g () => (float[N] t) { t = Abs(a) },
                   else_branch = h () => (float[N] e) { e = Neg(a) }> }"""
    relu, branches = load(text, tmp_path).graph
    assert [graph.name for graph in ir.inner_graphs(branches)] == ["g", "h"]
    assert list(ir.inner_graphs(relu)) == []


def test_interface_values_are_the_inputs_and_outputs(tmp_path: Path) -> None:
    """Nothing between them."""
    model = load("m (float[N] x) => (float[N] y) { a = Relu(x)  y = Neg(a) }", tmp_path)
    assert {value.name for value in ir.interface_values(model.graph)} == {"x", "y"}


def test_a_constant_value_takes_dtype_and_shape_from_its_content() -> None:
    """Of an array, a list, or a tensor."""
    value = ir.constant_value("w", np.zeros((2, 3), np.float16))
    assert (value.name, value.dtype, ir.dims(value)) == ("w", ir.DataType.FLOAT16, (2, 3))
    assert ir.dims(ir.constant_value(None, ir.tensor([1, 2]))) == (2,)

"""Faults planted in a graph by hand are found by `check_legal`, in the main graph and in branches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infer_opt import ir
from tests.onnx_text import load

TEXT = """m (float[N] x, bool p) => (float[N] y) <float[1] w = {1}> {
    a = Add(x, w)
    b = Neg(a)
    y = If(p) <then_branch = g () => (float[N] t) { c = Abs(b)  t = Relu(c) },
               else_branch = h () => (float[N] e) { e = Neg(a) }> }"""


def node(model: ir.Model, name: str) -> ir.Node:
    """The node that makes a value, anywhere in the model."""
    return next(node for graph in model.graphs() for node in graph if node.outputs[0].name == name)


def drop_content(model: ir.Model) -> None:
    """Take the tensor away from an initializer."""
    model.graph.initializers["w"].const_value = None


def swap(model: ir.Model) -> None:
    """Put a node before the one it reads."""
    late, early = node(model, "b"), node(model, "a")
    model.graph.remove(late)
    model.graph.insert_before(early, late)


def rename(old: str, new: str) -> Callable[[ir.Model], None]:
    """Give a value the name of another."""

    def plant(model: ir.Model) -> None:
        node(model, old).outputs[0].name = new

    return plant


def read_out_of_scope(model: ir.Model) -> None:
    """Let one branch read a value of the other."""
    node(model, "e").replace_input_with(0, node(model, "c").outputs[0])


def read_from_a_branch(model: ir.Model) -> None:
    """Let the main graph read a value of a branch."""
    made = ir.make_node("Relu", [node(model, "c").outputs[0]], name="late")
    made.outputs[0].name = "late"
    model.graph.append(made)


def lose_an_output(model: ir.Model) -> None:
    """Make an output of a value that no node makes."""
    model.graph.outputs[0] = ir.Value(name="lost")


def lose_a_node(model: ir.Model) -> None:
    """Remove a node that others read."""
    model.graph.remove(node(model, "a"))


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        pytest.param(drop_content, "initializer `w` has no content", id="content"),
        pytest.param(swap, "node `Neg:b` (Neg) reads `a` before it is made", id="order"),
        pytest.param(rename("b", "x"), "two values are named `x`", id="name"),
        pytest.param(rename("e", "c"), "two values are named `c`", id="name in a branch"),
        pytest.param(rename("c", "a"), "two values are named `a`", id="name from outside"),
        pytest.param(read_out_of_scope, "node `Neg:e` (Neg) reads `c` before it is made", id="scope"),
        pytest.param(read_from_a_branch, "node `late` (Relu) reads `c` before it is made", id="scope of a branch"),
        pytest.param(lose_an_output, "output `lost` is made by no node", id="output"),
        pytest.param(lose_a_node, "node `Neg:b` (Neg) reads `a` before it is made", id="node"),
    ],
)
def test_a_planted_fault_is_found(plant: Callable[[ir.Model], None], words: str, tmp_path: Path) -> None:
    """The value and the node are named."""
    model = load(TEXT, tmp_path)
    ir.check_legal(model)
    plant(model)
    with pytest.raises(ir.IllegalModelError) as caught:
        ir.check_legal(model)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("m (float[N] x) => (float[N] x) { y = Relu(x) }", id="input as output"),
        pytest.param("m (float[1] x) => (float[1] w) <float[1] w = {1}> { y = Relu(x) }", id="initializer as output"),
        pytest.param("m (float[N] x) => (float[N] y, float[N] y) { y = Relu(x) }", id="output listed twice"),
        pytest.param("m (float[1] x = {1}) => (float[1] y) { y = Relu(x) }", id="input with a default"),
        pytest.param("m (float[3] x, int64[1] k) => (int64[A] i) { , i = TopK(x, k) }", id="unnamed output"),
    ],
)
def test_unusual_graphs_are_legal(text: str, tmp_path: Path) -> None:
    """What onnxruntime runs is no fault."""
    ir.check_legal(load(text, tmp_path))

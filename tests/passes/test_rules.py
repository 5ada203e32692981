"""The rule engine: what is matched, in which order rules are tried, and what a new node is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes import Change, Miss, Pipeline
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule, apply_rules
from tests.onnx_text import HEADER, load, node_kinds


@dataclass
class TwiceInARow(Rule):
    """`op(op(x))` to `new(x, constant)`; declines where the inner node's name is `keep`."""

    operator: str
    new: str
    name: str = "twice"

    @property
    def root(self) -> str:
        """The operator."""
        return self.operator

    def pattern(self, op: Any, x: Any) -> Any:
        """One behind the other."""
        return getattr(op, self.operator)(getattr(op, self.operator)(x, _outputs=["inner"]))

    def check(self, match: Match) -> np.ndarray:
        """The constant for the rewrite."""
        if match.node("inner").name == "keep":
            raise Decline("it is to be kept")
        return np.array([2], np.float32)

    def rewrite(self, op: Builder, match: Match, facts: np.ndarray) -> ir.Value:
        """A node of each kind that there can be."""
        return op.node(self.new, [match["x"], op.initializer(facts, "x")])


class AddOfNegative(Rule):
    """`a + -b` to `a - b`, on whichever side the negative stands."""

    name, root, commutes = "add of negative", "Add", True

    def pattern(self, op: Any, a: Any, b: Any) -> Any:
        """The negative on the right; the engine swaps."""
        return op.Add(a, op.Neg(b))

    def check(self, match: Match) -> None:
        """Always."""

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        """A Sub."""
        del facts
        return op.node("Sub", [match["a"], match["b"]])


def applied(text: str, folder: Path, *rules: Rule, prepare: Callable[[ir.Model], None] | None = None) -> Any:
    """The model, and what one walk over it found."""
    model = load(text, folder)
    if prepare is not None:
        prepare(model)
    found = list(apply_rules(model, rules))
    ir.check_legal(model)
    return model, found


def test_a_rewrite_is_recorded_with_the_nodes_it_replaced(tmp_path: Path) -> None:
    """The new node knows them, and is called as the last of them where it is of another operator."""
    text = "m (float[1] x) => (float[1] y) { a = Relu(x)  b = Relu(a)  y = Neg(b) }"
    model, found = applied(text, tmp_path, TwiceInARow("Relu", "Max"))
    assert found == [Change("twice", ("Relu:a", "Relu:b"))]
    new = next(iter(model.graph))
    assert (new.op_type, new.name, ir.origin(new)) == ("Max", "Relu:b", ("Relu:a", "Relu:b"))
    assert [value.name for value in new.outputs] == ["b"]


def test_new_initializers_get_free_names(tmp_path: Path) -> None:
    """Named after what they are like; `x` is taken."""
    text = "m (float[1] x) => (float[1] y) { a = Relu(x)  y = Relu(a) }"
    model, _ = applied(text, tmp_path, TwiceInARow("Relu", "Max"))
    assert list(model.graph.initializers) == ["x_1"]


def test_a_rule_that_declines_gives_its_reason(tmp_path: Path) -> None:
    """The graph stays, and the node is named."""

    def keep(model: ir.Model) -> None:
        next(iter(model.graph)).name = "keep"

    text = "m (float[1] x) => (float[1] y) { a = Relu(x)  y = Relu(a) }"
    model, found = applied(text, tmp_path, TwiceInARow("Relu", "Max"), prepare=keep)
    assert found == [Miss("twice", "Relu:y", "it is to be kept")]
    assert node_kinds(model) == ["Relu", "Relu"]


def test_the_first_rule_that_fires_at_a_node_is_the_only_one(tmp_path: Path) -> None:
    """In the order of the table."""
    text = "m (float[1] x) => (float[1] y) { a = Relu(x)  y = Relu(a) }"
    for first, second in (("Max", "Min"), ("Min", "Max")):
        rules = TwiceInARow("Relu", first, "one"), TwiceInARow("Relu", second, "other")
        model, found = applied(text, tmp_path, *rules)
        assert [change.rule for change in found] == ["one"]
        assert node_kinds(model) == [first]


def test_a_rule_that_does_not_match_makes_room_for_the_next(tmp_path: Path) -> None:
    """Another operator is not even a near miss."""
    text = "m (float[1] x) => (float[1] y) { a = Relu(x)  y = Relu(a) }"
    _, found = applied(text, tmp_path, TwiceInARow("Neg", "Min", "neg"), TwiceInARow("Relu", "Max"))
    assert [change.rule for change in found] == ["twice"]


def test_operators_that_commute_are_matched_both_ways(tmp_path: Path) -> None:
    """The negative on either side."""
    text = """m (float[1] x, float[1] z) => (float[1] y, float[1] w) {
        a = Neg(z)  y = Add(x, a)  b = Neg(x)  w = Add(b, z) }"""
    model, found = applied(text, tmp_path, AddOfNegative())
    assert [type(item) for item in found] == [Change, Change]
    assert [[value.name for value in node.inputs] for node in model.graph] == [["x", "z"], ["z", "x"]]


def test_a_node_that_others_read_is_not_replaced(tmp_path: Path) -> None:
    """Not even where the other is an output of the model."""
    text = "m (float[1] x) => (float[1] y, float[1] a) { a = Relu(x)  y = Relu(a) }"
    model, found = applied(text, tmp_path, TwiceInARow("Relu", "Max"))
    assert [type(item) for item in found] == [Miss]
    assert node_kinds(model) == ["Relu", "Relu"]


def test_branches_are_walked_too(tmp_path: Path) -> None:
    """What is made for a branch is put into the branch."""
    text = """m (float[1] x, bool p) => (float[1] y) {
        y = If(p) <then_branch = g () => (float[1] t) { a = Relu(x)  t = Relu(a) },
                   else_branch = h () => (float[1] e) { e = Neg(x) }> }"""
    model, _ = applied(text, tmp_path, TwiceInARow("Relu", "Max"))
    branch = next(graph for graph in model.graphs() if graph.name == "g")
    assert [node.op_type for node in branch] == ["Max"]
    assert list(branch.initializers) == ["x_1"]
    assert not model.graph.initializers


def test_operators_of_other_domains_are_not_matched(tmp_path: Path) -> None:
    """Whatever they are called."""
    text = HEADER.replace("]", ', "my": 1]') + "m (float[1] x) => (float[1] y) { a = my.Relu(x)  y = my.Relu(a) }"
    model, found = applied(text, tmp_path, TwiceInARow("Relu", "Max"))
    assert (found, node_kinds(model)) == ([], ["Relu", "Relu"])


class Chain(Rule):
    """A chain of operators to Identity; the check may decline."""

    def __init__(self, *operators: str, near: int = 2, opset: int = 1, declines: str = "", name: str = "chain") -> None:
        self.operators, self.root = operators, operators[-1]
        self.near, self.opset, self.declines, self.name = near, opset, declines, name

    def pattern(self, op: Any, x: Any) -> Any:
        """The operators in order."""
        for operator in self.operators:
            x = getattr(op, operator)(x)
        return x

    def check(self, match: Match) -> None:
        """As it was told."""
        del match
        if self.declines:
            raise Decline(self.declines)

    def rewrite(self, op: Builder, match: Match, facts: None) -> ir.Value:
        """Nothing of them is left."""
        del facts
        return op.node("Identity", [match["x"]])


CHAIN = "m (float[1] x) => (float[1] y) { a = Relu(x)  b = Neg(a)  c = Abs(b)  y = Exp(c) }"


def test_a_rule_waits_for_the_opset_of_what_it_builds(tmp_path: Path) -> None:
    """A model of an older one keeps what it has, and hears nothing of it."""
    old, found = applied(CHAIN, tmp_path, Chain("Abs", "Exp", opset=14))
    assert (found, node_kinds(old)) == ([], ["Relu", "Neg", "Abs", "Exp"])
    new, found = applied(HEADER.replace("13", "14") + CHAIN, tmp_path, Chain("Abs", "Exp", opset=14))
    assert (len(found), node_kinds(new)) == (1, ["Relu", "Neg", "Identity"])


def test_of_the_spellings_of_a_rule_the_nearest_miss_is_told(tmp_path: Path) -> None:
    """The one of which most nodes matched, the first of equals; another rule's miss is told beside it."""
    spellings = Chain("Abs", "Abs", "Exp"), Chain("Neg", "Abs", "Exp", declines="first"), Chain("Sin", "Abs", "Exp")
    last = Chain("Neg", "Abs", "Exp", declines="second")
    other = Chain("Abs", "Exp", declines="other", name="other")
    _, found = applied(CHAIN, tmp_path, *spellings, last, other)
    assert found == [Miss("chain", "Exp:y", "first"), Miss("other", "Exp:y", "other")]


def test_what_is_far_from_firing_is_not_told(tmp_path: Path) -> None:
    """Fewer nodes matched than the rule asks for, whether the pattern failed or the check declined."""
    _, found = applied(CHAIN, tmp_path, Chain("Sin", "Abs", "Exp", near=3), Chain("Exp", declines="alone"))
    assert found == []
    _, found = applied(CHAIN, tmp_path, Chain("Sin", "Abs", "Exp"), Chain("Exp", near=1, declines="alone", name="one"))
    assert [(miss.rule, miss.node) for miss in found] == [("chain", "Exp:y"), ("one", "Exp:y")]


def test_a_cast_of_another_domain_reads_what_it_read(tmp_path: Path) -> None:
    """Who knows what it makes of another dtype."""
    text = """
        <ir_version: 8, opset_import: ["": 13, "other": 1]>
        m (float[N] x) => (float[N] y)
        {
            a = Cast <to = 11> (x)
            y = other.Cast(a)
        }"""
    after, _ = Pipeline.parse("simplify").run(load(text, tmp_path))
    assert node_kinds(after) == ["Cast", "Cast"]

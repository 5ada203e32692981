"""Cuts: what crosses one, and that the part behind it computes what the whole model does."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from tests.onnx_text import load, parse, random_feed, run

CHAIN = """m (float[N,4] x, float[N,4] late) => (float[N,4] y)
    <float[4] scale = {1.0, 2.0, 3.0, 4.0}>
    {
      [a] a = Relu(x)
      [b] b = Neg(a)
      [known] k = Sqrt(scale)
      [c] c = Mul(b, k)
      [skip] d = Add(c, a)
      [end] y = Add(d, late)
    }"""
TWO_OUTPUTS = """m (float[2] x) => (float[2] early, float[2] y)
    { [a] early = Relu(x) [b] b = Neg(early) [c] y = Sqrt(b) }"""
BRANCHES = """m (bool[] flag, float[2] x) => (float[2] y)
    {
      [a] a = Relu(x)
      [b] b = Neg(a)
      [if] c = If(flag) <
        then_branch = yes () => (float[2] t) { t = Add(a, b) },
        else_branch = no () => (float[2] e) { e = Exp(b) }
      >
      [end] y = Neg(c)
    }"""


def sizes(model: ir.Model) -> list[float]:
    """Of all cuts, for inputs of shape (3, 4) or as they are fixed."""
    shapes = {str(value.name): [3, 4] for value in model.graph.inputs if ir.rank(value) == 2}
    return ir.crossing_sizes(model, ir.value_sizes(model, shapes))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CHAIN, [0, 12, 24, 24, 24, 12]),
        (TWO_OUTPUTS, [0, math.inf, math.inf]),
        (BRANCHES, [0, 2, 4, math.inf]),
    ],
    ids=["chain", "outputs", "branches"],
)
def test_what_crosses_each_cut(text: str, expected: list[float], tmp_path: Path) -> None:
    """Constants and inputs do not count; outputs and nodes with bodies forbid a cut behind them."""
    assert sizes(load(text, tmp_path)) == expected


@pytest.mark.parametrize("text", [CHAIN, BRANCHES], ids=["chain", "branches"])
def test_both_parts_make_the_whole(text: str, tmp_path: Path) -> None:
    """At every place that can be cut, the values of the first part fed to the second give the model's outputs."""
    model = load(text, tmp_path)
    feed = random_feed(parse(text), {"N": 3}, 0)
    [expected] = run(ir.serialize(model), feed)
    for place, size in enumerate(sizes(model)):
        if not 0 < size < math.inf:
            continue
        part = ir.tail(model, place)
        wanted = [str(value.name) for value in part.graph.inputs]
        made = [name for name in wanted if name not in feed]
        head = ir.with_outputs(model, made)
        values = dict(zip([value.name for value in head.graph.outputs], run(ir.serialize(head), feed), strict=True))
        again = {name: values[name] if name in values else feed[name] for name in wanted}
        np.testing.assert_array_equal(run(ir.serialize(part), again)[0], expected)
        ir.check_legal(part)


def test_what_is_known_ahead_stays_constant(tmp_path: Path) -> None:
    """A node that works on constants alone is behind every cut, and unread weights and inputs are gone."""
    model = load(CHAIN, tmp_path)
    part = ir.tail(model, 3)
    assert [str(value.name) for value in part.graph.inputs] == ["late", "a", "b"]
    assert {node.name for node in part.graph} == {"known", "c", "skip", "end"}
    last = ir.tail(model, 5)
    assert ([node.name for node in last.graph], list(last.graph.initializers)) == (["known", "end"], ["scale"])


def test_the_model_stays_as_it_was(tmp_path: Path) -> None:
    """Cutting copies the graph."""
    model = load(CHAIN, tmp_path)
    before = ir.text(model)
    ir.tail(model, 4)
    ir.with_outputs(model, ["b"])
    assert ir.text(model) == before

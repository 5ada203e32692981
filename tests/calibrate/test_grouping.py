"""Groups, and the ways to lower them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.grouping import alternatives
from infer_opt.calibrate.planner import dynamic_plan
from infer_opt.calibrate.sample_set import SampleSet
from tests.targets.networks import Network, for_any_host, int8_plan, normal, uniform_feeds

X86 = for_any_host("x86-avx512-vnni")
IMAGES = uniform_feeds(2, {"x": (1, 8, 8, 8)})
CONV = {name: normal(8, 8, 3, 3, seed=seed, scale=0.1) for seed, name in enumerate(("w1", "w2", "w3"))}


def ways(model: ir.Model, samples: SampleSet) -> list[tuple[str, str, tuple[str, ...]]]:
    """Group, plan and regions of every alternative of the plans that lower all they may."""
    static = int8_plan(model, X86, samples)
    found = alternatives([static, dynamic_plan(model, static.regions)])
    return [(way.group.name, way.plan, way.regions) for way in found]


def test_a_convolution_takes_along_what_follows_it_and_a_join_stands_alone(tmp_path: Path) -> None:
    """SiLU belongs to its Conv; a sum or Concat of two groups to neither. No Conv finds its range at run time."""
    text = """net (float[1,8,8,8] x) => (float[] y) {
        [one] a = Conv<pads=[1,1,1,1]>(x, w1) [r] b = Relu(a) [s] c = Sigmoid(b) [m] d = Mul(b, c)
        [two] e = Conv<pads=[1,1,1,1]>(d, w2) [sum] f = Add(d, e)
        [three] g = Conv<pads=[1,1,1,1]>(f, w3) [scores] h = Sigmoid(g) [join] y = Concat<axis=1>(g, h) }"""
    assert ways(Network(text, CONV).load(tmp_path), IMAGES) == [
        ("one", "int8", ("one", "s", "m")),
        ("two", "int8", ("two",)),
        ("sum", "int8", ("sum",)),
        ("three", "int8", ("three", "scores", "join")),
    ]


def test_a_matrix_product_has_two_ways_and_a_product_of_activations_one(tmp_path: Path) -> None:
    """In the order of the graph, the plan with the ranges of the samples first."""
    text = """net (float[4,8] x) => (float[] y) {
        [one] a = MatMul(x, w) [soft] s = Softmax(a) [turn] t = Transpose(a)
        [two] c = MatMul(s, t) [back] b = MatMul(c, a) [three] y = Gemm(b, w, u) }"""
    found = ways(Network(text, {"w": normal(8, 8), "u": normal(8)}).load(tmp_path), uniform_feeds(2, {"x": (4, 8)}))
    assert [(group, plan) for group, plan, _ in found if group in {"one", "three"}] == [
        ("one", "int8"),
        ("one", "int8-dynamic"),
        ("three", "int8"),
        ("three", "int8-dynamic"),
    ]
    assert [plan for group, plan, _ in found if group == "two"] == ["int8"]


def test_what_only_one_plan_lowers_is_a_group_too(tmp_path: Path) -> None:
    """A bias that is no channel's rules out the ranges of samples, but not a range found at run time."""
    text = "net (float[4,8] x) => (float[] y) { [one] y = Gemm(x, w, row) }"
    row = np.ones((1, 8), np.float32)
    model = Network(text, {"w": normal(8, 8), "row": row}).load(tmp_path)
    assert ways(model, uniform_feeds(2, {"x": (4, 8)})) == [("one", "int8-dynamic", ("one",))]


def test_no_plans_have_no_groups() -> None:
    """Nothing to lower."""
    assert alternatives([]) == ()

"""Plugins: what they register, and what it does to a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.passes import Change, Miss, Outcome, Pipeline, fusion_pattern
from infer_opt.passes.engine import plugins, registry
from infer_opt.passes.engine.loading import load_plugin
from tests.onnx_text import load, node_kinds, run
from tests.passes.plugin_texts import RENAMING, TWICE, TWO_FOR_TWO, fused, saved

pytestmark = pytest.mark.usefixtures("registries")

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "conv_relu.py"
RULE = "Conv and Relu to my.ops"

# A Conv and a Relu in the main graph and in one branch of an If; another Relu reads something else.
PAIRS = """
g (float[1,1,4,4] x, bool c) => (float[1,1,2,2] y, float[1,1,2,2] z, float[1,1,4,4] u)
<float[1,1,3,3] w = {1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0, -8.0, 9.0}> {
    v = Conv<pads = [0, 0, 0, 0]>(x, w)
    y = Relu(v)
    z = If(c) <
        then_branch = yes () => (float[1,1,2,2] a) { b = Conv(x, w) a = Relu(b) },
        else_branch = no () => (float[1,1,2,2] d) { e = Conv(x, w) d = Exp(e) }
    >
    u = Relu(x)
}
"""


def test_conv_and_relu_become_one_operator(tmp_path: Path) -> None:
    """Inputs and attributes are the Conv's; name, dtype and shape of the value that is replaced stay."""
    load_plugin(str(EXAMPLE))
    model, outcome = fused(PAIRS, tmp_path)
    assert node_kinds(model) == ["ConvRelu", "If", "Relu"]
    pair = model.graph.node(0)
    assert (pair.domain, [value.name for value in pair.inputs]) == ("my.ops", ["x", "w"])
    assert pair.attributes["pads"].value == (0, 0, 0, 0)
    [output] = pair.outputs
    assert (output.name, output.dtype, ir.dims(output)) == ("y", ir.DataType.FLOAT, (1, 1, 2, 2))
    assert model.opset_imports["my.ops"] == 1
    assert outcome.changes[0] == Change(RULE, ("Conv:v", "Relu:y"))
    assert ir.origin(pair) == ("Conv:v", "Relu:y")


def test_the_branches_of_an_if_are_walked_too(tmp_path: Path) -> None:
    """The branch with the pair gets the operator, the other stays."""
    load_plugin(str(EXAMPLE))
    model, outcome = fused(PAIRS, tmp_path)
    branches = {graph.name: [ir.operator_name(node) for node in graph] for graph in model.graphs()}
    assert branches == {"g": ["my.ops::ConvRelu", "If", "Relu"], "yes": ["my.ops::ConvRelu"], "no": ["Conv", "Exp"]}
    assert [change.rule for change in outcome.changes] == [RULE, RULE]


def test_the_expanded_model_computes_what_the_original_does(tmp_path: Path) -> None:
    """Bit for bit, whichever branch runs: the reference is the pair itself."""
    load_plugin(str(EXAMPLE))
    original = load(PAIRS, tmp_path)
    model, _ = Pipeline.parse("fuse").run(original)
    x = np.random.default_rng(0).standard_normal((1, 1, 4, 4)).astype(np.float32)
    for branch in (True, False):
        feed = {"x": x, "c": np.array(branch)}
        expected = run(ir.serialize(original), feed)
        for got, wanted in zip(run(ir.serialize(ir.expand_references(model)), feed), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
        assert expected[0].any()


def test_a_pair_that_others_read_stays(tmp_path: Path) -> None:
    """What lies between the nodes of a pattern has no other reader, and is no output of the graph."""
    load_plugin(str(EXAMPLE))
    start = "g (float[1,1,2,2] x) => (float[1,1,2,2] y, float[1,1,2,2] z) <float[1,1,1,1] w = {2.0}>"
    for text in (
        f"{start} {{ v = Conv(x, w) y = Relu(v) z = Exp(v) }}",
        f"{start} {{ z = Conv(x, w) y = Relu(z) }}",
    ):
        model, outcome = fused(text, tmp_path)
        assert "ConvRelu" not in node_kinds(model)
        assert [miss.rule for miss in outcome.misses] == [RULE]


def test_a_check_that_declines_is_a_miss_with_its_reason(tmp_path: Path) -> None:
    """The weight comes with the feed."""
    load_plugin(str(EXAMPLE))
    text = "g (float[1,1,2,2] x, float[1,1,1,1] w) => (float[1,1,2,2] y) { v = Conv(x, w) y = Relu(v) }"
    model, outcome = fused(text, tmp_path)
    assert node_kinds(model) == ["Conv", "Relu"]
    assert outcome == Outcome((), (Miss(RULE, "Relu:y", "the weight of `Conv:v` is not a constant"),))


def test_names_of_what_is_built_are_free_everywhere(tmp_path: Path) -> None:
    """Values and nodes, in the main graph and in a branch: a name given per graph would stand twice."""
    load_plugin(saved(tmp_path, TWO_FOR_TWO))
    model, outcome = fused(TWICE, tmp_path)
    assert len(outcome.changes) == 2
    nodes = [node for graph in model.graphs() for node in graph]
    assert sorted(node.op_type for node in nodes) == ["Abs", "Abs", "Exp", "Exp", "If", "Neg"]
    assert len({node.name for node in nodes}) == len(nodes)
    values = [value.name for node in nodes for value in node.outputs]
    assert len(set(values)) == len(values)
    assert {"y", "z"} < set(values)


def test_a_replacement_that_passes_a_value_on(tmp_path: Path) -> None:
    """An Identity stands for it, so that no input of the model loses its name."""
    text = TWO_FOR_TWO.replace('op.node("Abs", [op.node("Exp", [match["x"]])])', 'match["x"]')
    load_plugin(saved(tmp_path, text))
    model, _ = fused("g (float[2] x) => (float[2] y) { v = Neg(x) y = Relu(v) }", tmp_path)
    assert node_kinds(model) == ["Identity"]
    assert [value.name for value in (*model.graph.inputs, *model.graph.outputs)] == ["x", "y"]


NET = "g (float[2,2] x, float[2,2] w) => (float[2,2] y) <float two = {2.0}, float[2] twos = {2.0, 2.0}>"
OTHER = '<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>'


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        (lambda op, x: op.Relu(op.Gemm(x, x)), "v = Gemm(x, x) y = Relu(v)", True),
        (lambda op, x: op.Relu(op.Gemm(x, x)), "v = Gemm(x, w) y = Relu(v)", False),
        (lambda op, x: op.Relu(op.Gemm(x, x)), "v = Gemm(x, x, twos) y = Relu(v)", False),
        (lambda op, x: op.Relu(op.Gemm(x, _allow_other_inputs=True)), "v = Gemm(x, w, twos) y = Relu(v)", True),
        (lambda op, x: op.Relu(op.Softmax(x, axis=1)), "v = Softmax<axis = 1>(x) y = Relu(v)", True),
        (lambda op, x: op.Relu(op.Softmax(x, axis=1)), "v = Softmax<axis = 0>(x) y = Relu(v)", False),
        (lambda op, x: op.Relu(op.Softmax(x)), "v = Softmax<axis = 0>(x) y = Relu(v)", True),
        (
            lambda op, x: op.Relu(op.Softmax(x, _allow_other_attributes=False)),
            "v = Softmax<axis = 0>(x) y = Relu(v)",
            False,
        ),
        (lambda op, x: op.Relu(op.Max(x, 2.0)), "v = Max(x, two) y = Relu(v)", True),
        (lambda op, x: op.Relu(op.Max(x, 3.0)), "v = Max(x, two) y = Relu(v)", False),
        (lambda op, x: op.Relu(op.Max(x, 2.0)), "v = Max(x, twos) y = Relu(v)", False),
        (
            lambda op, x: op.Relu(op.FastGelu(x, _domain="com.microsoft")),
            "v = com.microsoft.FastGelu(x) y = Relu(v)",
            True,
        ),
        (lambda op, x: op.Relu(op.FastGelu(x)), "v = com.microsoft.FastGelu(x) y = Relu(v)", False),
    ],
)
def test_what_a_pattern_matches(pattern: Any, text: str, fits: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """The forms that docs/plugins.md lists: inputs, attributes, constants and domains."""

    def found(op: Any, match: Any, _: None) -> ir.Value:
        return op.node("Found", [match["x"]], domain="my.ops")

    fusion_pattern("shown", root="Relu", replacement=found)(pattern)
    model, _ = fused(f"{OTHER} {NET} {{ {text} }}", tmp_path)
    assert (node_kinds(model) == ["Found"]) == fits


def test_patterns_of_plugins_come_before_those_of_infer_opt(tmp_path: Path) -> None:
    """MatMul and Add would be a Gemm otherwise."""
    text = "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1.0, 2.0, 3.0, 4.0}, float[2] b = {1.0, 1.0}> "
    text += "{ v = MatMul(x, w) y = Add(v, b) }"
    assert node_kinds(fused(text, tmp_path)[0]) == ["Gemm"]

    def linear(op: Any, match: Any, _: None) -> ir.Value:
        return op.node("Linear", [match["x"], match["w"], match["b"]], {"axis": 1}, domain="my.ops")

    @fusion_pattern("linear", root="Add", replacement=linear, commutes=True)
    def matmul_add(op: Any, x: Any, w: Any, b: Any) -> Any:
        return op.Add(b, op.MatMul(x, w))

    model, _ = fused(text, tmp_path)
    assert node_kinds(model) == ["Linear"]
    assert ir.attribute(model.graph.node(0), "axis") == 1


def test_a_pattern_for_a_newer_opset_is_not_tried(tmp_path: Path) -> None:
    """The model has opset 13."""
    load_plugin(saved(tmp_path, TWO_FOR_TWO.replace("root=", "opset=14, root=")))
    assert fused(TWICE, tmp_path)[1] == Outcome()


def test_the_second_of_a_name_replaces_the_first(tmp_path: Path) -> None:
    """So does a plugin that is loaded twice, by one path or by another."""
    file = saved(tmp_path, TWO_FOR_TWO)
    load_plugin(file)
    load_plugin(f"{tmp_path}/./plugin.py")
    assert [rule.name for rule in plugins.registered_rules()] == ["two for two"]
    assert len(fused(TWICE, tmp_path)[1].changes) == 2
    load_plugin(saved(tmp_path, TWO_FOR_TWO.replace('"Abs"', '"Neg"'), "other.py"))
    assert [rule.name for rule in plugins.registered_rules()] == ["two for two"]
    assert node_kinds(fused(TWICE, tmp_path)[0]) == ["Exp", "Neg", "If"]


def test_a_pass_is_named_in_pipelines(tmp_path: Path) -> None:
    """With its options; `available` lists it among the others, and the second of a name replaces the first."""
    load_plugin(saved(tmp_path, RENAMING))
    load_plugin(saved(tmp_path, RENAMING))
    assert list(registry.available()) == sorted(registry.available())
    assert "rename" in registry.available()
    pipeline = Pipeline.parse("rename{old=Relu},simplify,rename")
    assert str(pipeline) == "rename{old=Relu},simplify,rename"
    model, steps = pipeline.run(load("g (float[2] x) => (float[2] y) { v = Neg(x) y = Relu(v) }", tmp_path))
    assert node_kinds(model) == ["Abs", "Abs"]
    assert [step.outcome.changes for step in steps][2] == (Change("rename", ("Neg:v",)),)


def test_two_files_of_one_name_are_two_plugins(tmp_path: Path) -> None:
    """The hints of the first pass's options are still looked up in the first file."""
    load_plugin(saved(tmp_path, RENAMING, "one/plugin.py"))
    load_plugin(saved(tmp_path, TWO_FOR_TWO, "two/plugin.py"))
    assert str(Pipeline.parse("rename{times=2}")) == "rename{times=2}"
    assert len(plugins.registered_rules()) == 1


def test_a_plugin_finds_the_files_beside_it(tmp_path: Path) -> None:
    """While it is imported; the search path is as before afterwards."""
    saved(tmp_path, "NAME = 'from beside'", "beside_the_plugin.py")
    path = [*sys.path]
    text = TWO_FOR_TWO.replace('"two for two"', "NAME").replace(
        "\nfrom", "\nfrom beside_the_plugin import NAME\nfrom", 1
    )
    load_plugin(saved(tmp_path, text))
    assert [rule.name for rule in plugins.registered_rules()] == ["from beside"]
    assert sys.path == path

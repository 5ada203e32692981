"""References: custom operators written out in standard ones, in a copy for a host without their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.errors import InputError
from tests.onnx_text import load, run

pytestmark = pytest.mark.usefixtures("registries")

HEADER = '<ir_version: 8, opset_import: ["": 13, "house": 1]> '
# Two nodes of one operator in the main graph, one in a branch of an If and one in an If inside that.
GRAPH = f"""
{HEADER} g (float[2,3] x, bool c) => (float[2,3] y, float[2,3] z) {{
    a = house.Scaled<factor = 2.0>(x)
    y = house.Scaled<factor = 0.5, offset = 1.0>(a)
    z = If(c) <
        then_branch = yes () => (float[2,3] p) {{
            q = house.Scaled<factor = 3.0>(x)
            p = If(c) <
                then_branch = inner () => (float[2,3] r) {{ r = house.Scaled<factor = 5.0>(q) }},
                else_branch = other () => (float[2,3] s) {{ s = Identity(q) }}
            >
        }},
        else_branch = no () => (float[2,3] t) {{ t = Neg(x) }}
    >
}}
"""


def scaled(op: ir.GraphBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """`x * factor + offset`."""
    product = op.node("Mul", [inputs[0], op.initializer(np.float32(attributes["factor"]), "factor")])
    return op.node("Add", [product, op.initializer(np.float32(attributes.get("offset", 0)))])


def test_a_model_without_custom_operators_is_handed_back(tmp_path: Path) -> None:
    """Itself, and no copy: nothing has to be written out."""
    ir.register_reference("house::Scaled", scaled)
    model = load("g (float[2] x) => (float[2] y) { y = Neg(x) }", tmp_path)
    assert ir.expand_references(model) is model
    assert ir.referenced_operators(model) == []


def test_every_node_is_written_out(tmp_path: Path) -> None:
    """With its own attributes, at any depth; outputs are those of the formula."""
    ir.register_reference("house::Scaled", scaled)
    expanded = ir.expand_references(load(GRAPH, tmp_path))
    assert ir.referenced_operators(expanded) == []
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for branch in (True, False):
        y, z = run(ir.serialize(expanded), {"x": x, "c": np.array(branch)})
        np.testing.assert_array_equal(y, x * 2 * 0.5 + 1)
        np.testing.assert_array_equal(z, x * 3 * 5 if branch else -x)


def test_names_are_free_in_the_whole_model(tmp_path: Path) -> None:
    """Two graphs that each count for themselves would give one name twice; dtypes and shapes of outputs stay."""
    ir.register_reference("house::Scaled", scaled)
    expanded = ir.expand_references(load(GRAPH, tmp_path))
    ir.check_legal(expanded)
    nodes = [node for graph in expanded.graphs() for node in graph]
    assert len({node.name for node in nodes}) == len(nodes)
    values = {value.name: value for node in nodes for value in node.outputs}
    assert {"a", "y", "q", "r"} < set(values)
    assert (values["y"].dtype, ir.dims(values["y"])) == (ir.DataType.FLOAT, (2, 3))


def test_the_model_stays_as_it_is(tmp_path: Path) -> None:
    """The device gets the custom operators; only the copy that runs here lacks them."""
    ir.register_reference("house::Scaled", scaled)
    model = load(GRAPH, tmp_path)
    before = ir.text(model)
    assert ir.expand_references(model) is not model
    assert ir.text(model) == before
    assert ir.referenced_operators(model) == ["house::Scaled"]


def test_a_reference_may_use_operators_of_onnxruntime(tmp_path: Path) -> None:
    """Their domain is imported."""

    def gelu(op: ir.GraphBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        del attributes
        return op.node("Gelu", inputs, domain="com.microsoft")

    ir.register_reference("house::Gelu", gelu)
    model = load(f"{HEADER} g (float[3] x) => (float[3] y) {{ y = house.Gelu(x) }}", tmp_path)
    x = np.array([-1, 0, 2], np.float32)
    [y] = run(ir.serialize(ir.expand_references(model)), {"x": x})
    np.testing.assert_allclose(y, [-0.158655, 0, 1.954500], atol=1e-6)  # x * normal cdf(x)


def test_a_reference_may_pass_an_input_on(tmp_path: Path) -> None:
    """A marker for the device computes nothing; the input keeps its name."""
    ir.register_reference("house::Marker", lambda op, inputs, attributes: inputs[0])  # noqa: ARG005 - the contract
    model = load(f"{HEADER} g (float[3] x) => (float[3] y) {{ y = house.Marker(x) }}", tmp_path)
    x = np.array([-1, 0, 2], np.float32)
    [y] = run(ir.serialize(ir.expand_references(model)), {"x": x})
    np.testing.assert_array_equal(y, x)


def test_the_last_registration_counts(tmp_path: Path) -> None:
    """A plugin that is loaded again stands for itself."""
    ir.register_reference("house::Op", lambda op, inputs, _: op.node("Abs", inputs))
    ir.register_reference("house::Op", lambda op, inputs, _: op.node("Neg", inputs))
    assert ir.registered_references() == {"house::Op"}
    model = load(f"{HEADER} g (float[1] x) => (float[1] y) {{ y = house.Op(x) }}", tmp_path)
    [y] = run(ir.serialize(ir.expand_references(model)), {"x": np.array([3], np.float32)})
    assert y == [-3]


@pytest.mark.parametrize("operator", ["Conv", "::Conv", "house::", "house.Op", ""])
def test_a_reference_is_of_a_custom_operator(operator: str) -> None:
    """What the standard says an operator computes is not the user's to change."""
    with pytest.raises(ValueError, match="is written `DOMAIN::OP`, not"):
        ir.register_reference(operator, scaled)
    assert ir.registered_references() == frozenset()


CONTRACT = "correct the code; a reference takes (op, inputs, attributes) and returns the value of its last op.node()"
ONE = f"{HEADER} g (float[2,3] x) => (float[2,3] y) {{ y = house.Scaled(x) }}"


def refused(model: ir.Model) -> tuple[str, str | None]:
    """The words of the error."""
    with pytest.raises(InputError) as caught:
        ir.expand_references(model)
    return caught.value.message, caught.value.hint


def test_a_reference_that_raises_is_named(tmp_path: Path) -> None:
    """By its file and line: here, `factor` is missing."""
    ir.register_reference("house::Scaled", scaled)
    message, hint = refused(load(ONE, tmp_path))
    line = scaled.__code__.co_firstlineno + 2
    assert message.startswith("`")
    assert message.endswith(f"test_references.py` line {line}: KeyError: 'factor'")
    assert hint == CONTRACT


def test_a_reference_that_returns_no_value_is_named(tmp_path: Path) -> None:
    """By the line it begins in."""

    def forgets(op: ir.GraphBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
        del attributes
        op.node("Neg", inputs)

    ir.register_reference("house::Scaled", forgets)
    message, hint = refused(load(ONE, tmp_path))
    line = forgets.__code__.co_firstlineno
    assert message.endswith(f"test_references.py` line {line}: it returned NoneType, and no value")
    assert hint == CONTRACT


def test_an_operator_with_two_outputs_is_refused(tmp_path: Path) -> None:
    """If both are used: a reference stands for one."""
    ir.register_reference("house::Scaled", scaled)
    both = f"{HEADER} g (float[2] x) => (float[2] y, float[2] z) {{ y, z = house.Scaled<factor = 2.0>(x) }}"
    assert refused(load(both, tmp_path)) == (
        "node `Scaled:y`: a reference stands for one output, and `house::Scaled` has more",
        "leave the reference out, and compile with --allow-op",
    )
    one = both.replace(", float[2] z)", ")")
    [y] = run(ir.serialize(ir.expand_references(load(one, tmp_path))), {"x": np.array([1, 2], np.float32)})
    assert y.tolist() == [2, 4]

"""`--plugin` and `--strict`, from the words typed to the operators written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.hosts import target_here
from tests.passes.plugin_texts import CALLED, RENAMING

pytestmark = pytest.mark.usefixtures("registries")

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "conv_relu.py"
RULE = "Conv and Relu to my.ops"
REFERENCE = 'return op.node("Relu", [op.node("Conv", inputs, attributes)])'
NO_INT8 = "INT8 was not tried: it needs samples (--calib)"
STANDS_IN = "the kernel of `my.ops::ConvRelu` was not run: on this host its reference stands for it"


def plugin(old: str = "", new: str = "", text: str = "") -> str:
    """The example's file in the current folder, with a change."""
    text = text or EXAMPLE.read_text(encoding="utf-8")
    assert old in text
    Path("plugin.py").write_text(text.replace(old, new), encoding="utf-8")
    return "plugin.py"


def compile_words(*more: str | Path, target: str = "") -> tuple[str | Path, ...]:
    """`compile` of the kit's net to `made`, without INT8."""
    return ("compile", "net.onnx", "--target", target or target_here(), "--out", "made", *more)


def operators(folder: str = "made") -> list[str]:
    """Operators of an artifact, those of subgraphs too."""

    def walk(graph: onnx.GraphProto) -> list[str]:
        found = []
        for node in graph.node:
            found.append(f"{node.domain}::{node.op_type}" if node.domain else node.op_type)
            found += [name for attr in node.attribute if attr.HasField("g") for name in walk(attr.g)]
        return found

    return walk(onnx.load(f"{folder}/model.onnx").graph)


def test_a_plugin_fires_and_its_result_is_verified(infer_opt: Callable, fits: Callable) -> None:
    """The artifact holds the operator; outputs were compared through the reference, and the report says so."""
    ran = infer_opt(*compile_words("--plugin", EXAMPLE, "--json"))
    assert ran.code == 0, ran.err
    assert operators() == ["my.ops::ConvRelu", "MaxPool", "Flatten", "Gemm"]
    assert {item.domain: item.version for item in onnx.load("made/model.onnx").opset_import}["my.ops"] == 1
    fits("report", ran.json)
    fits("manifest", json.loads(Path("made/manifest.json").read_text()))
    assert ran.json["checked"] == "emulated"
    assert STANDS_IN in ran.json["unchecked"]
    assert ran.json["warnings"] == [NO_INT8]
    assert [output["sqnr_db"] > 100 for output in ran.json["outputs"]] == [True]
    [fuse] = [item for item in ran.json["passes"] if item["text"].startswith("fuse")]
    assert (fuse["changes"][RULE], fuse["undone"]) == (1, None)


def test_the_latency_of_a_reference_is_none_of_the_device(infer_opt: Callable) -> None:
    """So nothing is timed, the original does not compete, and a stated speed-up cannot be checked."""
    ran = infer_opt(*compile_words("--plugin", EXAMPLE, "--min-speedup", "0.01", "--json"))
    assert ran.code == 3
    note = "`my.ops::ConvRelu` ran as a reference, not as the device's kernel"
    assert ran.json["latency"]["kind"] == "not measured"
    assert note in ran.json["latency"]["note"] or target_here().endswith(".toml")
    assert [item["name"] for item in ran.json["candidates"]] == ["fp32"]
    assert ran.json["budget_faults"][0].startswith("--min-speedup cannot be checked: latency was not measured: ")


def test_int8_goes_around_what_a_plugin_made(infer_opt: Callable) -> None:
    """Calibration and verification run the reference; the operator itself stays in float."""
    words = compile_words("--plugin", EXAMPLE, "--calib", "calib.npz", "--precision", "int8", "--json")
    ran = infer_opt(*words)
    assert ran.code == 0, ran.err
    assert "my.ops::ConvRelu" in operators()
    assert "QuantizeLinear" in operators()
    assert ran.json["outputs"][0]["sqnr_db"] > 20


def test_a_gpu_gets_the_operator_too(infer_opt: Callable) -> None:
    """What was checked of it is said beside what was checked of the engine."""
    ran = infer_opt(*compile_words("--plugin", EXAMPLE, "--json", target="t4"))
    assert operators()[0] == "my.ops::ConvRelu"
    assert (ran.json["checked"], ran.json["unchecked"][-1]) == ("rules", STANDS_IN)


def test_without_verification_nothing_is_claimed(infer_opt: Callable) -> None:
    """No reference is needed then either."""
    ran = infer_opt(*compile_words("--plugin", plugin("\nir.register_reference", "\n# "), "--no-verify", "--json"))
    assert ran.code == 0, ran.err
    assert operators()[0] == "my.ops::ConvRelu"
    assert (ran.json["checked"], ran.json["outputs"]) == ("rules", [])


def test_a_plugin_that_is_named_twice_is_one(infer_opt: Callable) -> None:
    """By the same path and by another; several may be named."""
    other = Path("other.py")
    other.write_text(RENAMING, encoding="utf-8")
    ran = infer_opt(*compile_words("--plugin", EXAMPLE, "--plugin", plugin(), "--plugin", other, "--plugin", EXAMPLE))
    assert ran.code == 0, ran.err
    assert operators().count("my.ops::ConvRelu") == 1


def test_an_installed_plugin_needs_no_option(infer_opt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the entry point."""
    folder = Path.cwd() / "site"
    info = folder / "house_plugins-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-plugins\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[infer_opt.plugins]\nhouse = house_plugins_of_a_test\n", encoding="utf-8")
    (folder / "house_plugins_of_a_test.py").write_bytes(EXAMPLE.read_bytes())
    monkeypatch.syspath_prepend(folder)
    assert infer_opt(*compile_words()).code == 0
    assert "my.ops::ConvRelu" in operators()


def test_both_branches_of_an_early_exit(infer_opt: Callable) -> None:
    """The operator stands in either, and outputs are compared whichever runs."""
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((3, 3, 3, 3)).astype(np.float32), "w")

    def branch(name: str, count: int) -> onnx.GraphProto:
        nodes = []
        value = "x"
        for index in range(count):
            nodes += [
                helper.make_node("Conv", [value, "w"], [f"{name}_c{index}"], pads=[1, 1, 1, 1]),
                helper.make_node("Relu", [f"{name}_c{index}"], [f"{name}_r{index}"]),
            ]
            value = f"{name}_r{index}"
        return helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, 3, 6, 6])]
        )

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 6, 6])
    zero = numpy_helper.from_array(np.float32(0), "zero")
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0),
        helper.make_node("Greater", ["mean", "zero"], ["sure"]),
        helper.make_node("If", ["sure"], ["y"], then_branch=branch("early", 1), else_branch=branch("late", 2)),
    ]
    graph = helper.make_graph(nodes, "exits", [x], [y], [weight, zero])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "exits.onnx")
    samples = np.stack([np.full((1, 3, 6, 6), value, np.float32) for value in (1, -1, 2, -2, 3, -3, 4, -4)])
    np.savez("exits.npz", x=samples)
    words = ("compile", "exits.onnx", "--target", target_here(), "--calib", "exits.npz", "--precision", "fp32")
    ran = infer_opt(*words, "--plugin", EXAMPLE, "--out", "made", "--json")
    assert ran.code == 0, ran.err
    assert operators().count("my.ops::ConvRelu") == 3
    assert ran.json["outputs"][0]["sqnr_db"] > 100
    assert ran.json["warnings"] == []


# What is caught.


def test_a_wrong_reference_is_caught(infer_opt: Callable) -> None:
    """The pass is undone with a warning, and the artifact is right without it."""
    ran = infer_opt(*compile_words("--plugin", plugin(REFERENCE, 'return op.node("Conv", inputs, attributes)')))
    assert ran.code == 0, ran.err
    assert re.search(
        r"warning +pass `fuse\S*` was undone: output `scores` changed: -?\d+\.\d dB, at least 60 dB", ran.err
    )
    assert "my.ops::ConvRelu" not in operators()


def test_a_missing_reference_is_caught(infer_opt: Callable) -> None:
    """Nothing here tells what the operator computes."""
    ran = infer_opt(*compile_words("--plugin", plugin("\nir.register_reference", "\n# "), "--json"))
    assert ran.code == 0, ran.err
    warning, _ = ran.json["warnings"]
    assert re.match("pass `fuse[^`]*` was undone: onnxruntime cannot load the rewritten model: ", warning)
    assert "my.ops:ConvRelu" in warning
    assert "my.ops::ConvRelu" not in operators()


WRONG = """
from infer_opt.passes import fusion_pattern


@fusion_pattern("a wrong rule", root="Relu", replacement=lambda op, match, facts: op.node("Abs", [match["x"]]))
def relu(op, x):
    return op.Relu(x)
"""


def test_a_wrong_rule_is_undone_or_with_strict_an_error(
    infer_opt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 0 with a warning, and 70 with the same words and no artifact."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ran = infer_opt(*compile_words("--plugin", plugin(text=WRONG)))
    warning = re.search(
        r"pass `fuse\S*` was undone: output `scores` changed: -?\d+\.\d dB, at least 60 dB wanted", ran.err
    )
    assert (ran.code, warning is not None) == (0, True)
    assert operators() == ["Conv", "Relu", "MaxPool", "Flatten", "Gemm"]
    strict = infer_opt(*compile_words("--plugin", plugin(text=WRONG), "--strict", "--out", "other"))
    assert (strict.code, strict.out) == (70, "")
    assert f"error: this is a bug in infer-opt: IllegalModelError: {warning[0]}" in strict.err
    assert not Path("other").exists()


def test_strict_says_nothing_of_what_is_right(infer_opt: Callable) -> None:
    """A plugin that keeps the outputs compiles as without the option."""
    ran = infer_opt(*compile_words("--plugin", EXAMPLE, "--strict"))
    assert ran.code == 0, ran.err
    assert "my.ops::ConvRelu" in operators()


def test_a_decline_is_told_by_explain(infer_opt: Callable) -> None:
    """With its reason, beside what else `fuse` nearly did."""
    changed = plugin("if not ir.is_constant(conv.inputs[1]):", "if conv.outputs:")
    ran = infer_opt(*compile_words("--plugin", changed, "--explain", "fuse"))
    assert ran.code == 0, ran.err
    assert f"not  {RULE} at `relu`: the weight of `conv` is not a constant" in ran.err
    assert "my.ops::ConvRelu" not in operators()


def test_a_pass_of_a_plugin_is_checked_as_any_other(infer_opt: Callable) -> None:
    """Named in `--pipeline`, it changes an output and is undone; an option that it lacks is usage."""
    words = compile_words("--plugin", plugin(text=RENAMING), "--pipeline", "rename{old=Relu}", "--json")
    ran = infer_opt(*words)
    assert ran.code == 0, ran.err
    assert ran.json["warnings"][0].startswith("pass `rename{old=Relu}` was undone: output `scores` changed: ")
    assert ran.json["pipeline"] == "rename{old=Relu}"
    assert operators()[1] == "Relu"
    wrong = infer_opt(*compile_words("--plugin", plugin(text=RENAMING), "--pipeline", "rename{odl=Relu}"))
    assert (wrong.code, wrong.err) == (
        2,
        "error: pass `rename` has no option `odl`; it has old, times\nhint: did you mean `old`?\n",
    )


def test_passes_lists_those_of_plugins(infer_opt: Callable, fits: Callable) -> None:
    """With their options, by each form of the command; without the plugin there is no such pass."""
    file = plugin(text=RENAMING)
    for words in (
        ("passes", "--plugin", file),
        ("passes", "list", "--plugin", file),
        ("passes", "--plugin", file, "list"),
    ):
        assert re.search(r"^rename +old, times +Give operators another name\.$", infer_opt(*words).out, re.MULTILINE)
    shown = infer_opt("passes", "show", "rename", "--plugin", file, "--json")
    fits("passes", shown.json)
    assert shown.json["passes"][0]["options"][0] == {
        "name": "old",
        "takes": "Neg|Relu",
        "default": "Neg",
        "help": "what to look for",
    }


def test_passes_lists_none_of_a_plugin_that_is_not_named(infer_opt: Callable) -> None:
    """Nothing is kept from one command to the next."""
    assert "rename" not in infer_opt("passes").out
    assert infer_opt("passes", "show", "rename").code == 2


@pytest.mark.parametrize(
    ("named", "message", "hint"),
    [
        ("missing.py", "`missing.py` is no file", "pass the path of a Python file"),
        (
            "missing_module_of_a_test",
            "no module is called `missing_module_of_a_test`",
            "pass the path of a file that ends in .py, or a module that Python finds",
        ),
    ],
)
def test_a_plugin_that_is_not_there(infer_opt: Callable, named: str, message: str, hint: str) -> None:
    """Two lines, before any work."""
    ran = infer_opt(*compile_words("--plugin", named))
    assert (ran.code, ran.err) == (1, f"error: {message}\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        ("", 'OPERATOR = "my', '1 / 0\nOPERATOR = "my', "`plugin.py` line 13: ZeroDivisionError: division by zero"),
        (
            "",
            "conv = match.node",
            "conv = match.nod",
            "`plugin.py` line 18: AttributeError: 'Match' object has no attribute 'nod'",
        ),
        (
            "",
            "return op.node(",
            "return op.nod(",
            "`plugin.py` line 27: AttributeError: 'GraphBuilder' object has no attribute 'nod'",
        ),
        ("", REFERENCE, "raise KeyError(attributes['x'])", "`plugin.py` line 38: KeyError: 'x'"),
        ("", REFERENCE, "pass", "`plugin.py` line 36: it returned NoneType, and no value"),
        (RENAMING, "changes = []", "changes = 1 / 0", "`plugin.py` line 21: ZeroDivisionError: division by zero"),
        (CALLED, "op.Neg(x)", "op.Neg(y)", "`plugin.py` line 16: NameError: name 'y' is not defined"),
    ],
)
def test_code_that_raises_is_exit_code_1(infer_opt: Callable, text: str, old: str, new: str, message: str) -> None:
    """With the file and line, and no traceback, wherever it is called; nothing is written."""
    more = ("--pipeline", "rename") if text == RENAMING else ()
    ran = infer_opt(*compile_words("--plugin", plugin(old, new, text=text), *more))
    error, hint = ran.err.splitlines()
    assert (ran.code, error) == (1, f"error: {message}")
    assert hint.startswith("hint: correct the code; ")
    assert not Path("made").exists()


# Commands that look at what was made.


def test_verify_needs_the_plugin_again(infer_opt: Callable) -> None:
    """Without it this host cannot run the artifact, and says what is missing."""
    assert infer_opt(*compile_words("--plugin", EXAMPLE)).code == 0
    words = ("verify", "made", "--original", "net.onnx", "--min-sqnr", "100")
    ran = infer_opt(*words, "--plugin", EXAMPLE)
    assert ran.code == 0, ran.err
    assert "checked  emulated" in ran.out


def test_verify_without_the_plugin(infer_opt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own, where nothing is registered."""
    assert infer_opt(*compile_words("--plugin", EXAMPLE)).code == 0
    monkeypatch.setattr("infer_opt.ir.references._REFERENCES", {})
    for words in (("verify", "made", "--original", "net.onnx"), ("bench", "made")):
        error, hint = infer_opt(*words).err.splitlines()[-2:]
        assert error.startswith("error: onnxruntime cannot load `made/model.onnx`: ")
        assert "my.ops:ConvRelu" in error
        assert hint == "hint: run it on the device, or name a reference of the operator (--plugin)"


def test_a_model_that_came_with_the_operator(infer_opt: Callable) -> None:
    """`inspect` and `compile` take it with a plugin that says what it computes, and refuse it without."""
    assert infer_opt(*compile_words("--plugin", EXAMPLE)).code == 0
    Path("house.onnx").write_bytes(Path("made/model.onnx").read_bytes())
    shown = infer_opt("inspect", "house.onnx", "--target", target_here(), "--plugin", EXAMPLE, "--json")
    assert shown.code == 0, shown.err
    assert "my.ops::ConvRelu" in shown.json["operators"]
    ran = infer_opt("compile", "house.onnx", "--target", target_here(), "--plugin", EXAMPLE, "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["checked"], ran.json["warnings"]) == ("emulated", [NO_INT8])
    allowed = infer_opt(
        "compile", "house.onnx", "--target", target_here(), "--allow-op", "my.ops::ConvRelu", "--json", "--force"
    )
    assert (allowed.json["checked"], allowed.json["warnings"]) == ("emulated", [NO_INT8])


def test_a_model_whose_operator_has_no_reference(infer_opt: Callable) -> None:
    """It is refused by name before any work."""
    node = helper.make_node("ConvRelu", ["x"], ["y"], "pair", domain="my.ops")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in "xy"]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    graph = helper.make_graph([node], "house", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), "house.onnx")
    for command in ("compile", "inspect"):
        ran = infer_opt(command, "house.onnx", "--target", target_here())
        assert ran.code == 1
        assert "node `pair`: onnxruntime has no operator `my.ops::ConvRelu`" in ran.err

"""The code that CONTRIBUTING.md and docs/ci.md show works: in a copy of the package, one new file each."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.documents import FENCED, ROOT, infer_opt, text_of


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with each file that CONTRIBUTING.md shows, and its table of rules added to `fuse`."""
    root = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "infer_opt", root / "infer_opt", ignore=shutil.ignore_patterns("__pycache__"))
    examples = [re.match(r"# (infer_opt/\S+)\n", body) for _, body in FENCED.findall(text_of("CONTRIBUTING.md"))]
    for found in filter(None, examples):
        assert not (root / found[1]).exists()
        (root / found[1]).write_text(found.string, encoding="utf-8")
    fuse = root / "infer_opt" / "passes" / "fuse.py"
    text = fuse.read_text(encoding="utf-8")
    added = "from infer_opt.passes.rewrites.linear.factors import FACTOR_RULES\n\nRULES = (\n    *FACTOR_RULES,\n"
    assert text.count("\nRULES = (\n") == 1
    fuse.write_text(text.replace("\nRULES = (\n", f"\n{added}"), encoding="utf-8")
    return root


def save_scaled(file: Path) -> None:
    """Twelve numbers times two constants, and times an input and a constant, with a long and a short doc string."""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["a"], "first"),
        helper.make_node("Mul", ["three", "a"], ["y"], "second"),
        helper.make_node("Mul", ["x", "k"], ["b"], "third", doc_string="File model.py, line 70"),
        helper.make_node("Mul", ["b", "three"], ["z"], "fourth", doc_string="short"),
    ]
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in "xkyz"}
    factors = {"two": np.array(2, np.float32), "three": np.full((1, 4), 3, np.float32)}
    weights = [numpy_helper.from_array(factor, name) for name, factor in factors.items()]
    graph = helper.make_graph(nodes, "scaled", [values["x"], values["k"]], [values["y"], values["z"]], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)


def test_the_examples_of_contributing_work(extended: Path, tmp_path: Path) -> None:
    """Pass, rule, backend and profile, by one command: the rule fires where it is right, and else says why not."""
    save_scaled(tmp_path / "scaled.onnx")
    pipeline = "fuse,clear_doc_strings{longest=20}"
    options = ["--target", "some-board", "--pipeline", pipeline, "--out", "made", "--json"]
    done = infer_opt(extended, tmp_path, "compile", "scaled.onnx", *options)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    _, fuse, clear = report["passes"]
    assert fuse["changes"]["two constant factors into one"] == 1
    assert ["two constant factors into one", "fourth", "a factor is not a constant"] in fuse["misses"]
    assert (clear["text"], clear["undone"]) == ("clear_doc_strings{longest=20}", None)
    assert (report["checked"], report["unchecked"]) == ("rules", ["nothing was run on the device"])
    made = onnx.load(tmp_path / "made" / "model.onnx")
    constants = {item.name: numpy_helper.to_array(item) for item in made.graph.initializer}
    [factor] = [constants[name] for node in made.graph.node if "y" in node.output for name in node.input[1:]]
    np.testing.assert_array_equal(factor, np.full((1, 4), 6, np.float32))
    assert {node.name: node.doc_string for node in made.graph.node} == {"second": "", "third": "", "fourth": "short"}


def test_what_is_added_is_listed(extended: Path, tmp_path: Path) -> None:
    """By `passes` and `profiles`, without another edit; the profile is sound."""
    shown_pass = infer_opt(extended, tmp_path, "passes", "show", "clear_doc_strings")
    assert "longest" in shown_pass.stdout
    assert "some-board" in infer_opt(extended, tmp_path, "profiles", "list").stdout
    file = extended / "infer_opt" / "profiles" / "devices" / "some-board.toml"
    checked = infer_opt(extended, tmp_path, "profiles", "check", str(file))
    assert checked.returncode == 0, checked.stderr


def test_the_script_of_the_ci_page_reads_a_report(tmp_path: Path) -> None:
    """It passes for INT8, and otherwise ends with the reason."""
    [script] = [body for kind, body in FENCED.findall(text_of("docs/ci.md")) if kind == "python"]
    for chosen, code in (("int8", 0), ("fp32", 1)):
        (tmp_path / "report.json").write_text(json.dumps({"chosen": chosen, "why": "it was slower"}), encoding="utf-8")
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, "it was slower" in done.stderr) == (code, bool(code))

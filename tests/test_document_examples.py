"""What docs/plugins.md shows works as it stands: each file under its name, run by the command line."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from infer_opt.cli.main import run
from infer_opt.passes import fusion_pattern
from infer_opt.passes.engine.loading import ENTRY_POINTS
from tests.documents import FENCED, ROOT, text_of
from tests.onnx_text import parse

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.usefixtures("registries")

DOCUMENT = "docs/plugins.md"
STANDS_IN = "the kernel of `my.ops::ConvRelu` was not run: on this host its reference stands for it"

Compile = Callable[..., tuple[dict[str, Any], onnx.ModelProto]]


def shown_files() -> dict[str, str]:
    """Every file that the document shows, by its name."""
    blocks = [body.partition("\n") for _, body in FENCED.findall(text_of(DOCUMENT))]
    return {first[2:]: rest for first, _, rest in blocks if re.fullmatch(r"# \w+\.(?:py|toml)", first)}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files and the digits in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, text in shown_files().items():
        Path(name).write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "examples" / "digits" / "digits.onnx", "digits.onnx")


@pytest.fixture
def compiled(capfd: pytest.CaptureFixture[str]) -> Compile:
    """Compiles a model for a GPU: report and artifact."""

    def call(model: str, *words: str) -> tuple[dict[str, Any], onnx.ModelProto]:
        capfd.readouterr()
        code = run(["compile", model, "--target", "t4", "--json", "--force", *words])
        streams = capfd.readouterr()
        assert code == 0, streams.err
        report = json.loads(streams.out)
        return report, onnx.load(Path(report["artifact"]) / "model.onnx")

    return call


def kinds(model: onnx.ModelProto) -> list[str]:
    """Operators of the main graph."""
    return [node.op_type for node in model.graph.node]


def test_the_document_shows_these_files() -> None:
    """Each has a test below."""
    assert list(shown_files()) == ["conv_relu.py", "gate.py", "short_names.py", "pyproject.toml", "cut.py"]


def test_the_example_of_the_repository_is_shown_whole() -> None:
    """Under examples/, to be copied."""
    assert shown_files()["conv_relu.py"] == (ROOT / "examples" / "plugins" / "conv_relu.py").read_text(encoding="utf-8")


def test_conv_and_relu(compiled: Compile) -> None:
    """Seven on the digits, and the sentence that the document quotes."""
    report, model = compiled("digits.onnx", "--plugin", "conv_relu.py")
    assert kinds(model).count("ConvRelu") == 7
    assert "Relu" not in kinds(model)
    assert report["unchecked"][-1] == STANDS_IN
    assert STANDS_IN in text_of(DOCUMENT)
    assert report["outputs"][0]["sqnr_db"] > 60  # FP16 around them


GATE = """
g (float[1,8] x) => (float[1,8] y)
<float shift = {{{shift}}}, float zero = {{0.0}}, float high = {{{high}}}, float divisor = {{{divisor}}}> {{
    shifted = Add(shift, x)
    clipped = Clip(shifted, zero, high)
    product = Mul(clipped, x)
    y = Div(product, divisor)
}}
"""


def test_an_activation(compiled: Compile) -> None:
    """Any shift and limit, in either order; verified through the reference."""
    onnx.save(parse(GATE.format(shift=1.5, high=5.0, divisor=5.0)), "net.onnx")
    report, model = compiled("net.onnx", "--plugin", "gate.py")
    assert kinds(model) == ["Gate"]
    attributes = {item.name: onnx.helper.get_attribute_value(item) for item in model.graph.node[0].attribute}
    assert attributes == {"shift": 1.5, "limit": 5.0}
    assert report["passes"][-1]["undone"] is None
    assert report["outputs"][0]["sqnr_db"] > 100


def test_what_is_no_gate_stays(compiled: Compile) -> None:
    """With the reason of the check."""
    onnx.save(parse(GATE.format(shift=2.0, high=4.0, divisor=8.0)), "net.onnx")
    report, model = compiled("net.onnx", "--plugin", "gate.py", "--explain", "fuse")
    assert "Gate" not in kinds(model)
    misses = [miss for item in report["passes"] for miss in item["misses"] if miss[0] == "gate"]
    assert [miss[2] for miss in misses] == ["it clips to 0.0 and 4.0, and divides by 8.0"]


def test_a_pass(compiled: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    """By the pipeline that the document shows: names fit and stay apart, reports know the old ones."""
    [pipeline] = re.findall(r'`--pipeline "([^"]+)"`', text_of(DOCUMENT))
    model = onnx.load("digits.onnx")
    for node in model.graph.node:
        node.name = f"{node.name}/{'a' * 40}"
    onnx.save(model, "long.onnx")
    report, made = compiled("long.onnx", "--plugin", "short_names.py", "--pipeline", pipeline)
    names = [node.name for node in made.graph.node]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 31
    last = report["passes"][-1]
    assert (last["text"], last["changes"]) == ("short_names{longest=31}", {"name shortened": len(names)})
    assert {name for region in report["regions"] for name in region["nodes"]} <= {
        node.name for node in model.graph.node
    }
    assert run(["passes", "show", "short_names", "--plugin", "short_names.py"]) == 0
    assert "characters that a name may have" in capfd.readouterr().out


def test_an_installed_package(
    compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its entry points as pip would write them; its passes are listed with no option."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert list(project["entry-points"]) == [ENTRY_POINTS]
    site = tmp_path / "site"
    info = site / f"house_plugins-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n", encoding="utf-8")
    points = "\n".join(f"{name} = {module}" for name, module in project["entry-points"][ENTRY_POINTS].items())
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{points}\n", encoding="utf-8")
    package = site / "house_plugins"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in ("gate.py", "short_names.py"):
        shutil.copy(name, package)
    monkeypatch.syspath_prepend(site)
    assert run(["passes"]) == 0
    assert "short_names" in capfd.readouterr().out
    onnx.save(parse(GATE.format(shift=2.0, high=4.0, divisor=4.0)), "net.onnx")
    _, model = compiled("net.onnx")
    assert kinds(model) == ["Gate"]


def test_surgery(compiled: Compile) -> None:
    """The features of the digits, in FP16, which `verify` compares with the same cut."""
    report, model = compiled("digits.onnx", "--surgery", "cut.py")
    assert [value.name for value in model.graph.output] == ["features"]
    assert "Gemm" not in kinds(model)
    assert report["surgery"]["path"] == "cut.py"
    words = ["verify", "digits-t4", "--original", "digits.onnx", "--surgery", "cut.py", "--min-sqnr", "60"]
    assert f"$ infer-opt {' '.join(words[:-2])}\n" in text_of(DOCUMENT)
    assert run(words) == 0


def test_the_arguments_of_a_pattern_are_in_the_document() -> None:
    """One row for each."""
    section = text_of(DOCUMENT).partition("## The parts of a pattern")[2].partition("In the pattern,")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted({*inspect.signature(fusion_pattern).parameters} - {"name"})


def test_what_a_pattern_may_say_can_be_said() -> None:
    """Each row's line, in a pattern of its own, is taken; what they match is tested with the engine."""
    section = text_of(DOCUMENT).partition("In the pattern,")[2].partition("A match is one graph's")[0]
    lines = re.findall(r"^\| `(op\.[^`]+)` \|", section, re.MULTILINE)
    assert len(lines) == 7
    for line in lines:
        names = ["op", "x", *(["w"] if "w)" in line else [])]
        source = f"lambda {', '.join(names)}: op.Relu({line})"
        pattern = eval(source)  # noqa: S307 - a line of this repository's documents
        fusion_pattern("shown", root="Relu", replacement=lambda op, match, facts: None)(pattern)  # noqa: ARG005

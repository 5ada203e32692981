"""report.html: everything on one page, nothing from outside it, and no name of a model's gets to run."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from infer_opt.report.html import page
from tests.hosts import target_here

SCRIPT = "<script>alert(1)</script>"
OUTPUT = '</style><img src="x" onerror="alert(2)">$\\frac{'
INNER = "</svg>{{ 7 * 7 }}\u202e`"


class Elements(HTMLParser):
    """Start tags with attributes, ids and visible text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep what is shown."""
        if self.tags and self.tags[-1][0] not in {"script", "style"}:
            self.texts.append(data)


def hostile(folder: Path) -> tuple[str, str]:
    """Two convolutions, the first of which INT8 ruins, with names that want to be markup; and samples."""
    random = np.random.default_rng(0)
    first, second = (random.standard_normal((8, 8, 3, 3)).astype(np.float32) / 8 for _ in range(2))
    first[:, 0] = 0  # the loud channel weighs nothing, but takes all levels
    nodes = [
        helper.make_node("Conv", ["x", "w"], [INNER], SCRIPT, pads=[1, 1, 1, 1]),
        helper.make_node("Conv", [INNER, "v"], [OUTPUT], "second", pads=[1, 1, 1, 1]),
    ]
    samples = random.standard_normal((16, 8, 12, 12)).astype(np.float32)
    samples[:, 0] *= 1000
    constants = [numpy_helper.from_array(array, name) for name, array in (("w", first), ("v", second))]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 12, 12]) for name in ("x", OUTPUT)]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "bad.onnx")
    np.savez(folder / "bad.npz", x=samples)
    return "bad.onnx", "bad.npz"


@pytest.fixture
def compiled(infer_opt: Callable, tmp_path: Path) -> Path:
    """The hostile model for a device that this host does not time, with all that a stated limit brings."""
    model, calib = hostile(tmp_path)
    ran = infer_opt("compile", model, "--target", "arm-a78", "--calib", calib, "--min-sqnr", "15", "--out", "made")
    assert ran.code == 0, ran.err
    return tmp_path / "made"


def test_names_are_text_and_nothing_else(compiled: Path) -> None:
    """They are shown, and make no element, attribute, style or template."""
    text = (compiled / "report.html").read_text(encoding="utf-8")
    elements = Elements(text)
    assert [tag for tag, _ in elements.tags].count("script") == 1
    assert {"img", "iframe", "object", "link"} & {tag for tag, _ in elements.tags} == set()
    assert [name for _, attributes in elements.tags for name in attributes if name.startswith("on")] == []
    shown = "".join(elements.texts)
    assert SCRIPT in shown
    assert OUTPUT in shown
    assert "{{ 7 * 7 }}\\u202e" in shown
    assert "alert(1)</script>" not in text


def test_the_page_needs_nothing_else(compiled: Path) -> None:
    """No address is loaded, and its one script is the one that the page's own policy allows."""
    text = (compiled / "report.html").read_text(encoding="utf-8")
    elements = Elements(text)
    loading = {"src", "href", "xlink:href", "data", "action", "srcset"}
    found = [attributes[name] or "" for _, attributes in elements.tags for name in loading & attributes.keys()]
    assert [address for address in found if not address.startswith("#")] == []
    assert re.findall(r"url\((?!#)", text) == []
    assert "default-src 'none'" in text
    assert "svg" in {tag for tag, _ in elements.tags}


def test_the_same_report_gives_the_same_page(compiled: Path) -> None:
    """Byte for byte, the plot too; no date, no version of the program that drew it."""
    table = json.loads((compiled / "report.json").read_text(encoding="utf-8"))
    text = (compiled / "report.html").read_text(encoding="utf-8")
    assert page(table) == text
    assert "matplotlib" not in text.lower()


def test_the_page_tells_what_the_report_tells(compiled: Path, fits: Callable) -> None:
    """Every candidate, pass and region, the widest values, the points of the front, versions."""
    table = json.loads((compiled / "report.json").read_text(encoding="utf-8"))
    fits("report", table)
    shown = " ".join("".join(Elements((compiled / "report.html").read_text(encoding="utf-8")).texts).split())
    for heading in ("Error of each output", "Candidates", "Error against time", "Widest activations", "Passes"):
        assert heading in shown
    assert all(item["name"] in shown for item in table["candidates"])
    assert all(item["text"] in shown for item in table["passes"])
    assert all(point["level"] in shown for point in table["sensitivity"]["front"])
    assert f"infer-opt {table['versions']['infer-opt']}" in shown
    assert "latency not measured" in shown
    assert {"int8", "fp32"} <= {item["name"] for item in table["candidates"]}


def test_what_stays_in_float_says_what_int8_would_have_cost(compiled: Path) -> None:
    """In words, by the original's node and output; the INT8 candidate's own figures are kept beside it."""
    table = json.loads((compiled / "report.json").read_text(encoding="utf-8"))
    reasons = {node: region["reason"] for region in table["regions"] for node in region["nodes"]}
    assert re.search(r"INT8 alone leaves -?\d+\.\d dB at `", reasons[SCRIPT])
    integers = next(item for item in table["candidates"] if item["name"] == "int8")
    assert integers["outputs"][0]["name"] == OUTPUT
    assert integers["precisions"]["int8"] >= 2


def test_without_the_extra_only_the_page_is_missing(
    infer_opt: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line says how to get it."""
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jinja2" else there(name))
    ran = infer_opt("compile", "net.onnx", "--target", target_here(), "--out", "made")
    assert ran.code == 0
    assert "not written: report.html needs jinja2: pip install 'infer-opt[report]'" in ran.err
    assert sorted(file.name for file in (tmp_path / "made").iterdir()) == [
        "latency.json",
        "manifest.json",
        "model.onnx",
        "report.json",
    ]


def test_a_model_that_stayed_in_float_says_why_in_each_region(
    infer_opt: Callable, fits: Callable, loud: tuple[str, str]
) -> None:
    """Why INT8 lost as a whole, and what that region would have cost; the candidate's own figures are kept."""
    model, calib = loud
    table = infer_opt("compile", model, "--target", target_here(), "--calib", calib, "--json", "--out", "made").json
    fits("report", table)
    integers = next(item for item in table["candidates"] if item["name"] == "int8")
    assert table["chosen"] in {"fp32", "original"}
    [region] = table["regions"]
    assert region["reason"].startswith(f"INT8 wherever it is legal was refused: {integers['refused']}; INT8 alone")
    assert integers["outputs"][0]["sqnr_db"] < 20
    shown = "".join(Elements(Path("made/report.html").read_text(encoding="utf-8")).texts)
    assert "INT8 wherever it is legal was refused: " in shown

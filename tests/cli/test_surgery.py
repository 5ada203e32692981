"""`--surgery`, from the words typed to what the folder says of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.hosts import target_here

CUT = '''
import onnx_graphsurgeon as gs

LABEL = "classes"


def _rename(graph):
    graph.outputs[0].name = LABEL


def keep_two(graph: gs.Graph) -> None:
    """The model ends behind the Flatten."""
    [flatten] = [node for node in graph.nodes if node.op == "Flatten"]
    graph.outputs = [flatten.outputs[0]]
    print("cut at", flatten.name)


def a_name_of_ours(graph: gs.Graph) -> gs.Graph:
    """Comes second, as it is written."""
    assert len(graph.nodes) == 5
    assert graph.outputs[0].name == "f"
    _rename(graph)
    return graph
'''
CONTRACT = "a public function takes an onnx-graphsurgeon Graph, and changes it or returns another"


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files of the command fall where the tests can see them."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def script(text: str = CUT) -> str:
    """A script in the current folder."""
    Path("cut.py").write_text(text, encoding="utf-8")
    return "cut.py"


def compile_words(*more: str, model: str = "net.onnx") -> tuple[str, ...]:
    """`compile` of the kit's net to `made`."""
    return ("compile", model, "--target", target_here(), "--out", "made", *more)


def test_what_is_compiled_is_the_model_after_surgery(infer_opt: Callable, fits: Callable, kit: Path) -> None:
    """Another output under another name, compared with the same cut; nothing is left but the artifact."""
    ran = infer_opt(*compile_words("--surgery", script(), "--calib", "calib.npz", "--precision", "fp32", "--json"))
    assert ran.code == 0, ran.err
    assert [output["name"] for output in ran.json["outputs"]] == ["classes"]
    assert ran.json["outputs"][0]["sqnr_db"] > 100
    assert "cut at flatten" in ran.err
    fits("report", ran.json)
    samples = {"x": np.load(kit / "calib.npz")["x"]}
    [got] = onnxruntime.InferenceSession("made/model.onnx").run(None, samples)
    original = onnx.load(kit / "net.onnx")
    original.graph.output.append(onnx.helper.make_empty_tensor_value_info("f"))
    _, wanted = onnxruntime.InferenceSession(original.SerializeToString()).run(None, samples)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    assert list(Path("temporary").iterdir()) == []


def test_the_folder_names_the_users_model_and_the_script(infer_opt: Callable, fits: Callable, kit: Path) -> None:
    """With the digests of both files as they are on the user's disk; null where there was no surgery."""
    ran = infer_opt(*compile_words("--surgery", script(), "--json"))
    manifest = json.loads(Path("made/manifest.json").read_text())
    fits("manifest", manifest)
    model = kit / "net.onnx"
    assert manifest["source"] == {"path": "net.onnx", "sha256": sha256(model.read_bytes()).hexdigest()}
    surgery = {"path": "cut.py", "sha256": sha256(Path("cut.py").read_bytes()).hexdigest()}
    assert manifest["surgery"] == ran.json["surgery"] == surgery
    assert ran.json["source"] == str(model)
    assert ran.json["bytes"]["original"] == model.stat().st_size
    assert str(Path("temporary").resolve()) not in Path("made/report.json").read_text()
    plain = infer_opt(*compile_words("--force", "--json"))
    assert plain.json["surgery"] is None
    assert json.loads(Path("made/manifest.json").read_text())["surgery"] is None


def test_int8_and_several_targets(infer_opt: Callable) -> None:
    """The script runs once for all."""
    targets = (
        ("--target", f"{target_here()},t4") if not target_here().endswith(".toml") else ("--target", "x86-avx2,t4")
    )
    counting = CUT + "\n\ndef count(graph):\n    with open('count', 'a') as file:\n        file.write('x')\n"
    words = ("compile", "net.onnx", *targets, "--calib", "calib.npz", "--out", "made", "--surgery", script(counting))
    ran = infer_opt(*words, "--json")
    assert ran.code == 0, ran.err
    assert [report["outputs"][0]["name"] for report in ran.json] == ["classes", "classes"]
    assert Path("count").read_text() == "x"


def test_metadata_and_opset_are_kept(infer_opt: Callable, kit: Path) -> None:
    """In the artifact, as without surgery."""
    proto = onnx.load(kit / "net.onnx")
    onnx.helper.set_model_props(proto, {"classes": "a,b"})
    onnx.save(proto, "props.onnx")
    kept = []
    for more in ((), ("--surgery", script("def nothing(graph):\n    pass\n"))):
        assert infer_opt(*compile_words("--force", "--precision", "fp32", *more, model="props.onnx")).code == 0
        made = onnx.load("made/model.onnx")
        kept.append(
            (made.ir_version, made.opset_import[0].version, {item.key: item.value for item in made.metadata_props})
        )
    assert kept[0] == kept[1]
    assert kept[0][2]["classes"] == "a,b"


def test_weights_beside_the_model(infer_opt: Callable, kit: Path) -> None:
    """Are found, and belong to the source's digest."""
    proto = onnx.load(kit / "net.onnx")
    onnx.save(proto, "split.onnx", save_as_external_data=True, location="split.weights", size_threshold=0)
    ran = infer_opt(*compile_words("--surgery", script(), "--json", model="split.onnx"))
    assert ran.code == 0, ran.err
    assert ran.json["bytes"]["original"] == sum(Path(f"split.{kind}").stat().st_size for kind in ("onnx", "weights"))
    assert list(Path("temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "import json\n\ndef f(graph):\n    graph.nodes[99]\n",
            "`cut.py` line 4: IndexError: list index out of range",
            f"correct the code; {CONTRACT}",
        ),
        ("def f(:\n", "`cut.py` line 1: SyntaxError: invalid syntax (cut.py, line 1)", f"correct the code; {CONTRACT}"),
        ("1 / 0\n", "`cut.py` line 1: ZeroDivisionError: division by zero", f"correct the code; {CONTRACT}"),
        (
            "def f(graph):\n    return 1\n",
            "`cut.py`: TypeError: function `f` returned int, and no Graph",
            f"correct the code; {CONTRACT}",
        ),
        (
            "from json import loads\n\ndef _f(graph):\n    pass\n",
            "`cut.py` has no public function",
            f"write one: {CONTRACT}",
        ),
        (
            "def f(graph):\n    graph.outputs.clear()\n",
            "after `cut.py`: `MODEL` holds no graph with outputs",
            f"correct the code; {CONTRACT}",
        ),
    ],
)
def test_a_script_that_is_wrong(infer_opt: Callable, kit: Path, text: str, message: str, hint: str) -> None:
    """File and line, exit code 1; neither a traceback nor a temporary path."""
    ran = infer_opt(*compile_words("--surgery", script(text)))
    assert ran.code == 1
    assert ran.err.replace(str(kit / "net.onnx"), "MODEL") == f"error: {message}\nhint: {hint}\n"
    assert not Path("made").exists()
    assert list(Path("temporary").iterdir()) == []


def test_files_that_are_missing(infer_opt: Callable) -> None:
    """The model comes first: no code of the user's runs for one that is not there."""
    ran = infer_opt(*compile_words("--surgery", "missing.py"))
    assert (ran.code, ran.err) == (1, "error: `missing.py` is no file\nhint: pass the path of a Python file\n")
    ran = infer_opt(*compile_words("--surgery", script("1 / 0"), model="missing.onnx"))
    assert (ran.code, ran.err.splitlines()[0]) == (1, "error: `missing.onnx` does not exist")


def test_what_does_not_run_after_surgery_is_named_by_its_script(infer_opt: Callable, kit: Path) -> None:
    """And by the user's model, which is the one that the message would be understood of."""
    text = "import numpy as np\n\ndef f(graph):\n    [c] = [n for n in graph.nodes if n.op == 'Conv']\n"
    text += "    c.inputs[1].values = np.zeros((8, 5, 3, 3), np.float32)\n"
    ran = infer_opt(*compile_words("--surgery", script(text), "--shape", "x:1x3x8x8"))
    assert ran.code == 1
    assert f"`{kit / 'net.onnx'}` after `cut.py`" in ran.err.splitlines()[0]
    assert "temporary" not in ran.err


# `verify`, which compares with the model as it was compiled.


def test_verify_needs_the_script_again(infer_opt: Callable) -> None:
    """The same one, by its digest."""
    assert infer_opt(*compile_words("--surgery", script(), "--precision", "fp32")).code == 0
    words = ("verify", "made", "--original", "net.onnx")
    ran = infer_opt(*words, "--surgery", "cut.py", "--min-sqnr", "100", "--json")
    assert ran.code == 0, ran.err
    assert [output["name"] for output in ran.json["outputs"]] == ["classes"]
    without = infer_opt(*words)
    assert (without.code, without.err) == (
        1,
        "error: `made` was compiled after surgery by `cut.py`\nhint: pass it with --surgery cut.py\n",
    )
    other = infer_opt(*words, "--surgery", script(CUT + "\n"))
    assert (other.code, other.err.splitlines()[0]) == (
        1,
        "error: `made` was compiled after surgery by `cut.py`, and `cut.py` is another: its SHA-256 differs",
    )
    missing = infer_opt(*words, "--surgery", "missing.py")
    assert (missing.code, missing.err.splitlines()[0]) == (1, "error: `missing.py` is no file")


def test_verify_of_what_had_no_surgery(infer_opt: Callable) -> None:
    """The script would be compared with something else."""
    ran = infer_opt("verify", "compiled", "--original", "net.onnx", "--surgery", script())
    assert ran.code == 1
    assert "was compiled without --surgery" in ran.err
    assert ran.err.endswith("hint: leave it out\n")

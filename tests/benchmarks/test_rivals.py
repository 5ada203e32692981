"""The comparison with other quantizers, run on a network made here, against what its artifacts really do."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.hosts import target_here

ROOT = Path(__file__).parents[2]
ENGINES = ["infer-opt", "ort-minmax", "ort-dynamic"]
FEEDS, HELD_OUT = 12, 3  # the last quarter
NET = """
<ir_version: 8, opset_import: ["" : OPSET]>
net (float[1, 8, 12, 12] x) => (float[1, 8, 12, 12] y)
<float[16, 8, 3, 3] w, float[8, 16, 1, 1] v> {
    a = Conv <pads = [1, 1, 1, 1]> (x, w)
    b = Relu (a)
    y = Conv (b, v)
}
"""
RECIPES = """
import numpy as np


def score(name, session):
    '''Minus the mean output on fixed inputs: no task, but a number that any change of the outputs changes.'''
    [x], [y] = session.get_inputs(), session.get_outputs()
    feeds = np.random.default_rng(9).standard_normal((4, *x.shape), np.float32)
    return -float(np.mean([np.abs(session.run([y.name], {x.name: feed})[0]).mean() for feed in feeds]))
"""


def save_net(path: Path, opset: int) -> None:
    """Two convolutions whose channels differ a hundredfold, so that only weights per channel keep them."""
    model = onnx.parser.parse_model(NET.replace("OPSET", str(opset)))
    random = np.random.default_rng(0)
    for name, shape in {"w": (16, 8, 3, 3), "v": (8, 16, 1, 1)}.items():
        scales = np.geomspace(0.01, 1.0, shape[0]).reshape(-1, 1, 1, 1)
        weight = (random.standard_normal(shape) * scales).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    onnx.save(model, path)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with net.onnx, old.onnx of an opset without scales per channel, calib/ for both, and recipes.py."""
    folder = tmp_path_factory.mktemp("kit")
    random = np.random.default_rng(1)
    for name, opset in {"net": 17, "old": 11}.items():
        save_net(folder / f"{name}.onnx", opset)
        (folder / "calib" / name).mkdir(parents=True)
        for index in range(FEEDS):
            np.savez(folder / "calib" / name / f"{index:02}.npz", x=random.standard_normal((1, 8, 12, 12), np.float32))
    (folder / "recipes.py").write_text(RECIPES, encoding="utf-8")
    return folder


def run(kit: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The script, on the folder, with this checkout's infer-opt."""
    command = [sys.executable, str(ROOT / "benchmarks" / "rivals.py"), str(kit), "--work", str(kit / "work"), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=kit, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def compared(kit: Path) -> tuple[str, dict[str, Any], dict[tuple[str, str], dict[str, Any]]]:
    """stdout, the JSON document, and its rows by model and engine."""
    options = ["--target", target_here(), "--recipes", str(kit / "recipes.py")]
    ran = run(kit, "--engines", ",".join(ENGINES), *options)
    assert ran.returncode == 0, ran.stderr
    document = json.loads((kit / "work" / "rivals.json").read_text(encoding="utf-8"))
    return ran.stdout, document, {(row["model"], row["engine"]): row for row in document["rows"]}


def outputs(model: Path, kit: Path) -> np.ndarray:
    """What a model gives for the held-out feeds, here in this process."""
    session = onnxruntime.InferenceSession(model)
    feeds = sorted((kit / "calib" / "net").glob("*.npz"))[-HELD_OUT:]
    return np.concatenate([session.run(None, {"x": np.load(feed)["x"]})[0] for feed in feeds]).astype(np.float64)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_figures_are_those_of_the_artifact(engine: str, kit: Path, compared: tuple) -> None:
    """SQNR by its formula within 0.1 dB, score within 1e-5, the size on disk; cost and latency are possible ones."""
    row = compared[2]["net", engine]
    artifact = kit / "work" / row["artifact"]
    expected, got = outputs(kit / "net.onnx", kit), outputs(artifact, kit)
    sqnr = 10 * math.log10((expected**2).sum() / ((expected - got) ** 2).sum()) if (expected != got).any() else 200.0
    assert row["sqnr_db"] == pytest.approx(sqnr, abs=0.1)
    assert row["fails"] is None
    scores = {}
    exec(RECIPES, scores)  # noqa: S102 - the text above
    for model, field in ((kit / "net.onnx", "fp32_score"), (artifact, "score")):
        assert row[field] == pytest.approx(scores["score"]("net", onnxruntime.InferenceSession(model)), rel=1e-5)
    assert row["change"] == row["score"] - row["fp32_score"]
    assert row["keeps"] == (row["change"] >= -0.01)
    assert row["artifact_mb"] == pytest.approx(artifact.stat().st_size / 1e6)
    assert row["seconds"] > 0.1  # a Python that imports onnxruntime
    assert sys.platform != "linux" or 20 < row["peak_mb"] < 4000
    assert min(row["fp32_ms"], row["ms"]) > 0
    # The median of ratios is near the ratio of medians; how near, on a busy machine, nobody can promise.
    assert 0.2 < row["speedup"] * row["ms"] / row["fp32_ms"] < 5


def test_makers_do_not_get_what_is_held_out(kit: Path, compared: tuple) -> None:
    """Three quarters of the feeds, the first ones."""
    assert compared[0]
    given = sorted(path.name for path in (kit / "work" / "net" / "calib").iterdir())
    assert given == [f"{index:02}.npz" for index in range(FEEDS - HELD_OUT)]


def test_an_artifact_that_does_not_load_is_a_row(compared: tuple) -> None:
    """Below opset 13 scales per channel do not exist, which onnxruntime's quantizer finds out too late."""
    printed, _, rows = compared
    row = rows["old", "ort-minmax"]
    assert row["fails"]
    assert (row["speedup"], row["sqnr_db"], row["score"], row["keeps"]) == (None, None, None, False)
    assert f"ort-minmax fails on old: {row['fails']}" in printed
    assert rows["old", "infer-opt"]["fails"] is None


def test_the_means_are_those_of_the_rows(compared: tuple) -> None:
    """Ours, and the fastest rival that keeps the score of each model; 1.0 where there is none."""
    printed, document, rows = compared
    models = ("net", "old")
    ours = [rows[model, "infer-opt"] for model in models]
    rivals = [[rows[model, engine] for engine in ENGINES[1:]] for model in models]
    best = [max([1.0, *(row["speedup"] for row in found if row["keeps"])]) for found in rivals]
    assert document["means"] == {
        "models": 2,
        "ours": pytest.approx(math.prod(row["speedup"] if row["keeps"] else 1.0 for row in ours) ** 0.5),
        "best_rival": pytest.approx(math.prod(best) ** 0.5),
        "loses": [row["model"] for row in ours if not row["keeps"]],
    }
    assert f"infer-opt {document['means']['ours']:.2f}x" in printed


def test_the_table_has_a_line_a_model_and_a_column_an_engine(compared: tuple) -> None:
    """Markdown: as many cells in every line; the speed-up is bold where the score is kept."""
    printed, _, rows = compared
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line[:1] == "|"]
    assert lines[0] == ["model", "score of FP32", *ENGINES, "best rival that keeps"]
    assert [len(line) for line in lines] == [len(lines[0])] * 4
    assert [line[0] for line in lines[2:]] == ["net", "old"]
    row = rows["net", "ort-minmax"]
    speedup = f"{row['speedup']:.2f}x"
    assert lines[2][3].startswith(f"**{speedup}**" if row["keeps"] else speedup)
    assert f"{row['sqnr_db']:.0f} dB" in lines[2][3]
    assert lines[3][3] == "fails"


def test_an_engine_that_is_not_installed_is_left_out_by_name(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python is asked; no engine is left, which is an error of the caller's."""
    monkeypatch.setenv("RIVAL_PYTHON_NNCF", str(kit / "no-python"))
    ran = run(kit, "--engines", "nncf-openvino", "--names", "net")
    assert ran.returncode == 1
    assert f"nncf-openvino is left out: `{kit / 'no-python'}` has no nncf, openvino" in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("hint: ")


def test_a_score_that_raises_is_an_error_in_words(kit: Path) -> None:
    """The user's file and line, no traceback; on an artifact it would be that artifact's row."""
    (kit / "raises.py").write_text("def score(name, session):\n    return 1 / 0\n", encoding="utf-8")
    ran = run(kit, "--engines", "ort-dynamic", "--names", "net", "--recipes", "raises.py")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-2] == "error: `raises.py` line 2: ZeroDivisionError: division by zero"
    assert ran.stdout == ""


def test_a_model_whose_process_dies_is_an_error_in_words(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not load says why; a process that is killed, as by a crash of the runtime, is told by its code."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    sessions = importlib.import_module("rival_sessions")
    (kit / "broken.model").write_bytes(b"no model")
    with pytest.raises(sessions.SessionError, match="InvalidProtobuf"):
        sessions.Session(kit / "broken.model")
    with sessions.Session(kit / "net.onnx") as session:
        session._process.kill()
        with pytest.raises(sessions.SessionError, match="its process ended with code -9"):
            session.run(None, {"x": np.zeros((1, 8, 12, 12), np.float32)})

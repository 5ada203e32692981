"""`infer-opt verify`: right artifacts pass, broken ones do not, and what was run on is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from infer_opt import ir
from tests.hosts import target_here
from tests.targets.networks import Network, normal


@pytest.fixture
def made(kit: Path, tmp_path: Path) -> Path:
    """A copy of the kit's INT8 artifact beside a copy of its original."""
    shutil.copy(kit / "net.onnx", tmp_path)
    shutil.copytree(kit / "compiled", tmp_path / "made")
    return Path("made")


def reseal(artifact: Path) -> None:
    """Let the manifest agree with a changed model.onnx."""
    path = artifact / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"][0]["sha256"] = ir.file_sha256(artifact / "model.onnx")
    path.write_text(json.dumps(manifest))


def test_the_original_is_found_beside_it(infer_opt: Callable, fits: Callable, made: Path) -> None:
    """On the data that is given, the error of every output."""
    found = infer_opt("verify", made, "--data", "calib.npz", "--json")
    assert found.code == 0
    fits("verify", found.json)
    assert found.json["original"] == "net.onnx"
    assert found.json["samples"]["count"] == 32
    assert found.json["samples"]["random"] is False
    [scores] = found.json["outputs"]
    assert (scores["name"], scores["elements"]) == ("scores", 160)
    assert 20 < scores["sqnr_db"] < 80


def test_random_inputs_are_called_that(infer_opt: Callable, made: Path) -> None:
    """Without --data, in both forms."""
    assert infer_opt("verify", made, "--json").json["samples"] == {"source": "random", "count": 8, "random": True}
    assert "8 random inputs, which say little of real ones" in infer_opt("verify", made).out


def test_a_missed_budget_is_code_3(infer_opt: Callable, made: Path) -> None:
    """The fault is named on stderr and in the JSON."""
    ran = infer_opt("verify", made, "--data", "calib.npz", "--min-sqnr", "150", "--json")
    assert ran.code == 3
    [fault] = ran.json["faults"]
    assert "--min-sqnr 150" in fault
    assert fault in ran.err
    assert infer_opt("verify", made, "--data", "calib.npz", "--min-sqnr", "15").code == 0


def test_a_changed_file_is_code_3(infer_opt: Callable, made: Path) -> None:
    """One byte more is enough, and so is a file that is gone."""
    with (made / "model.onnx").open("ab") as file:
        file.write(b"\0")
    ran = infer_opt("verify", made)
    assert (ran.code, ran.err.splitlines()[0]) == (3, "error: `made`: `model.onnx` is not what was compiled")
    (made / "model.onnx").unlink()
    assert infer_opt("verify", made).code == 3


def test_nan_is_code_3_without_any_budget(infer_opt: Callable, made: Path) -> None:
    """No budget could allow what is no number."""
    model = onnx.load(made / "model.onnx")
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            nans = np.full(onnx.numpy_helper.to_array(tensor).shape, np.nan, np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(nans, tensor.name))
    onnx.save(model, made / "model.onnx")
    reseal(made)
    ran = infer_opt("verify", made)
    assert ran.code == 3
    assert ran.err.count("output `scores` has NaN or Inf in other places than the original") == 1


def test_an_output_that_collapsed_is_code_3_on_real_samples_only(
    infer_opt: Callable, fits: Callable, loud: tuple[str, str]
) -> None:
    """Random inputs lie beyond the ranges that real ones gave: what is lost there may be nothing."""
    model, samples = loud
    order = ("--target", target_here(), "--calib", samples, "--precision", "int8", "--out", "ruined")
    assert infer_opt("compile", model, *order).code == 3
    ran = infer_opt("verify", "ruined", "--data", samples, "--json")
    assert ran.code == 3
    fits("verify", ran.json)
    [fault] = ran.json["faults"]
    assert fault.startswith("output `y` collapsed: it keeps ")
    assert fault in ran.err
    assert infer_opt("verify", "ruined", "--data", samples, "--min-sqnr=-50").code == 0
    unknown = infer_opt("verify", "ruined", "--json")
    assert unknown.json["outputs"][0]["sqnr_db"] < 20
    assert (unknown.code, unknown.json["faults"]) == (0, [])
    assert infer_opt("verify", "ruined", "--min-sqnr", "20").code == 3


def test_a_lost_output_is_code_3(infer_opt: Callable, made: Path) -> None:
    """An artifact with other outputs is no artifact of this model."""
    model = onnx.load(made / "model.onnx")
    model.graph.output[0].name = "points"
    model.graph.node[-1].output[0] = "points"
    onnx.save(model, made / "model.onnx")
    reseal(made)
    ran = infer_opt("verify", made)
    assert (ran.code, "has no output `scores`" in ran.err) == (3, True)


def test_another_model_is_not_taken_for_the_original(infer_opt: Callable, made: Path) -> None:
    """By its SHA-256; and without any, the option that names it is told."""
    other = infer_opt("verify", made, "--original", "fixed.onnx")
    assert (other.code, "its SHA-256 differs" in other.err) == (1, True)
    Path("net.onnx").unlink()
    missing = infer_opt("verify", made)
    assert missing.code == 1
    assert "the original `net.onnx` is not beside `made`" in missing.err
    assert "--original MODEL" in missing.err
    assert infer_opt("verify", made, "--original", Path("net.onnx")).code == 1


def test_weights_beside_the_original_are_part_of_it(infer_opt: Callable, kit: Path) -> None:
    """One other byte in the file of external data, and it is not the model that was compiled."""
    model = onnx.load(kit / "net.onnx")
    onnx.save(model, "apart.onnx", save_as_external_data=True, location="apart.weights", size_threshold=0)
    assert infer_opt("compile", "apart.onnx", "--target", "x86-avx2", "--out", "made").code == 0
    assert infer_opt("verify", "made").code == 0
    weights = bytearray(Path("apart.weights").read_bytes())
    weights[0] ^= 1
    Path("apart.weights").write_bytes(weights)
    ran = infer_opt("verify", "made")
    assert (ran.code, "its SHA-256 differs" in ran.err) == (1, True)


@pytest.mark.parametrize(
    "manifest", ["[]", "{", '{"schema": 1, "files": []}', '{"schema": 2, "files": [], "model": "m"}']
)
def test_a_manifest_that_is_none(infer_opt: Callable, made: Path, manifest: str) -> None:
    """Named, with code 1: it was not infer-opt that wrote it."""
    (made / "manifest.json").write_text(manifest)
    ran = infer_opt("verify", made)
    assert (ran.code, "`made/manifest.json` is not a manifest" in ran.err) == (1, True)


def test_no_artifact_at_all(infer_opt: Callable) -> None:
    """A file, and a path that leads nowhere."""
    assert "is not a folder" in infer_opt("verify", "net.onnx").err
    assert "does not exist" in infer_opt("verify", "nowhere").err


def test_a_state_is_told_and_not_judged(infer_opt: Callable, fits: Callable) -> None:
    """Each sample is run again from the state that it left: twice the elements, and the state's own numbers beside."""
    weights = {"w": normal(1, 12, 4), "r": normal(1, 12, 3, seed=1)}
    text = """net (float[1,1,4] x, float[1,1,3] h, float[1,1,3] c)
        => (float[1,1,1,3] y, float[1,1,3] hn, float[1,1,3] cn) {
        y, hn, cn = LSTM<hidden_size=3>(x, w, r, , , h, c) }"""
    Network(text, weights).save(Path(), "lstm.onnx")
    compiled = infer_opt("compile", "lstm.onnx", "--target", target_here(), "--out", "made", "--json")
    verified = infer_opt("verify", "made", "--original", "lstm.onnx", "--json")
    for ran, schema, count in ((compiled, "report", 3), (verified, "verify", 8)):
        assert ran.code == 0
        fits(schema, ran.json)
        assert [(output["name"], output["elements"], output["judged"]) for output in ran.json["outputs"]] == [
            ("y", 2 * 3 * count, True),
            ("hn", 3 * count, False),
            ("cn", 3 * count, False),
        ]

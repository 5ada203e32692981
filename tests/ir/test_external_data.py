"""Weights outside the model file: read where they lie, refused where they cannot be meant, copied on saving."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.external_data_helper import set_external_data

from infer_opt import ir
from infer_opt.errors import InputError
from tests.onnx_text import parse, run

WEIGHT = np.array([1, 2], np.float32)
MISFIT = "copy or export the file again; it is truncated or belongs to another model"


def write(folder: Path, location: str, **entries: int) -> Path:
    """A model whose weight `w` is said to lie at `location`."""
    proto = parse("m (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    move(proto.graph.initializer[0], location, **entries)
    file = folder / "model.onnx"
    file.write_bytes(proto.SerializeToString())
    return file


def move(tensor: TensorProto, location: str, **entries: int) -> None:
    """Say of a tensor that it lies elsewhere."""
    name = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), name))
    set_external_data(tensor, location, **entries)
    tensor.ClearField("raw_data")


def refusal(file: Path) -> tuple[str, str | None]:
    """Message and hint, with `FILE` for the path."""
    with pytest.raises(InputError) as caught:
        ir.load(file)
    return caught.value.message.replace(str(file), "FILE"), caught.value.hint


@pytest.mark.parametrize("location", ["weights.bin", "parts/weights.bin", "parts/../weights.bin"])
def test_weights_are_read_from_the_folder_of_the_model(location: str, tmp_path: Path) -> None:
    """And from folders inside it, whatever the working directory is."""
    (tmp_path / "parts").mkdir()
    (tmp_path / location).write_bytes(bytes(16) + WEIGHT.tobytes())
    model = ir.load(write(tmp_path, location, offset=16, length=8))
    np.testing.assert_array_equal(ir.array(model.graph.initializers["w"]), WEIGHT)


def test_weights_of_constants_and_functions_are_read_from_there_too(tmp_path: Path) -> None:
    """The tensor of a Constant node in a function body is found after inlining."""
    proto = parse("""<ir_version: 8, opset_import: ["": 13, "my": 1]> m (float[2] x) => (float[2] y) { y = my.F(x) }
        <domain: "my", opset_import: ["": 13]>
        F (a) => (b) { c = Constant<value = float[2] {1, 2}>()  b = Add(a, c) }""")
    move(proto.functions[0].node[0].attribute[0].t, "weights.bin")
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    saved = ir.serialize(ir.load(tmp_path / "model.onnx"))
    np.testing.assert_array_equal(run(saved, {"x": WEIGHT})[0], 2 * WEIGHT)


@pytest.mark.parametrize("location", ["../outside.bin", "/outside.bin", "", "parts/../../outside.bin"])
def test_a_location_outside_the_folder_is_refused(location: str, tmp_path: Path) -> None:
    """Whether the file is there or not: a model must not be able to read any file it likes."""
    (tmp_path / "outside.bin").write_bytes(WEIGHT.tobytes())
    folder = tmp_path / "model"
    (folder / "parts").mkdir(parents=True)
    assert refusal(write(folder, location)) == (
        f"`FILE`: external data of tensor `w` lies outside the model's folder: `{location}`",
        "move the file beside the model and export again",
    )


def test_a_link_that_leads_outside_is_refused(tmp_path: Path) -> None:
    """A link inside the folder is followed before it is judged."""
    (tmp_path / "outside.bin").write_bytes(WEIGHT.tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").symlink_to(tmp_path / "outside.bin")
    message, _ = refusal(write(folder, "weights.bin"))
    assert message == "`FILE`: external data of tensor `w` lies outside the model's folder: `weights.bin`"


def test_a_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    """As one that a version control system may lay out."""
    (tmp_path / "content.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "weights.bin").symlink_to("content.bin")
    model = ir.load(write(tmp_path, "weights.bin"))
    np.testing.assert_array_equal(ir.array(model.graph.initializers["w"]), WEIGHT)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The hint says which file to put where."""
    assert refusal(write(tmp_path, "weights.bin")) == (
        "`FILE`: external data of tensor `w` is missing: `weights.bin`",
        "put `weights.bin` beside `model.onnx`",
    )


@pytest.mark.parametrize(
    ("entries", "needs"),
    [
        pytest.param({"offset": 8, "length": 8}, "8 bytes at 8", id="truncated"),
        pytest.param({"offset": 0, "length": 4}, "8 bytes at 0", id="length too small"),
        pytest.param({"offset": 0, "length": 99}, "8 bytes at 0", id="length too large"),
        pytest.param({"offset": -8, "length": 8}, "8 bytes at -8", id="negative"),
    ],
)
def test_bytes_that_the_file_does_not_have_are_refused(entries: dict[str, int], needs: str, tmp_path: Path) -> None:
    """Needed and present sizes are both named."""
    (tmp_path / "weights.bin").write_bytes(bytes(12))
    message = f"`FILE`: external data of tensor `w` needs {needs}, but `weights.bin` has 12"
    assert refusal(write(tmp_path, "weights.bin", **entries)) == (message, MISFIT)


def test_an_offset_that_is_no_number_is_refused(tmp_path: Path) -> None:
    """The format holds numbers as text."""
    (tmp_path / "weights.bin").write_bytes(bytes(12))
    file = write(tmp_path, "weights.bin", offset=0)
    file.write_bytes(file.read_bytes().replace(b"offset\x12\x010", b"offset\x12\x01z"))
    message, _ = refusal(file)
    assert message == "`FILE`: external data of tensor `w` has an offset or length that is no number"


def test_what_is_saved_stands_alone(tmp_path: Path) -> None:
    """Weights are copied into the artifact, which the original's files can go without."""
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    model = ir.load(write(tmp_path, "weights.bin"))
    data = ir.serialize(model)
    (tmp_path / "weights.bin").unlink()
    np.testing.assert_array_equal(run(data, {"x": WEIGHT})[0], 2 * WEIGHT)


def test_large_models_are_saved_with_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit, small here, weights go beside the model; loading the two gives the same model."""
    monkeypatch.setattr(sys.modules["infer_opt.ir.save"], "_EXTERNAL_ABOVE_BYTES", 1000)
    proto = parse("m (float[N,20] x) => (float[N,20] y) <float[1] b = {1}> { t = MatMul(x, w)  y = Add(t, b) }")
    weight = np.arange(400, dtype=np.float32).reshape(20, 20)
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    model = ir.load(tmp_path / "model.onnx")
    target = tmp_path / "saved.onnx"
    assert ir.save(model, target) == [target, tmp_path / "saved.onnx.data"]
    assert target.stat().st_size < 1000 < (tmp_path / "saved.onnx.data").stat().st_size
    onnx.checker.check_model(str(target))
    again = ir.load(target)
    assert (ir.text(again), ir.fingerprint(again)) == (ir.text(model), ir.fingerprint(model))


def test_small_models_are_saved_as_one_file(tmp_path: Path) -> None:
    """Up to the limit."""
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    model = ir.load(write(tmp_path, "weights.bin"))
    assert ir.save(model, tmp_path / "saved.onnx") == [tmp_path / "saved.onnx"]
    assert ir.fingerprint(ir.load(tmp_path / "saved.onnx")) == ir.fingerprint(model)

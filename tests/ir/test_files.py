"""Which files a model is made of, and their digest: as `sha256sum` would give it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx.external_data_helper import set_external_data

from infer_opt import ir
from infer_opt.errors import InputError
from infer_opt.ir import files
from tests.onnx_text import parse

WEIGHT = np.array([1, 2], np.float32)
TEXT = """<ir_version: 8, opset_import: ["": 13, "my": 1]>
    m (float[2] x, bool p) => (float[2] y) <float[2] w = {1, 2}> {
        a = Add(x, w)
        b = my.F(a)
        y = If (p) <
            then_branch = t () => (float[2] c) <float[2] v = {1, 2}> { c = Add(b, v) },
            else_branch = e () => (float[2] d) { d = Neg(b) }
        >
    }
    <domain: "my", opset_import: ["": 13]>
    F (i) => (o) { k = Constant<value = float[2] {1, 2}>()  o = Add(i, k) }"""


def move(tensor: TensorProto, location: str) -> None:
    """Say of a tensor that it lies elsewhere."""
    tensor.CopyFrom(numpy_helper.from_array(WEIGHT, tensor.name))
    set_external_data(tensor, location)
    tensor.ClearField("raw_data")


def write(folder: Path, *locations: str) -> Path:
    """A model with tensors in graph, branch and function; each file of `locations` takes one of them, in this order."""
    proto = parse(TEXT)
    then = next(attr.g for attr in proto.graph.node[2].attribute if attr.name == "then_branch")
    tensors = [proto.graph.initializer[0], then.initializer[0], proto.functions[0].node[0].attribute[0].t]
    for tensor, location in zip(tensors, locations, strict=False):
        move(tensor, location)
        (folder / location).parent.mkdir(exist_ok=True)
        (folder / location).write_bytes(WEIGHT.tobytes())
    file = folder / "model.onnx"
    file.write_bytes(proto.SerializeToString())
    return file


def names(file: Path) -> list[str]:
    """The files of a model, relative to its folder."""
    return [found.relative_to(file.parent).as_posix() for found in ir.source_files(file)]


def sha256(content: bytes) -> str:
    """The plain digest."""
    return hashlib.sha256(content).hexdigest()


def test_a_model_with_its_own_weights_is_one_file(tmp_path: Path) -> None:
    """And has the digest that `sha256sum` gives."""
    file = write(tmp_path)
    assert ir.source_files(file) == [file]
    assert ir.source_sha256(file) == sha256(file.read_bytes())


def test_external_data_are_found_wherever_a_tensor_is(tmp_path: Path) -> None:
    """In the graph, in a branch and in a function; the model comes first, the others are sorted, each is there once."""
    assert names(write(tmp_path, "z.bin", "parts/b.bin", "a.bin")) == ["model.onnx", "a.bin", "parts/b.bin", "z.bin"]
    assert names(write(tmp_path, "parts/../z.bin", "z.bin", "z.bin")) == ["model.onnx", "z.bin"]


def test_a_link_has_the_name_that_the_model_gives_it(tmp_path: Path) -> None:
    """So that a copy of the folder in which links became files has the same digest."""
    file = write(tmp_path, "a.bin")
    before = ir.source_sha256(file)
    (tmp_path / "a.bin").rename(tmp_path / "content")
    (tmp_path / "a.bin").symlink_to("content")
    assert names(file) == ["model.onnx", "a.bin"]
    assert ir.source_sha256(file) == before


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="the digest is compared with sha256sum's")
def test_several_files_have_the_digest_of_their_listing(tmp_path: Path) -> None:
    """As the shell computes it: `sha256sum model.onnx a.bin parts/b.bin | sha256sum`."""
    file = write(tmp_path, "parts/b.bin", "a.bin")
    listing = subprocess.run(["sha256sum", *names(file)], cwd=tmp_path, capture_output=True, check=True).stdout
    assert ir.source_sha256(file) == sha256(listing)


@pytest.mark.parametrize("changed", ["model.onnx", "a.bin", "b.bin"])
def test_one_byte_of_any_file_changes_the_digest(tmp_path: Path, changed: str) -> None:
    """Of the weights no less than of the graph."""
    file = write(tmp_path, "a.bin", "b.bin")
    before = ir.source_sha256(file)
    content = (tmp_path / changed).read_bytes()
    (tmp_path / changed).write_bytes(content.replace(WEIGHT.tobytes() if "bin" in changed else b"my", b"12", 1))
    assert ir.source_sha256(file) != before


def test_weights_are_not_parsed_to_find_that_there_are_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file without the word that external data need is not read into memory at all."""
    file = write(tmp_path)

    def refuse(path: Path) -> None:
        pytest.fail(f"parsed {path}")

    monkeypatch.setattr(files, "parse", refuse)
    assert ir.source_files(file) == [file]


@pytest.mark.parametrize("location", ["../outside.bin", "/outside.bin", ""])
def test_files_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    """No digest of a file that a model must not read."""
    (tmp_path / "outside.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "model").mkdir()
    proto = parse(TEXT)
    move(proto.graph.initializer[0], location)
    file = tmp_path / "model" / "model.onnx"
    file.write_bytes(proto.SerializeToString())
    with pytest.raises(InputError, match="external data of tensor `w` lies outside the model's folder"):
        ir.source_sha256(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With where it has to be."""
    file = write(tmp_path, "a.bin")
    (tmp_path / "a.bin").unlink()
    with pytest.raises(InputError, match=r"external data of tensor `w` is missing: `a\.bin`"):
        ir.source_files(file)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "does not exist"), (b"", "is empty or not an ONNX"), (b"location", "is not an ONNX")]
)
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    """As loading it is."""
    file = tmp_path / "model.onnx"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=said):
        ir.source_files(file)


def test_the_digest_of_a_file(tmp_path: Path) -> None:
    """SHA-256 of its bytes, more than one chunk of them; a folder cannot be read."""
    content = bytes(range(256)) * 8192
    (tmp_path / "file").write_bytes(content)
    assert ir.file_sha256(tmp_path / "file") == sha256(content)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        ir.file_sha256(tmp_path)

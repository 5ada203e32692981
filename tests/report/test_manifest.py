"""The manifest: what was written is read back, and a folder that is not as it was written is refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infer_opt import ir, profiles
from infer_opt.errors import InputError
from infer_opt.report import MANIFEST, BrokenArtifactError, Manifest, read_manifest, write_manifest
from tests.targets.networks import profile

BYTES = {"model.onnx": b"graph", "model.onnx.data": b"weights" * 100}


def manifest(*ports: ir.Port) -> Manifest:
    """A manifest of the files in `BYTES`."""
    return Manifest(
        model="model.onnx",
        files=tuple(BYTES),
        source={"path": "net.onnx", "sha256": "a" * 64},
        calib={"path": "calib.npz", "sha256": "b" * 64, "samples": 12},
        profile=profiles.to_table(profile("t4")),
        pipeline="simplify,fuse",
        versions={"python": "3.11"},
        run={"threads": 2, "arena": True},
        interface=ir.Interface(ports or (ir.Port("x", "float", ("N", 3, 8, None)),), (ir.Port("y", "int64", None),)),
        checked="run",
    )


def written(folder: Path, content: Manifest | None = None) -> Path:
    """An artifact."""
    for name, data in BYTES.items():
        (folder / name).write_bytes(data)
    write_manifest(content or manifest(), folder)
    return folder


def rewritten(folder: Path, **changes: Any) -> Path:
    """The artifact with some keys changed, or gone where None."""
    path = written(folder) / MANIFEST
    content = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}), encoding="utf-8")
    return folder


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Every field, with sizes and hashes as `sha256sum` gives them."""
    found = read_manifest(written(tmp_path))
    assert found["schema"] == 1
    assert found["model"] == "model.onnx"
    assert found["files"] == [
        {"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in BYTES.items()
    ]
    assert found["inputs"] == [{"name": "x", "dtype": "float", "shape": ["N", 3, 8, None], "layout": "NCHW"}]
    assert found["outputs"] == [{"name": "y", "dtype": "int64", "shape": None, "layout": None}]
    assert found["profile"]["compute_capability"] == "7.5"
    for key in ("source", "calib", "pipeline", "versions", "run", "checked"):
        assert found[key] == getattr(manifest(), key)


def test_a_compile_without_samples_has_no_calib(tmp_path: Path) -> None:
    """The key is there all the same."""
    assert read_manifest(written(tmp_path, replace(manifest(), calib=None)))["calib"] is None


def test_surgery_is_named_where_there_was_some(tmp_path: Path) -> None:
    """The key is there all the same."""
    assert read_manifest(written(tmp_path))["surgery"] is None
    script = {"path": "cut.py", "sha256": "c" * 64}
    assert read_manifest(written(tmp_path, replace(manifest(), surgery=script)))["surgery"] == script


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((1, 3, 224, 224), "NCHW"),
        (("N", 1, "H", "W"), "NCHW"),
        ((1, 224, 224, 3), "NHWC"),
        ((None, None, None, 4), "NHWC"),
        ((1, 3, 8, 3), None),
        ((1, 64, 8, 8), None),
        ((1, 3, 224), None),
        ((1, 3, 8, 8, 8), None),
        ((), None),
        (None, None),
    ],
)
def test_the_layout_is_told_where_the_channels_tell_it(
    tmp_path: Path, shape: tuple[int | str | None, ...] | None, layout: str | None
) -> None:
    """1, 3 or 4 channels on one side and not on the other; anything else is no image, or not clear."""
    found = read_manifest(written(tmp_path, manifest(ir.Port("x", "float", shape))))
    assert found["inputs"][0]["layout"] == layout


def test_a_folder_without_manifest_is_refused(tmp_path: Path) -> None:
    """It is no artifact."""
    with pytest.raises(InputError) as caught:
        read_manifest(tmp_path)
    assert caught.value.message == f"`{tmp_path}` holds no manifest.json"
    assert caught.value.hint == "name a folder that `infer-opt compile` wrote"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"files": 3}', '{"files": [{}]}', "\udcff", '{"schema": 1, "files": []}']
)
def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    """Whatever it holds: broken JSON, other JSON, other bytes."""
    (tmp_path / MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=r"is not a manifest of this version of infer-opt$"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("changes", [{"schema": 2}, {"model": None}, {"run": None}, {"model": "other.onnx"}])
def test_a_manifest_of_another_version_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Another schema, a missing key, or a model that is none of the files."""
    with pytest.raises(InputError, match=r"is not a manifest of this version of infer-opt$"):
        read_manifest(rewritten(tmp_path, **changes))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The artifact is broken, which is exit code 3 of `verify`."""
    (written(tmp_path) / "model.onnx.data").unlink()
    with pytest.raises(BrokenArtifactError) as caught:
        read_manifest(tmp_path)
    assert caught.value.message == f"`{tmp_path}`: the artifact's file `model.onnx.data` is missing"


def test_a_changed_file_is_named(tmp_path: Path) -> None:
    """Also where its size is the same."""
    (written(tmp_path) / "model.onnx").write_bytes(b"grapf")
    with pytest.raises(BrokenArtifactError) as caught:
        read_manifest(tmp_path)
    assert caught.value.message == f"`{tmp_path}`: `model.onnx` is not what was compiled"
    assert caught.value.hint == "compile the model again"


@pytest.mark.parametrize("path", ["../secret", "/etc/hostname"])
def test_files_outside_the_folder_are_not_the_artifacts(tmp_path: Path, path: str) -> None:
    """A manifest cannot make anybody read elsewhere, though the file is there and its hash is right."""
    (tmp_path / "secret").write_bytes(b"secret")
    folder = tmp_path / "artifact"
    folder.mkdir()
    outside = {"path": path, "bytes": 6, "sha256": hashlib.sha256(b"secret").hexdigest()}
    files = read_manifest(written(folder))["files"]
    with pytest.raises(InputError, match="is missing"):
        read_manifest(rewritten(folder, files=[*files, outside]))


def test_more_files_in_the_folder_do_no_harm(tmp_path: Path) -> None:
    """report.json, a plan that was built on the device."""
    (written(tmp_path) / "model.plan").write_bytes(b"engine")
    assert read_manifest(tmp_path)["model"] == "model.onnx"

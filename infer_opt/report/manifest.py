"""manifest.json: what an artifact is made of, made from, and how it is to be run. Schema in docs/schemas/."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from infer_opt import ir
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MANIFEST", "BrokenArtifactError", "Manifest", "read_manifest", "write_manifest"]

MANIFEST = "manifest.json"
SCHEMA = 1


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json; field by field as in docs/schemas/manifest.schema.json."""

    model: str
    files: tuple[str, ...]
    source: dict[str, Any]
    calib: dict[str, Any] | None
    profile: dict[str, Any]
    pipeline: str
    versions: dict[str, str]
    run: dict[str, Any]
    interface: ir.Interface
    checked: str
    surgery: dict[str, str] | None = None


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write manifest.json beside the files it lists, with their sizes and SHA-256."""
    entries = [
        {"path": name, "bytes": (folder / name).stat().st_size, "sha256": ir.file_sha256(folder / name)}
        for name in manifest.files
    ]
    content = {
        "schema": SCHEMA,
        "model": manifest.model,
        "files": entries,
        "source": manifest.source,
        "surgery": manifest.surgery,
        "calib": manifest.calib,
        "profile": manifest.profile,
        "pipeline": manifest.pipeline,
        "versions": manifest.versions,
        "run": manifest.run,
        "inputs": [_port(port) for port in manifest.interface.inputs],
        "outputs": [_port(port) for port in manifest.interface.outputs],
        "checked": manifest.checked,
    }
    (folder / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _port(port: ir.Port) -> dict[str, Any]:
    entry = asdict(port)
    entry["shape"] = None if port.shape is None else list(port.shape)
    return {"name": entry["name"], "dtype": entry["dtype"], "shape": entry["shape"], "layout": _layout(port)}


_IMAGE_RANK = 4
_CHANNELS = (1, 3, 4)


def _layout(port: ir.Port) -> str | None:
    """NCHW or NHWC where a rank-4 shape says so by a dimension of 1, 3 or 4 channels; otherwise None."""
    if port.shape is None or len(port.shape) != _IMAGE_RANK:
        return None
    first, last = port.shape[1] in _CHANNELS, port.shape[3] in _CHANNELS
    return ("NCHW" if first else "NHWC") if first != last else None


class BrokenArtifactError(InputError):
    """A file of an artifact is missing, or holds other bytes than `compile` wrote."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an artifact folder; every file it lists is there, with the bytes it had.

    Raises:
        InputError: the folder holds no manifest of this version.
        BrokenArtifactError: a file is missing or was changed.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"`{folder}` holds no {MANIFEST}", "name a folder that `infer-opt compile` wrote")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        entries = [(str(entry["path"]), str(entry["sha256"])) for entry in content["files"]]
        whole = content["schema"] == SCHEMA and content.keys() >= _KEYS
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        whole = False
    if not whole or content["model"] not in dict(entries):
        raise InputError(f"`{path}` is not a manifest of this version of infer-opt", "compile the model again")
    for name, digest in entries:
        file = folder / name
        if not file.resolve().is_relative_to(folder.resolve()) or not file.is_file():
            raise BrokenArtifactError(f"`{folder}`: the artifact's file `{name}` is missing", "compile the model again")
        if ir.file_sha256(file) != digest:
            raise BrokenArtifactError(f"`{folder}`: `{name}` is not what was compiled", "compile the model again")
    return content


_KEYS = {"model", "source", "profile", "run", "inputs", "outputs", "checked"}

"""The files that a model is made of, and digests of files."""

from __future__ import annotations

import hashlib
import mmap
from typing import TYPE_CHECKING

from infer_opt.errors import InputError
from infer_opt.ir.proto import all_tensors, external_file, is_external, parse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["file_sha256", "files_sha256", "source_files", "source_sha256"]

_CHUNK = 1 << 20
_LOCATION = b"location"  # the key that every tensor with external data has in the file


def source_files(path: Path) -> list[Path]:
    """The files of a model: its own first, then those of its external data, sorted, each once. No weights are read.

    Raises:
        InputError: the model's file is none, or one of external data is missing or outside its folder.
    """
    if not _may_have_external_data(path):
        return [path]
    external = (external_file(tensor, path) for tensor in all_tensors(parse(path)) if is_external(tensor))
    by_place = {file.resolve(): file for file in external}
    return [path, *sorted(by_place.values())]


def _may_have_external_data(path: Path) -> bool:
    """Told from the bytes: parsing a file that holds its own weights would copy all of them."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(_LOCATION) >= 0
    except (OSError, ValueError):  # unreadable, or empty: whoever reads it says so
        return True


def source_sha256(path: Path) -> str:
    """SHA-256 (hexadecimal) of a model with its external data.

    One file: that of its bytes. Several: that of the listing which `sha256sum` prints of them in the model's folder,
    in the order of `source_files`.

    Raises:
        InputError: as `source_files`, or a file cannot be read.
    """
    files = source_files(path)
    if len(files) == 1:
        return file_sha256(path)
    return files_sha256(path.parent, [file.relative_to(path.parent).as_posix() for file in files])


def file_sha256(path: Path) -> str:
    """SHA-256 (hexadecimal) of a file's bytes, read in chunks.

    Raises:
        InputError: the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InputError(f"`{path}` cannot be read: {error.strerror}", "check its permissions") from error
    return digest.hexdigest()


def files_sha256(folder: Path, names: Sequence[str]) -> str:
    """SHA-256 (hexadecimal) of the listing `sha256sum NAMES` prints in `folder`: covers each file's name and bytes.

    Raises:
        InputError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{file_sha256(folder / name)}  {name}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()

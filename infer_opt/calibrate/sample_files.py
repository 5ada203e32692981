"""Arrays in .npy and .npz files, read block by block: memory is one block's, however large the file.

Formats: NEP 1 (`numpy.lib.format`) for .npy, PKWARE APPNOTE 6.3 for the zip that a .npz is. Nothing is ever
unpickled.
"""

from __future__ import annotations

import io
import lzma
import math
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from infer_opt.calibrate.feed_checks import ticked
from infer_opt.errors import InputError

__all__ = ["StoredArray", "check_archive", "read_blocks", "read_whole", "stored_array", "stored_arrays"]

_SKIP = 1 << 20
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    KeyError,  # a member that was there when the file was first looked at
    ValueError,
    NotImplementedError,  # zipfile: a compression method it does not know
)

# What NumPy's parsing of a header, a Python literal, was seen to raise on damaged ones.
_MALFORMED = (ValueError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)


@dataclass(frozen=True)
class StoredArray:
    """Where one array lies on disk and what its bytes mean.

    Args:
        path: the .npy or .npz file.
        member: the zip member of a .npz; None in a .npy.
        dtype: element type, byte order included.
        shape: the whole array's.
        fortran_order: the first index varies fastest.
        header: bytes before the elements, in the .npy file or in the member once decompressed.
        position: where the elements begin in the file itself; None where the member is compressed.
    """

    path: Path
    member: str | None
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    header: int
    position: int | None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is None:  # bz2 reports a damaged stream so
            raise _damaged(path, str(error)) from error
        raise InputError(f"`{path}` cannot be read: {error.strerror}", "check its permissions") from error
    except _DAMAGE as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(
        f"`{path}` is damaged or no {path.suffix} file: {' '.join(reason.split())}",
        "write it again with `numpy.save` (.npy) or `numpy.savez` (.npz)",
    )


def stored_array(path: Path, name: str) -> StoredArray:
    """The array of a .npy file from its header alone; `name` is the input's, for messages.

    Raises:
        InputError: the file is unreadable, damaged, holds pickled objects, or bytes beyond its one array.
    """
    with _reading(path), path.open("rb") as stream:
        array = _parse_header(stream, path, None, name)
        size = stream.seek(0, io.SEEK_END)
        return _checked_size(array, name, size)


def stored_arrays(path: Path) -> dict[str, StoredArray]:
    """The arrays of a .npz file from their headers alone, by name; InputError as for `stored_array`."""
    arrays: dict[str, StoredArray] = {}
    with _reading(path), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name == info.filename:
                raise InputError(f"`{path}` holds `{name}`, which is not an array", "write it with `numpy.savez`")
            if name in arrays:
                raise InputError(f"`{path}` holds `{name}` twice", "write it again with `numpy.savez`")
            if info.flag_bits & 1:
                raise InputError(f"`{path}`: `{name}` is encrypted", "write it again with `numpy.savez`")
            with _open_member(archive, info.filename) as stream:
                array = _parse_header(stream, path, info, name)
            arrays[name] = _checked_size(array, name, info.file_size)
    return arrays


def check_archive(path: Path) -> None:
    """Raises InputError where a checksum of the .npz fails; reads it once, in chunks.

    Blocks are later read by seeking, past the checksums, so that a damaged file would feed wrong numbers.
    """
    with _reading(path), zipfile.ZipFile(path) as archive:
        bad = archive.testzip()
    if bad is not None:
        raise _damaged(path, f"bad checksum of {ticked([bad.removesuffix('.npy')])}")


def read_blocks(array: StoredArray, start: int, stop: int, rows: int) -> Iterator[NDArray[Any]]:
    """`array[start:start + rows]`, the `rows` after them, and so on to `stop`: fresh arrays in C order.

    Only those bytes are read; a compressed member is decompressed once from its beginning to `stop`. `stop -
    start` is a multiple of `rows`, in elements along axis 0.
    """
    if array.fortran_order:
        # A block's elements are scattered through the whole array, so each block would read all of it.
        whole = read_whole(array)
        for first in range(start, stop, rows):
            yield whole[first : first + rows].copy()
        return
    shape = (rows, *array.shape[1:])
    row_bytes = math.prod(array.shape[1:]) * array.dtype.itemsize
    with _reading(array.path), _elements(array, start * row_bytes) as stream:
        for _ in range(start, stop, rows):
            yield _read(stream, array, shape)


def read_whole(array: StoredArray) -> NDArray[Any]:
    """The whole array in C order; a zip member's checksum is verified."""
    with _reading(array.path), ExitStack() as stack:
        if array.member is None:
            stream: io.BufferedIOBase = stack.enter_context(array.path.open("rb"))
        else:
            archive = stack.enter_context(zipfile.ZipFile(array.path))
            stream = stack.enter_context(_open_member(archive, array.member))
        _skip(stream, array.header)
        flat = _read(stream, array, (math.prod(array.shape),))
        return np.asarray(flat.reshape(array.shape, order="F" if array.fortran_order else "C"), order="C")


@contextmanager
def _elements(array: StoredArray, begin: int) -> Iterator[io.BufferedIOBase]:
    """A stream that stands `begin` bytes after the array's first element."""
    if array.position is not None:
        with array.path.open("rb") as stream:
            stream.seek(array.position + begin)
            yield stream
        return
    with zipfile.ZipFile(array.path) as archive, _open_member(archive, array.member) as stream:
        _skip(stream, array.header + begin)
        yield stream


def _open_member(archive: zipfile.ZipFile, member: str | None) -> io.BufferedIOBase:
    return cast("io.BufferedIOBase", archive.open(member or ""))


def _skip(stream: io.BufferedIOBase, count: int) -> None:
    # Not `seek`: on a compressed member it reads 16 MiB at a time into memory.
    while count > 0 and (chunk := stream.read(min(count, _SKIP))):
        count -= len(chunk)


def _read(stream: io.BufferedIOBase, array: StoredArray, shape: tuple[int, ...]) -> NDArray[Any]:
    block: NDArray[Any] = np.empty(shape, array.dtype)
    # Both kinds of stream fill the whole buffer unless the data ends.
    if stream.readinto(block.reshape(-1).view(np.uint8).data) != block.nbytes:
        raise _damaged(array.path, "it ends before its last element")
    return block


def _parse_header(stream: io.BufferedIOBase, path: Path, info: zipfile.ZipInfo | None, name: str) -> StoredArray:
    shape, fortran_order, dtype = _header_fields(stream)
    if dtype.hasobject:
        raise InputError(
            f"`{path}`: `{name}` holds pickled Python objects, which are never loaded",
            "save a plain array of numbers, as `numpy.stack(samples)` makes it",
        )
    if any(not 0 <= dim <= sys.maxsize for dim in shape):
        raise ValueError(f"shape {shape}")
    member = None if info is None else info.filename
    position = _position(path, info, stream.tell())
    return StoredArray(path, member, dtype, shape, fortran_order, stream.tell(), position)


def _header_fields(stream: io.BufferedIOBase) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    try:
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(stream)
        if version == (2, 0):
            return np.lib.format.read_array_header_2_0(stream)
    except _MALFORMED as error:
        raise ValueError("its header is malformed") from error
    # 3.0 exists only for records whose field names are not Latin-1.
    raise ValueError(f"format version {version[0]}.{version[1]}")


def _position(path: Path, info: zipfile.ZipInfo | None, header: int) -> int | None:
    """Where the elements begin in the file: behind the zip's local file header (APPNOTE 4.3.7)."""
    if info is None:
        return header
    if info.compress_type != zipfile.ZIP_STORED:
        return None
    with path.open("rb") as stream:
        stream.seek(info.header_offset + 26)
        lengths: tuple[int, int] = struct.unpack("<HH", stream.read(4))
    return info.header_offset + 30 + sum(lengths) + header


def _checked_size(array: StoredArray, name: str, size: int) -> StoredArray:
    wanted = array.header + math.prod(array.shape) * array.dtype.itemsize
    if size < wanted:
        raise _damaged(array.path, f"`{name}` has {size} bytes of {wanted}")
    if size > wanted:
        raise InputError(
            f"`{array.path}`: {size - wanted} bytes follow the array of `{name}`",
            "save one array a file, or several in a .npz",
        )
    return array

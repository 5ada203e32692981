"""Stored arrays are read block by block, within a bound of memory, and nothing in a file is ever executed."""

from __future__ import annotations

import os
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from infer_opt.calibrate.sample_files import (
    check_archive,
    read_blocks,
    read_whole,
    stored_array,
    stored_arrays,
)
from infer_opt.errors import InputError

VALUES = np.arange(2 * 3 * 5 * 4, dtype=np.float32).reshape(6, 5, 4)


def write_member(path: Path, data: bytes, name: str = "x.npy", compression: int = zipfile.ZIP_STORED) -> None:
    """A zip with one member of these bytes."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(name, data)


def npy_bytes(tmp_path: Path, array: np.ndarray) -> bytes:
    """The bytes np.save writes for the array."""
    np.save(tmp_path / "made.npy", array)
    return (tmp_path / "made.npy").read_bytes()


def flip_byte(path: Path, needle: bytes) -> None:
    """Damage the first byte of the place that holds `needle`."""
    data = bytearray(path.read_bytes())
    data[data.index(needle)] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("array", [VALUES, np.asfortranarray(VALUES), VALUES.astype(">f4")])
def test_blocks_are_slices(tmp_path: Path, save: Callable[..., None], array: np.ndarray) -> None:
    """Any slice of a member, in either order of elements and of bytes, is what NumPy slices out."""
    save(tmp_path / "x.npz", a=array[::-1], x=array)
    stored = stored_arrays(tmp_path / "x.npz")["x"]
    for start, stop, rows in [(0, 6, 1), (0, 6, 3), (2, 6, 2), (5, 6, 1), (3, 3, 1)]:
        blocks = list(read_blocks(stored, start, stop, rows))
        assert len(blocks) == (stop - start) // rows
        for index, block in enumerate(blocks):
            first = start + index * rows
            np.testing.assert_array_equal(block, array[first : first + rows])
            assert block.flags.c_contiguous
            assert block.flags.writeable


@pytest.mark.parametrize("array", [VALUES, np.asfortranarray(VALUES), np.float32(3), np.zeros((0, 2))])
def test_a_whole_array_is_what_was_saved(tmp_path: Path, array: np.ndarray) -> None:
    """Also a scalar, an empty array and one in Fortran order; as .npy and as members of both kinds."""
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", x=array)
    np.savez_compressed(tmp_path / "c.npz", x=array)
    for stored in (
        stored_array(tmp_path / "x.npy", "x"),
        stored_arrays(tmp_path / "x.npz")["x"],
        stored_arrays(tmp_path / "c.npz")["x"],
    ):
        whole = read_whole(stored)
        assert whole.shape == np.shape(array)
        np.testing.assert_array_equal(whole, array)


def test_a_zip_written_by_other_tools_is_read(tmp_path: Path) -> None:
    """The elements are found behind extra fields and behind data before the archive."""
    array = npy_bytes(tmp_path, VALUES)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        info = zipfile.ZipInfo("x.npy")
        info.extra = b"\x99\x99\x04\x00abcd"
        archive.writestr(info, array)
    (tmp_path / "x.npz").write_bytes(b"#!prefix" + (tmp_path / "x.npz").read_bytes())
    stored = stored_arrays(tmp_path / "x.npz")["x"]
    assert stored.position is not None
    np.testing.assert_array_equal(np.concatenate(list(read_blocks(stored, 0, 6, 2))), VALUES)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_memory_is_one_block(tmp_path: Path, save: Callable[..., None]) -> None:
    """64 MiB in 256 samples are read, from the beginning and from the middle, within 8 MiB."""
    array = np.zeros((256, 64, 1024), np.float32)
    array[:, 0, 0] = np.arange(256)
    save(tmp_path / "x.npz", x=array)
    del array
    tracemalloc.start()
    try:
        stored = stored_arrays(tmp_path / "x.npz")["x"]
        check_archive(tmp_path / "x.npz")
        for start in (0, 250):
            firsts = [block[0, 0, 0] for block in read_blocks(stored, start, 256, 1)]
            assert firsts == list(range(start, 256))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickled_payload_does_not_run(tmp_path: Path) -> None:
    """An object array is refused by its header, in a .npy and in a .npz; its pickle would run."""
    ran = tmp_path / "ran"
    array = np.array([Payload(ran)], dtype=object)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=array)
    for read, path in ((lambda path: stored_array(path, "x"), "x.npy"), (stored_arrays, "x.npz")):
        with pytest.raises(InputError) as caught:
            read(tmp_path / path)
        assert caught.value.message == (
            f"`{tmp_path / path}`: `x` holds pickled Python objects, which are never loaded"
        )
        assert caught.value.hint == "save a plain array of numbers, as `numpy.stack(samples)` makes it"
    assert not ran.exists()
    with (tmp_path / "x.npy").open("rb") as stream:
        np.lib.format.read_magic(stream)
        np.lib.format.read_array_header_1_0(stream)
        pickle.load(stream)  # noqa: S301 - shows that the payload is live
    assert ran.exists()


def test_a_bare_pickle_is_no_array(tmp_path: Path) -> None:
    """What np.load would take for a pickle is refused by its first bytes."""
    (tmp_path / "x.npy").write_bytes(pickle.dumps({"x": 1}))
    with pytest.raises(InputError, match=r"`.*x\.npy` is damaged or no \.npy file: the magic string"):
        stored_array(tmp_path / "x.npy", "x")


def truncated(tmp_path: Path) -> Path:
    """An archive without its end, where the directory is."""
    np.savez(tmp_path / "x.npz", x=VALUES)
    data = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(data[: len(data) // 2])
    return tmp_path / "x.npz"


def empty_file(tmp_path: Path) -> Path:
    """No bytes at all."""
    (tmp_path / "x.npz").touch()
    return tmp_path / "x.npz"


def npy_renamed(tmp_path: Path) -> Path:
    """A .npy under the name of a .npz."""
    np.save(tmp_path / "x.npy", VALUES)
    return (tmp_path / "x.npy").rename(tmp_path / "x.npz")


def array_cut_short(tmp_path: Path) -> Path:
    """A member that lacks its last element."""
    write_member(tmp_path / "x.npz", npy_bytes(tmp_path, VALUES)[:-4])
    return tmp_path / "x.npz"


def unknown_version(tmp_path: Path) -> Path:
    """A header of a format NumPy has not defined."""
    write_member(tmp_path / "x.npz", b"\x93NUMPY\x09\x00" + npy_bytes(tmp_path, VALUES)[8:])
    return tmp_path / "x.npz"


def negative_shape(tmp_path: Path) -> Path:
    """Two negative dimensions, whose product is the right size."""
    write_member(tmp_path / "x.npz", npy_bytes(tmp_path, VALUES).replace(b"(6, 5, 4)", b"(-6,5,-4)"))
    return tmp_path / "x.npz"


def code_in_the_header(tmp_path: Path) -> Path:
    """A call where the shape stands."""
    write_member(tmp_path / "x.npz", npy_bytes(tmp_path, VALUES).replace(b"(6, 5, 4)", b"(exit(),)"))
    return tmp_path / "x.npz"


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', [1]: 2}",
        b"{'descr': '<f4', 1: 2, 'b': 3}",
        b"(" * 5000,
        b"-" * 9000 + b"1",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (01,)}",
        b" " * 20_000,
    ],
)
def test_a_malformed_header_is_named(tmp_path: Path, header: bytes) -> None:
    """Whatever NumPy's parser makes of it: TypeError, TokenError, MemoryError, SyntaxError or ValueError."""
    data = b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(InputError, match=r"is damaged or no \.npy file: its header is malformed$"):
        stored_array(tmp_path / "x.npy", "x")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (truncated, "File is not a zip file"),
        (empty_file, "File is not a zip file"),
        (npy_renamed, "File is not a zip file"),
        (array_cut_short, "`x` has 604 bytes of 608"),
        (unknown_version, "format version"),
        (negative_shape, "shape (-6, 5, -4)"),
        (code_in_the_header, "its header is malformed"),
    ],
)
def test_damage_is_named(tmp_path: Path, make: Callable[[Path], Path], reason: str) -> None:
    """Each kind of damage is one line that names the file and says what is wrong."""
    path = make(tmp_path)
    with pytest.raises(InputError) as caught:
        stored_arrays(path)
    assert caught.value.message.startswith(f"`{path}` is damaged or no .npz file: ")
    assert "\n" not in caught.value.message
    assert reason in caught.value.message
    assert caught.value.hint == "write it again with `numpy.save` (.npy) or `numpy.savez` (.npz)"


def test_a_flipped_byte_is_found(tmp_path: Path) -> None:
    """Checksums of a stored member are verified, which reading by position would pass over."""
    large = np.arange(1 << 14, dtype=np.float32)  # a small one is checked with its header
    np.savez(tmp_path / "x.npz", x=large)
    check_archive(tmp_path / "x.npz")
    flip_byte(tmp_path / "x.npz", large[9000].tobytes())
    stored = stored_arrays(tmp_path / "x.npz")["x"]
    with pytest.raises(InputError, match="bad checksum of `x`"):
        check_archive(tmp_path / "x.npz")
    with pytest.raises(InputError, match="Bad CRC-32"):
        read_whole(stored)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_compression_is_an_error(tmp_path: Path, method: int) -> None:
    """Each decompressor's own exception is translated."""
    noise = np.random.default_rng(0).random((256, 1024))
    write_member(tmp_path / "x.npz", npy_bytes(tmp_path, noise), compression=method)
    np.testing.assert_array_equal(read_whole(stored_arrays(tmp_path / "x.npz")["x"]), noise)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[1_500_000:1_500_100] = bytes(100)
    (tmp_path / "x.npz").write_bytes(bytes(data))
    stored = stored_arrays(tmp_path / "x.npz")["x"]
    with pytest.raises(InputError, match=r"damaged or no \.npz file"):
        check_archive(tmp_path / "x.npz")
    with pytest.raises(InputError, match=r"damaged or no \.npz file"):
        read_whole(stored)
    with pytest.raises(InputError, match=r"damaged or no \.npz file"):
        list(read_blocks(stored, 0, 256, 1))


def test_a_file_that_shrank_is_an_error(tmp_path: Path) -> None:
    """A file that was cut after it was looked at ends in an error, not in fewer or made-up elements."""
    np.save(tmp_path / "x.npy", VALUES)
    stored = stored_array(tmp_path / "x.npy", "x")
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-4])
    with pytest.raises(InputError, match=r"`.*x.npy` is damaged.*: it ends before its last element"):
        list(read_blocks(stored, 0, 6, 1))
    with pytest.raises(InputError, match="it ends before its last element"):
        read_whole(stored)


def test_a_file_that_went_away_is_an_error(tmp_path: Path) -> None:
    """The words are the system's, without its number."""
    np.save(tmp_path / "x.npy", VALUES)
    stored = stored_array(tmp_path / "x.npy", "x")
    (tmp_path / "x.npy").unlink()
    with pytest.raises(InputError) as caught:
        read_whole(stored)
    assert caught.value.message == f"`{tmp_path / 'x.npy'}` cannot be read: No such file or directory"
    assert caught.value.hint == "check its permissions"


def test_a_second_array_in_a_npy_is_an_error(tmp_path: Path) -> None:
    """np.save called twice on one stream would lose the second array without a word."""
    with (tmp_path / "x.npy").open("wb") as stream:
        np.save(stream, VALUES)
        np.save(stream, VALUES)
    with pytest.raises(InputError) as caught:
        stored_array(tmp_path / "x.npy", "x")
    assert caught.value.message == f"`{tmp_path / 'x.npy'}`: 608 bytes follow the array of `x`"
    assert caught.value.hint == "save one array a file, or several in a .npz"


def test_what_is_no_array_in_a_npz_is_named(tmp_path: Path) -> None:
    """A text file in the archive is not passed over."""
    write_member(tmp_path / "x.npz", b"hello", "readme.txt")
    with pytest.raises(InputError) as caught:
        stored_arrays(tmp_path / "x.npz")
    assert caught.value.message == f"`{tmp_path / 'x.npz'}` holds `readme.txt`, which is not an array"
    assert caught.value.hint == "write it with `numpy.savez`"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_stands_twice_is_an_error(tmp_path: Path) -> None:
    """A zip may hold a name twice; which array is meant cannot be known."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", npy_bytes(tmp_path, VALUES))
        archive.writestr("x.npy", npy_bytes(tmp_path, VALUES))
    with pytest.raises(InputError, match="holds `x` twice"):
        stored_arrays(tmp_path / "x.npz")


def test_an_encrypted_member_is_an_error(tmp_path: Path) -> None:
    """The flag in the central directory is read before the member is."""
    write_member(tmp_path / "x.npz", npy_bytes(tmp_path, VALUES))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "x.npz").write_bytes(bytes(data))
    with pytest.raises(InputError, match="`x` is encrypted"):
        stored_arrays(tmp_path / "x.npz")

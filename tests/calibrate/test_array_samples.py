"""Stacked files are cut into feeds, folders hold one feed a file, and what does not fit is named."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from infer_opt.calibrate.samples import Feed, InputSpec, SampleSet, load_samples
from infer_opt.errors import InputError

IMAGE = InputSpec("image", np.dtype(np.float32), ("batch", 3, "h", "w"))
TOKENS = InputSpec("tokens", np.dtype(np.int64), ("batch", "length"))
SCALAR = InputSpec("scalar", np.dtype(np.float32), ())
BATCH_2 = InputSpec("x", np.dtype(np.float32), (2, 3))
ANY_RANK = InputSpec("x", np.dtype(np.float32), None)


def noise(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Normal values, the same at every call."""
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def saved(tmp_path: Path, **arrays: Any) -> str:
    """A .npz of the arrays."""
    np.savez(tmp_path / "samples.npz", **arrays)
    return str(tmp_path / "samples.npz")


def assert_feeds(samples: SampleSet, expected: list[Feed]) -> None:
    """The set iterates, twice, over exactly these feeds in the right element types."""
    assert len(samples) == len(expected)
    for _ in range(2):
        for feed, wanted in zip(samples, expected, strict=True):
            assert list(feed) == list(wanted)
            for name, array in feed.items():
                assert array.shape == wanted[name].shape
                assert array.dtype == wanted[name].dtype
                assert array.dtype.isnative
                np.testing.assert_array_equal(array, wanted[name])


def message_of(source: str, *inputs: InputSpec) -> tuple[str, str | None]:
    """The words of the InputError that loading raises, with the path as `FILE`."""
    with pytest.raises(InputError) as caught:
        load_samples(source, inputs)
    assert "\n" not in caught.value.message
    return caught.value.message.replace(source, "FILE"), caught.value.hint


def test_rank_plus_one_is_one_feed_an_index(tmp_path: Path) -> None:
    """Axis 0 numbers the feeds and is gone from them; shapes of feeds keep their own batch."""
    image, tokens = noise(4, 2, 3, 5, 5), np.arange(4 * 2 * 6).reshape(4, 2, 6)
    samples = load_samples(saved(tmp_path, tokens=tokens, image=image), [IMAGE, TOKENS])
    assert_feeds(samples, [{"image": image[i], "tokens": tokens[i]} for i in range(4)])


def test_the_declared_rank_is_cut_along_axis_0(tmp_path: Path) -> None:
    """A symbolic batch gives feeds of 1, a fixed batch feeds of that size."""
    image = noise(3, 3, 5, 5)
    assert_feeds(load_samples(saved(tmp_path, image=image), [IMAGE]), [{"image": image[i : i + 1]} for i in range(3)])
    rows = noise(6, 3)
    assert_feeds(load_samples(saved(tmp_path, x=rows), [BATCH_2]), [{"x": rows[i : i + 2]} for i in (0, 2, 4)])


def test_both_ranks_may_stand_in_one_file(tmp_path: Path) -> None:
    """Each input is divided by its own rank; the counts agree."""
    image, tokens, scalar = noise(3, 3, 5, 5), np.arange(12).reshape(3, 1, 4), noise(3)
    samples = load_samples(saved(tmp_path, image=image, tokens=tokens, scalar=scalar), [IMAGE, TOKENS, SCALAR])
    expected = [{"image": image[i : i + 1], "tokens": tokens[i], "scalar": scalar[i]} for i in range(3)]
    assert_feeds(samples, [{key: np.asarray(value) for key, value in feed.items()} for feed in expected])


def test_an_array_of_rank_0_is_one_feed(tmp_path: Path) -> None:
    """A scalar input is fed its one scalar, and so is an input of unknown rank."""
    for spec in (SCALAR, InputSpec("scalar", np.dtype(np.float32), None)):
        assert_feeds(load_samples(saved(tmp_path, scalar=np.float32(2.5)), [spec]), [{"scalar": np.array(2.5, "f4")}])


def test_an_unknown_rank_is_indexed_along_axis_0(tmp_path: Path) -> None:
    """The axis stays, as a batch of 1."""
    rows = noise(3, 2, 2)
    assert_feeds(load_samples(saved(tmp_path, x=rows), [ANY_RANK]), [{"x": rows[i : i + 1]} for i in range(3)])


def test_a_npy_is_the_one_input(tmp_path: Path) -> None:
    """Also in Fortran order; a slice of the set is a slice of the array."""
    for image in (noise(5, 3, 4, 4), np.asfortranarray(noise(5, 3, 4, 4))):
        np.save(tmp_path / "x.npy", image)
        samples = load_samples(str(tmp_path / "x.npy"), [IMAGE])
        assert_feeds(samples, [{"image": image[i : i + 1]} for i in range(5)])
        np.testing.assert_array_equal([feed["image"][0] for feed in samples.feeds(1, 3)], image[1:3])


@pytest.mark.parametrize(
    ("found", "declared"),
    [
        ("f8", "f4"),
        (">f8", "f4"),
        (">f4", "f4"),
        ("i4", "i8"),
        (">i8", "i8"),
        ("f2", "f2"),
        ("?", "?"),
        ("u1", "u1"),
        ("f8", "f8"),
        ("i4", "i4"),
    ],
)
def test_element_types_that_are_taken(tmp_path: Path, found: str, declared: str) -> None:
    """float64 for float32 and int32 for int64, else the very type, in either byte order."""
    array = np.array([[0, 1, 2]], dtype=found)
    samples = load_samples(saved(tmp_path, x=array), [InputSpec("x", np.dtype(declared), (None, 3))])
    assert_feeds(samples, [{"x": array.astype(declared)}])


@pytest.mark.parametrize(
    ("found", "declared", "words"),
    [
        ("f2", "f4", "is float16, and the model wants float32"),
        ("f4", "f2", "is float32, and the model wants float16"),
        ("f8", "f2", "is float64, and the model wants float16"),
        ("f4", "f8", "is float32, and the model wants float64"),
        ("i8", "i4", "is int64, and the model wants int32"),
        ("i8", "f4", "is int64, and the model wants float32"),
        ("u1", "f4", "is uint8, and the model wants float32"),
        ("u1", "i8", "is uint8, and the model wants int64"),
        ("?", "f4", "is bool, and the model wants float32"),
        ("i1", "?", "is int8, and the model wants bool"),
        ("c8", "f4", "is complex64, and the model wants float32"),
        ("U3", "f4", "holds strings, and the model wants float32"),
        ("S3", "i8", "holds strings, and the model wants int64"),
        ("i4,f4", "f4", "is void64, and the model wants float32"),
        ("M8[D]", "i8", "is datetime64[D], and the model wants int64"),
    ],
)
def test_element_types_that_are_not_taken(tmp_path: Path, found: str, declared: str, words: str) -> None:
    """Nothing else is converted, however harmless it looks."""
    source = saved(tmp_path, x=np.zeros((2, 3), dtype=found))
    assert message_of(source, InputSpec("x", np.dtype(declared), (None, 3))) == (
        f"`FILE`: `x` {words}",
        f"save it as numbers of type {np.dtype(declared).name}",
    )


def test_a_type_that_files_cannot_hold_gets_another_hint(tmp_path: Path) -> None:
    """np.save writes bfloat16 as two raw bytes, so that saving it again would not help."""
    source = saved(tmp_path, x=np.zeros((2, 3), ml_dtypes.bfloat16))
    assert message_of(source, InputSpec("x", np.dtype(ml_dtypes.bfloat16), (None, 3))) == (
        "`FILE`: `x` is void16, and the model wants bfloat16",
        "yield it from FILE.py:function, because NumPy's files cannot hold bfloat16",
    )


def test_a_float64_beyond_float32_is_infinite(tmp_path: Path) -> None:
    """It is no error here and no warning: the runner reports what is not finite."""
    [feed] = load_samples(saved(tmp_path, x=np.array([[1e300]])), [InputSpec("x", np.dtype("f4"), (1, 1))])
    assert np.isposinf(feed["x"]).all()


@pytest.mark.parametrize(
    ("arrays", "inputs", "message", "hint"),
    [
        (
            {"image": noise(2, 3, 4, 4)},
            [IMAGE, TOKENS],
            "`FILE` has no array for the input `tokens`",
            "add an array of that name; it holds `image`",
        ),
        (
            {},
            [IMAGE],
            "`FILE` has no array for the input `image`",
            "add an array of that name; it holds none",
        ),
        (
            {"imagee": noise(2, 3, 4, 4)},
            [IMAGE, TOKENS],
            "`FILE` holds `imagee`, which is no input of the model",
            "rename it to `image`; the model's inputs are `image`, `tokens`",
        ),
        (
            {"image": noise(2, 3, 4, 4), "image2": noise(2)},
            [IMAGE],
            "`FILE` holds `image2`, which is no input of the model",
            "remove it; the model's inputs are `image`",
        ),
        (
            {"image": noise(2, 3, 4, 4), "labels": noise(2)},
            [IMAGE],
            "`FILE` holds `labels`, which is no input of the model",
            "remove it; the model's inputs are `image`",
        ),
        (
            {"image": noise(3, 4, 4)},
            [IMAGE],
            "`FILE`: `image` has rank 3, shape [3, 4, 4], and the model wants rank 4, or 5 for a stack",
            "add the batch dimension with `array[None]`; the model declares [batch, 3, h, w]",
        ),
        (
            {"x": noise(1, 1, 2, 3)},
            [BATCH_2],
            "`FILE`: `x` has rank 4, shape [1, 1, 2, 3], and the model wants rank 2, or 3 for a stack",
            "reshape it; the model declares [2, 3]",
        ),
        (
            {"image": noise(2, 4, 4, 3)},
            [IMAGE],
            "`FILE`: `image` gives a feed of shape [1, 4, 4, 3], and the model wants [batch, 3, h, w]",
            "prepare the samples at the model's size, or export the model with dynamic dimensions",
        ),
        (
            {"x": noise(4, 1, 3)},
            [BATCH_2],
            "`FILE`: `x` gives a feed of shape [1, 3], and the model wants [2, 3]",
            "prepare the samples at the model's size, or export the model with dynamic dimensions",
        ),
        (
            {"x": noise(5, 3)},
            [BATCH_2],
            "`FILE`: `x` has 5 rows, no multiple of the model's batch of 2",
            "remove the last 1 or export the model with a dynamic batch",
        ),
        (
            {"image": noise(0, 3, 4, 4)},
            [IMAGE],
            "`FILE` holds no samples: `image` has shape [0, 3, 4, 4]",
            "save at least one sample; a few hundred calibrate well",
        ),
        (
            {"image": noise(3, 3, 4, 4), "tokens": np.arange(10).reshape(2, 5)},
            [IMAGE, TOKENS],
            "`FILE`: `image` gives 3 samples and `tokens` gives 2",
            "give each input one entry a sample; an array that is the same for all must be repeated",
        ),
        (
            {"image": np.array([noise(3, 4, 4), "x"], dtype=object)},
            [IMAGE],
            "`FILE`: `image` holds pickled Python objects, which are never loaded",
            "save a plain array of numbers, as `numpy.stack(samples)` makes it",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, arrays: dict[str, np.ndarray], inputs: list[InputSpec], message: str, hint: str
) -> None:
    """The words name the file, the input, what it is and what the model wants."""
    assert message_of(saved(tmp_path, **arrays), *inputs) == (message, hint)


def test_a_npy_needs_a_model_with_one_input(tmp_path: Path) -> None:
    """One array cannot say which input it is for."""
    np.save(tmp_path / "x.npy", noise(2, 3))
    assert message_of(str(tmp_path / "x.npy"), IMAGE, TOKENS) == (
        "`FILE` is one array, and the model has 2 inputs: `image`, `tokens`",
        "save a .npz keyed by input name with `numpy.savez`",
    )


def test_a_damaged_archive_is_found_when_loaded(tmp_path: Path) -> None:
    """A wrong byte far behind the header stops the work before it begins."""
    source = saved(tmp_path, x=noise(4000, 2, 3))
    data = bytearray(Path(source).read_bytes())
    data[50_000] ^= 1
    Path(source).write_bytes(bytes(data))
    message, _ = message_of(source, BATCH_2)
    assert message == "`FILE` is damaged or no .npz file: bad checksum of `x`"


def test_memory_does_not_grow_with_the_samples(tmp_path: Path) -> None:
    """Iterating over 64 MiB of float64 samples, taken as float32, stays under 8 MiB."""
    np.savez(tmp_path / "x.npz", x=np.ones((128, 64, 1024)))
    tracemalloc.start()
    try:
        samples = load_samples(str(tmp_path / "x.npz"), [InputSpec("x", np.dtype("f4"), ("n", 64, 1024))])
        assert sum(float(feed["x"].sum()) for feed in samples) == 128 * 64 * 1024
        assert samples.sha256 is not None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_only_the_slice_is_read(tmp_path: Path) -> None:
    """The end of the set is right although all before it, the zip's headers too, has turned to zeros."""
    rows = noise(100, 1, 1024)
    source = saved(tmp_path, x=rows)
    samples = load_samples(source, [InputSpec("x", np.dtype("f4"), (1, 1024))])
    data = bytearray(Path(source).read_bytes())
    start = data.index(rows[98].tobytes())
    Path(source).write_bytes(bytes(start) + data[start:])
    np.testing.assert_array_equal([feed["x"] for feed in samples.feeds(98, 100)], rows[98:])


@st.composite
def stacked(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int | str | None, ...] | None, int, bool]:
    """An array, a declared shape that it fits, the rows of a feed, and whether axis 0 numbers the feeds."""
    shape = draw(array_shapes(min_dims=1, max_dims=4, max_side=5))
    dtype = draw(st.sampled_from(["f4", "f8", ">f4", "i4", "i8", "u1", "?"]))
    array = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    if draw(st.booleans()):
        array = np.asfortranarray(array)
    kind = draw(st.sampled_from(["stacked", "cut", "batch", "unknown"]))
    if kind == "unknown":
        return array, None, 1, False
    rows = draw(st.sampled_from([n for n in range(1, shape[0] + 1) if shape[0] % n == 0])) if kind == "batch" else 1
    own = shape[1:] if kind == "stacked" else (rows, *shape[1:])
    free = draw(st.tuples(*[st.booleans() for _ in own]))
    declared: list[int | str | None] = [
        f"d{i}" if loose else dim for i, (dim, loose) in enumerate(zip(own, free, strict=True))
    ]
    if kind == "batch":
        declared[0] = rows
    return array, tuple(declared), rows, kind == "stacked"


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    case=stacked(),
    save=st.sampled_from([np.savez, np.savez_compressed]),
    part=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_feeds_are_slices_of_the_array(
    tmp_path: Path,
    case: tuple[np.ndarray, tuple[int | str | None, ...] | None, int, bool],
    save: Callable[..., None],
    part: tuple[float, float],
) -> None:
    """For any shape, type, order and compression, slices of the set equal NumPy's slices of the array."""
    array, declared, rows, is_stacked = case
    save(tmp_path / "x.npz", x=array)
    native = array.dtype.newbyteorder("=")
    wanted = {np.dtype("f8"): np.dtype("f4"), np.dtype("i4"): np.dtype("i8")}.get(native, native)
    samples = load_samples(str(tmp_path / "x.npz"), [InputSpec("x", wanted, declared)])
    expected = list(array) if is_stacked else [array[i : i + rows] for i in range(0, len(array), rows)]
    start, stop = sorted(int(fraction * len(expected)) for fraction in part)
    for feeds, slices in ((samples, expected), (samples.feeds(start, stop), expected[start:stop])):
        for feed, piece in zip(feeds, slices, strict=True):
            assert feed["x"].shape == np.shape(piece)
            assert feed["x"].dtype == wanted
            np.testing.assert_array_equal(feed["x"], np.asarray(piece).astype(wanted))


def test_a_folder_is_one_feed_a_file(tmp_path: Path) -> None:
    """In the order of names, whole, each in its own shape; hidden files are passed over."""
    arrays = {"b": noise(2, 3, 4, 4), "a": noise(1, 3, 8, 6), "c": np.asfortranarray(noise(1, 3, 2, 2))}
    for name, array in arrays.items():
        np.savez_compressed(tmp_path / f"{name}.npz", image=array, tokens=np.zeros((1, 2), np.int32))
    (tmp_path / ".notes").touch()
    samples = load_samples(str(tmp_path), [IMAGE, TOKENS])
    tokens = np.zeros((1, 2), np.int64)
    assert_feeds(samples, [{"image": arrays[name], "tokens": tokens} for name in "abc"])
    assert [samples.describe(i) for i in range(3)] == [str(tmp_path / f"{name}.npz") for name in "abc"]
    np.testing.assert_array_equal(next(samples.feeds(1, 2))["image"], arrays["b"])


def test_a_folder_of_npy_feeds_the_one_input(tmp_path: Path) -> None:
    """A scalar and an input of unknown rank are fed as they are."""
    np.save(tmp_path / "1.NPY.npy", noise(2, 2))
    np.save(tmp_path / "2.npy", np.float32(3))
    assert_feeds(load_samples(str(tmp_path), [ANY_RANK]), [{"x": noise(2, 2)}, {"x": np.array(3, "f4")}])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (noise(3, 4, 4), "`image` has rank 3, shape [3, 4, 4], and the model wants rank 4"),
        (noise(2, 1, 3, 4, 4), "`image` has rank 5, shape [2, 1, 3, 4, 4], and the model wants rank 4"),
        (
            noise(1, 4, 4, 3),
            "`image` gives a feed of shape [1, 4, 4, 3], and the model wants [batch, 3, h, w]",
        ),
        (noise(1, 3, 4, 4, dtype=np.float16), "`image` is float16, and the model wants float32"),
    ],
)
def test_a_misfit_in_a_folder_is_named_when_loaded(tmp_path: Path, array: np.ndarray, message: str) -> None:
    """The last file is checked before the first is read; a stack of feeds is none here."""
    np.save(tmp_path / "1.npy", noise(1, 3, 4, 4))
    np.save(tmp_path / "2.npy", array)
    with pytest.raises(InputError) as caught:
        load_samples(str(tmp_path), [IMAGE])
    assert caught.value.message == f"`{tmp_path / '2.npy'}`: {message}"


def test_a_file_that_changed_since_is_checked_again(tmp_path: Path) -> None:
    """A feed of another shape is not let through because the folder was once in order."""
    np.save(tmp_path / "1.npy", noise(2, 3))
    samples = load_samples(str(tmp_path), [BATCH_2])
    np.save(tmp_path / "1.npy", noise(3, 3))
    with pytest.raises(InputError, match=r"`.*1\.npy`: `x` gives a feed of shape \[3, 3\]"):
        list(samples)

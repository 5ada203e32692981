"""The door to sample data: which kind a source is, how it is split and named, and what is refused at once."""

from __future__ import annotations

import hashlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from infer_opt.calibrate.samples import InputSpec, SampleSet, load_samples, non_finite, split
from infer_opt.errors import InputError

X = InputSpec("x", np.dtype("f4"), ("n", 2))
FORMS = "pass a .npz, a .npy, a folder of them or of images, FILE.py:function, or the word random"


def numbered(tmp_path: Path, count: int) -> SampleSet:
    """Samples whose values are their numbers."""
    np.savez(tmp_path / "x.npz", x=np.repeat(np.arange(count, dtype=np.float32), 2).reshape(count, 1, 2))
    return load_samples(str(tmp_path / "x.npz"), [X])


def numbers(samples: SampleSet) -> list[int]:
    """The numbers of the samples in a set."""
    return [int(feed["x"][0, 0]) for feed in samples]


@pytest.mark.parametrize(
    ("count", "held_out"),
    [(1, None), (7, None), (8, 2), (9, 2), (11, 2), (12, 3), (100, 25), (103, 25)],
)
def test_the_last_quarter_is_held_out(tmp_path: Path, count: int, held_out: int | None) -> None:
    """At least 2; under 8 samples both parts are the whole set."""
    samples = numbered(tmp_path, count)
    calibration, verification = split(samples)
    if held_out is None:
        assert calibration is samples
        assert verification is samples
        return
    assert numbers(calibration) == list(range(count - held_out))
    assert numbers(verification) == list(range(count - held_out, count))
    assert (len(calibration), len(verification)) == (count - held_out, held_out)


def test_a_part_names_samples_as_the_whole_does(tmp_path: Path) -> None:
    """Numbers in messages are those of the file, and so is the digest; parts are sliced and split as sets."""
    samples = numbered(tmp_path, 40)
    calibration, verification = split(samples)
    assert verification.source == samples.source == str(tmp_path / "x.npz")
    assert verification.describe(0) == f"{tmp_path / 'x.npz'} sample 30"
    assert calibration.sha256 == samples.sha256 == hashlib.sha256((tmp_path / "x.npz").read_bytes()).hexdigest()
    assert [int(feed["x"][0, 0]) for feed in verification.feeds(2, 4)] == [32, 33]
    assert numbers(split(verification)[1]) == [38, 39]


def test_the_digest_is_computed_once_and_only_when_asked(tmp_path: Path) -> None:
    """It is the digest of the file as it was when first asked for."""
    samples = numbered(tmp_path, 3)
    (tmp_path / "x.npz").write_bytes(b"changed")
    digest = hashlib.sha256(b"changed").hexdigest()
    assert samples.sha256 == digest
    (tmp_path / "x.npz").unlink()
    assert samples.sha256 == digest


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 1), (0, 4), (4, 4)])
def test_a_slice_outside_the_set_is_a_bug(tmp_path: Path, start: int, stop: int) -> None:
    """Not clipped as a list's slice is: fewer samples than asked for would go unnoticed."""
    with pytest.raises(ValueError, match=f"samples {start} to {stop} of 3"):
        numbered(tmp_path, 3).feeds(start, stop)


def test_non_finite_elements_are_counted() -> None:
    """For floating-point inputs alone, bfloat16 among them; scalars count."""
    feed = {
        "x": np.array([[1, np.nan], [np.inf, -np.inf]], np.float32),
        "half": np.array([65504, 1e-8], np.float16),
        "brain": np.array([np.nan, 1], ml_dtypes.bfloat16),
        "scalar": np.array(np.nan, np.float32),
        "empty": np.zeros((0, 3), np.float32),
        "ids": np.array([1, 2]),
        "mask": np.array([True]),
    }
    assert non_finite(feed) == {"x": 3, "half": 0, "brain": 1, "scalar": 1, "empty": 0}


def test_non_finite_samples_are_loaded(tmp_path: Path) -> None:
    """Whether they matter is for the runner to say."""
    np.savez(tmp_path / "x.npz", x=np.array([[1, np.nan]], np.float32))
    [feed] = load_samples(str(tmp_path / "x.npz"), [X])
    assert non_finite(feed) == {"x": 1}


def test_a_folder_named_random_is_reached_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word alone means made-up samples."""
    (tmp_path / "random").mkdir()
    np.save(tmp_path / "random" / "1.npy", np.zeros((1, 2), np.float32))
    monkeypatch.chdir(tmp_path)
    assert len(load_samples("random", [X])) == 8
    assert len(load_samples("./random", [X])) == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nothing.npz", "`nothing.npz` is no file or folder"),
        ("Random", "`Random` is no file or folder"),
        ("", "`` is no file or folder"),
        ("samples.csv", "`samples.csv` is no kind of sample file"),
    ],
)
def test_what_is_no_source_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str) -> None:
    """With all that would do."""
    (tmp_path / "samples.csv").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        load_samples(source, [X])
    assert (caught.value.message, caught.value.hint) == (message, FORMS)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "`FOLDER` is empty"),
        ((".hidden",), "`FOLDER` is empty"),
        (("b.npz", "c.txt", "d.md"), "`FOLDER` holds `c.txt`, which is no sample like the others"),
        (("a.txt", "b.npz"), "`FOLDER` holds `a.txt`, which is no sample like the others"),
        (("a.npz", "b.png"), "`FOLDER` holds `b.png`, which is no sample like the others"),
        (("a.png", "b.npy"), "`FOLDER` holds `b.npy`, which is no sample like the others"),
        (("a.png", "b/"), "`FOLDER` holds `b`, which is no sample like the others"),
        (("a.npz/",), "`FOLDER` holds `a.npz`, which is no sample like the others"),
        (("README", "b.txt"), "`FOLDER` holds `README`, which is no kind of sample file"),
    ],
)
def test_a_folder_holds_one_kind_of_files(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    """The first file of another kind is named; nothing but hidden files is passed over."""
    for name in names:
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    with pytest.raises(InputError) as caught:
        load_samples(str(tmp_path), [X], preprocess="scale=1")
    assert caught.value.message.replace(str(tmp_path), "FOLDER") == message
    assert caught.value.hint == (
        "put .npz, .npy or image files in it"
        if "empty" in message
        else "pass a folder that holds nothing but .npz and .npy files, or nothing but images"
    )


@pytest.mark.parametrize("dtype", [np.dtype("U"), np.dtype("O"), np.dtype("S")])
@pytest.mark.parametrize("source", ["random", "x.npz"])
def test_a_model_that_takes_strings_is_named(dtype: np.dtype, source: str) -> None:
    """Whatever the source."""
    with pytest.raises(InputError) as caught:
        load_samples(source, [X, InputSpec("text", dtype, (1,))])
    assert caught.value.message == "the input `text` takes strings, which cannot be fed"
    assert caught.value.hint == "export the model without its text processing"


def test_a_model_without_inputs_is_named() -> None:
    """Samples for it would be dropped without a word."""
    with pytest.raises(InputError) as caught:
        load_samples("random", [])
    assert caught.value.message == "the model has no inputs, so samples have nothing to feed"
    assert caught.value.hint == "compile it without samples"

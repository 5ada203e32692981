"""Sample data for calibration and verification, in whatever form the user has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from infer_opt.calibrate.array_samples import folder_samples, stacked_samples
from infer_opt.calibrate.feed_checks import check_feedable, non_finite
from infer_opt.calibrate.image_samples import IMAGE_SUFFIXES, image_samples
from infer_opt.calibrate.python_samples import python_samples
from infer_opt.calibrate.random_samples import random_samples
from infer_opt.calibrate.sample_set import Feed, InputSpec, SampleSet
from infer_opt.calibrate.sample_views import Subset
from infer_opt.errors import InputError

__all__ = ["Feed", "InputSpec", "SampleSet", "load_samples", "non_finite", "split"]

_ARRAY_SUFFIXES = (".npz", ".npy")
_PYTHON_SOURCE = re.compile(r"\.py(:[^/\\]*)?$")
_FORMS = "pass a .npz, a .npy, a folder of them or of images, FILE.py:function, or the word random"
_FEWEST_TO_SPLIT = 8


def load_samples(
    source: str, inputs: Sequence[InputSpec], *, preprocess: str | None = None, seed: int = 0
) -> SampleSet:
    """The samples at `source`, checked against `inputs` as far as headers tell, and read when iterated.

    Args:
        source: a .npz keyed by input name; a .npy for the model's one input; a folder of either, one complete
            feed a file; a folder of images (png, jpg, jpeg, bmp, webp); `FILE.py:function`; or the word
            `random`, for trying things out (a folder of that name is `./random`). A folder's hidden files are
            ignored.
        inputs: those that must be fed. float64 is taken as float32 and int32 as int64; nothing else is
            converted.
        preprocess: how images become feeds; needed for those, and without effect on anything else.
        seed: of `random`, without effect on anything else.

    Raises:
        InputError: the data is missing, damaged, empty or does not fit the model.
        UsageError: the preprocess spec is missing, bad, or does not fit the model.
    """
    if not inputs:
        raise InputError("the model has no inputs, so samples have nothing to feed", "compile it without samples")
    check_feedable(inputs)
    if source == "random":
        return random_samples(source, inputs, seed)
    if _PYTHON_SOURCE.search(source):
        return python_samples(source, inputs)
    path = Path(source)
    if source and path.is_dir():
        return _folder(source, inputs, preprocess)
    if not source or not path.is_file():
        raise InputError(f"`{source}` is no file or folder", _FORMS)
    if path.suffix.lower() not in _ARRAY_SUFFIXES:
        raise InputError(f"`{source}` is no kind of sample file", _FORMS)
    return stacked_samples(source, inputs)


def split(samples: SampleSet) -> tuple[SampleSet, SampleSet]:
    """The part to calibrate on and the part held out for verification: the last quarter, at least 2 samples.

    Under 8 samples both are the whole set, and the caller warns and cross-validates.
    """
    count = len(samples)
    if count < _FEWEST_TO_SPLIT:
        return samples, samples
    border = count - max(2, count // 4)
    return Subset.of(samples, range(border)), Subset.of(samples, range(border, count))


def _folder(source: str, inputs: Sequence[InputSpec], preprocess: str | None) -> SampleSet:
    names = _names_in(source)
    if not names:
        raise InputError(f"`{source}` is empty", "put .npz, .npy or image files in it")
    kinds = (_ARRAY_SUFFIXES, IMAGE_SUFFIXES)
    known = [suffixes for name in names for suffixes in kinds if Path(name).suffix.lower() in suffixes]
    kind = known[0] if known else ()
    for name in names:
        if Path(name).suffix.lower() not in kind or not (Path(source) / name).is_file():
            raise InputError(
                f"`{source}` holds `{name}`, which is no sample like the others"
                if known
                else f"`{source}` holds `{name}`, which is no kind of sample file",
                "pass a folder that holds nothing but .npz and .npy files, or nothing but images",
            )
    if kind is IMAGE_SUFFIXES:
        return image_samples(source, names, inputs, preprocess)
    return folder_samples(source, names, inputs)


def _names_in(folder: str) -> list[str]:
    try:
        return sorted(entry.name for entry in Path(folder).iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise InputError(f"`{folder}` cannot be read: {error.strerror}", "check its permissions") from error

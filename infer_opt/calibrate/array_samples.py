"""Samples in NumPy files: one stacked .npz or .npy that is cut into feeds, or a folder, one feed a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from infer_opt import ir
from infer_opt.calibrate.feed_checks import (
    as_declared,
    check_dtype,
    check_names,
    check_shape,
    rank_error,
    shape_text,
    ticked,
)
from infer_opt.calibrate.sample_files import (
    StoredArray,
    check_archive,
    read_blocks,
    read_whole,
    stored_array,
    stored_arrays,
)
from infer_opt.calibrate.sample_set import Feed, InputSpec, SampleSet
from infer_opt.errors import InputError

__all__ = ["FolderSamples", "StackedSamples", "folder_samples", "stacked_samples"]


@dataclass(frozen=True)
class _Cut:
    """How the stored array of one input is divided into feeds.

    Args:
        spec: the input.
        array: its array on disk.
        rows: how many entries of axis 0 one feed takes.
        stacked: axis 0 numbers the feeds and is no part of them; `rows` is then 1.
    """

    spec: InputSpec
    array: StoredArray
    rows: int
    stacked: bool

    @property
    def count(self) -> int:
        return self.array.shape[0] // self.rows


@dataclass(frozen=True)
class StackedSamples(SampleSet):
    """Feeds cut from the arrays of one file; see `stacked_samples`."""

    source: str
    cuts: tuple[_Cut, ...]
    count: int

    def __len__(self) -> int:
        return self.count

    def describe(self, index: int) -> str:
        """`samples.npz sample 3`, counted from 0."""
        return f"{self.source} sample {index}"

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        blocks = [read_blocks(cut.array, start * cut.rows, stop * cut.rows, cut.rows) for cut in self.cuts]
        for arrays in zip(*blocks, strict=True):
            yield {
                cut.spec.name: as_declared(array[0] if cut.stacked else array, cut.spec)
                for cut, array in zip(self.cuts, arrays, strict=True)
            }

    def _digest(self) -> str:
        return ir.file_sha256(Path(self.source))


@dataclass(frozen=True)
class FolderSamples(SampleSet):
    """One complete feed a file, in the order of the files' names; see `folder_samples`."""

    source: str
    inputs: tuple[InputSpec, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def describe(self, index: int) -> str:
        """The feed's own file, `calib/0003.npz`."""
        return str(Path(self.source) / self.names[index])

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        for name in self.names[start:stop]:
            arrays = _complete_feed(Path(self.source) / name, self.inputs)
            yield {spec.name: as_declared(read_whole(arrays[spec.name]), spec) for spec in self.inputs}

    def _digest(self) -> str:
        return ir.files_sha256(Path(self.source), self.names)


def stacked_samples(source: str, inputs: Sequence[InputSpec]) -> StackedSamples:
    """Samples of one .npz keyed by input name, or one .npy for the model's one input.

    An array of rank r + 1, with r the declared rank, holds one feed per index of axis 0. An array of rank r
    is cut along axis 0 into feeds of the model's fixed batch, or of 1 where dimension 0 is not fixed or the
    rank is unknown. An array of rank 0 is one feed. The checksums of a .npz are verified here, which reads it
    once.

    Raises:
        InputError: the file is damaged, or an array is missing, unknown, of the wrong type or shape, empty,
            not a whole number of batches, or gives another count of feeds than the others.
    """
    arrays = _arrays_in(Path(source), inputs)
    if Path(source).suffix.lower() == ".npz":
        check_archive(Path(source))
    cuts = tuple(_cut(source, spec, arrays[spec.name]) for spec in inputs)
    for cut in cuts[1:]:
        if cut.count != cuts[0].count:
            raise InputError(
                f"`{source}`: `{cuts[0].spec.name}` gives {cuts[0].count} samples and `{cut.spec.name}` gives"
                f" {cut.count}",
                "give each input one entry a sample; an array that is the same for all must be repeated",
            )
    return StackedSamples(source, cuts, cuts[0].count if cuts else 0)


def folder_samples(source: str, names: Sequence[str], inputs: Sequence[InputSpec]) -> FolderSamples:
    """Samples of a folder whose files `names` each hold one complete feed of the declared ranks.

    Shapes may differ between files. Every file's header is checked here, its data when it is read.

    Raises:
        InputError: as `stacked_samples`, naming the file.
    """
    for name in names:
        _complete_feed(Path(source) / name, inputs)
    return FolderSamples(source, tuple(inputs), tuple(names))


def _arrays_in(path: Path, inputs: Sequence[InputSpec]) -> Mapping[str, StoredArray]:
    if path.suffix.lower() == ".npz":
        arrays = stored_arrays(path)
        check_names(str(path), arrays, inputs)
        return arrays
    if len(inputs) != 1:
        raise InputError(
            f"`{path}` is one array, and the model has {len(inputs)} inputs: {ticked(spec.name for spec in inputs)}",
            "save a .npz keyed by input name with `numpy.savez`",
        )
    return {inputs[0].name: stored_array(path, inputs[0].name)}


def _complete_feed(path: Path, inputs: Sequence[InputSpec]) -> Mapping[str, StoredArray]:
    arrays = _arrays_in(path, inputs)
    for spec in inputs:
        check_dtype(str(path), spec, arrays[spec.name].dtype)
        check_shape(str(path), spec, arrays[spec.name].shape)
    return arrays


def _cut(where: str, spec: InputSpec, array: StoredArray) -> _Cut:
    check_dtype(where, spec, array.dtype)
    stacked, rows = _division(where, spec, array)
    if array.shape == ():
        array = replace(array, shape=(1,))
    if array.shape[0] == 0:
        raise InputError(
            f"`{where}` holds no samples: `{spec.name}` has shape {shape_text(array.shape)}",
            "save at least one sample; a few hundred calibrate well",
        )
    if array.shape[0] % rows:
        raise InputError(
            f"`{where}`: `{spec.name}` has {array.shape[0]} rows, no multiple of the model's batch of {rows}",
            f"remove the last {array.shape[0] % rows} or export the model with a dynamic batch",
        )
    check_shape(where, spec, array.shape[1:] if stacked else (rows, *array.shape[1:]))
    return _Cut(spec, array, rows, stacked)


def _division(where: str, spec: InputSpec, array: StoredArray) -> tuple[bool, int]:
    """Whether axis 0 numbers the feeds, and how many of its entries one feed takes."""
    rank = len(array.shape)
    if spec.shape is None:
        return rank == 0, 1
    declared = len(spec.shape)
    if rank == declared + 1 or rank == declared == 0:
        return True, 1
    if rank != declared:
        raise rank_error(where, spec, array.shape, f"rank {declared}, or {declared + 1} for a stack")
    batch = spec.shape[0]
    return False, batch if isinstance(batch, int) and batch > 0 else 1

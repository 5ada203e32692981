"""Made-up samples, asked for by the word `random`: for trying things out, never for a result that is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infer_opt.calibrate.feed_checks import element_kind
from infer_opt.calibrate.sample_set import Feed, InputSpec, SampleSet
from infer_opt.errors import InputError, UsageError

__all__ = ["RandomSamples", "random_samples"]

_COUNT = 8
_FREE_DIMENSION = 16
# Of an image's height and width: most convolutional networks halve it five times, and join what comes of it again.
_FREE_IMAGE_DIMENSION = 64
_IMAGE_RANK = 4


@dataclass(frozen=True)
class RandomSamples(SampleSet):
    """Seeded random feeds; see `random_samples`."""

    source: str
    inputs: tuple[InputSpec, ...]
    shapes: tuple[tuple[int, ...], ...]
    seed: int

    def __len__(self) -> int:
        return _COUNT

    def describe(self, index: int) -> str:
        """`random sample 3`, counted from 0."""
        return f"{self.source} sample {index}"

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        for index in range(start, stop):
            # A generator for each feed, so that a part of the set gives the same feeds as the whole.
            generator = np.random.default_rng([self.seed, index])
            yield {
                spec.name: _draw(generator, spec, shape) for spec, shape in zip(self.inputs, self.shapes, strict=True)
            }

    def _digest(self) -> None:
        return None


def random_samples(source: str, inputs: Sequence[InputSpec], seed: int) -> RandomSamples:
    """8 feeds: floats are standard normal, integers 0 or 1, bools either, all from `seed`.

    Fixed dimensions are kept. A free one is 1 in the place of dimension 0 and 16 elsewhere, or 64 where a symbol stands
    in an input of rank 4; a symbol has one size wherever it stands, that of dimension 0 if it stands there at all.

    Raises:
        UsageError: the seed is negative.
        InputError: an input's rank is unknown, or its element type has no random values here.
    """
    if seed < 0:
        raise UsageError(f"the seed `{seed}` is negative", "pass 0 or more")
    batches = {spec.shape[0] for spec in inputs if spec.shape}
    images = {dim for spec in inputs if spec.shape and len(spec.shape) == _IMAGE_RANK for dim in (*spec.shape, None)}
    shapes: list[tuple[int, ...]] = []
    for spec in inputs:
        if spec.shape is None:
            raise InputError(
                f"the rank of the input `{spec.name}` is unknown, so no random samples can be made",
                "pass real samples, or export the model with shapes",
            )
        if element_kind(spec.dtype) not in ("float", "int", "bool"):
            raise InputError(
                f"the input `{spec.name}` is {spec.dtype.name}, for which no random samples can be made",
                "pass real samples",
            )
        shapes.append(tuple(_size(dim, axis, batches, images) for axis, dim in enumerate(spec.shape)))
    return RandomSamples(source, tuple(inputs), tuple(shapes), seed)


def _size(dim: int | str | None, axis: int, batches: set[int | str | None], images: set[int | str | None]) -> int:
    if isinstance(dim, int):
        return dim
    if axis == 0 or (dim is not None and dim in batches):
        return 1
    return _FREE_IMAGE_DIMENSION if dim in images else _FREE_DIMENSION


def _draw(generator: np.random.Generator, spec: InputSpec, shape: tuple[int, ...]) -> NDArray[Any]:
    floating = element_kind(spec.dtype) == "float"
    values = generator.standard_normal(shape) if floating else generator.integers(0, 2, shape)
    return np.asarray(values).astype(spec.dtype)

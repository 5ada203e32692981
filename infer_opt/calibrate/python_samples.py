"""Samples that a function of the user's yields: `FILE.py:function`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from infer_opt.calibrate.feed_checks import as_declared, check_dtype, check_names, check_shape
from infer_opt.calibrate.sample_set import Feed, InputSpec, SampleSet
from infer_opt.calibrate.user_code import load_function
from infer_opt.errors import InputError, running_user_code

__all__ = ["PythonSamples", "python_samples"]

_MOST_FEEDS = 100_000
_END = object()
_YIELD = "yield one dict of arrays, keyed by input name, for each sample"
_CONTRACT = "the function takes no arguments and yields one dict of arrays for each sample"


@dataclass(frozen=True)
class PythonSamples(SampleSet):
    """The feeds of a Python function, which is called anew for each iteration; see `python_samples`."""

    source: str
    inputs: tuple[InputSpec, ...]
    function: Callable[[], object]
    count: int
    digest: str

    def __len__(self) -> int:
        return self.count

    def describe(self, index: int) -> str:
        """`calib.py:feeds sample 3`, counted from 0."""
        return f"{self.source} sample {index}"

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        if start == stop:
            return
        found = 0
        for value in _values(self.source, self.function):
            if found == self.count:
                found += 1
                break
            if found >= start:
                yield _feed(self.describe(found), value, self.inputs)
            found += 1
            if found == stop < self.count:
                return
        if found != self.count:
            now = "more" if found > self.count else f"only {found}"
            raise InputError(
                f"`{self.source}` yielded {self.count} samples when they were counted, and now {now}",
                "make the function yield the same samples at each call",
            )

    def _digest(self) -> str:
        return self.digest


def python_samples(source: str, inputs: Sequence[InputSpec]) -> PythonSamples:
    """Samples of `FILE.py:function`, a function without arguments that yields one dict of arrays a sample.

    The file is executed once, as a module beside whose own folder imports are found. The function is called
    anew for each iteration and must yield the same feeds every time; it is run through once here, to count,
    check and hash the feeds, none of which is kept. A part of the set is reached by running the function from
    its beginning. What the code prints goes to stderr.

    Raises:
        InputError: no such file or function, an exception in the user's code (with its line), no samples,
            more than 100,000 samples, or a feed that does not fit the model.
    """
    function = load_function(source, _CONTRACT)
    digest = hashlib.sha256()
    count = 0
    for count, value in enumerate(_values(source, function), start=1):
        if count > _MOST_FEEDS:
            raise InputError(f"`{source}` yields more than {_MOST_FEEDS} samples", "make the function end")
        for name, array in _feed(f"{source} sample {count - 1}", value, inputs).items():
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
    if count == 0:
        raise InputError(f"`{source}` yields no samples", _YIELD)
    return PythonSamples(source, tuple(inputs), function, count, digest.hexdigest())


def _values(source: str, function: Callable[[], object]) -> Iterator[object]:
    """What the function yields; its own exceptions are translated, not those of whoever takes the values."""
    file = source.rpartition(":")[0]
    with running_user_code(file, _CONTRACT):
        result = function()
        values = iter(cast("Iterable[object]", result)) if isinstance(result, Iterable) else None
    if values is None:
        raise InputError(f"`{source}` returns {type(result).__name__}, which cannot be iterated", _YIELD)
    while True:
        with running_user_code(file, _CONTRACT):
            value = next(values, _END)
        if value is _END:
            return
        yield value


def _feed(where: str, value: object, inputs: Sequence[InputSpec]) -> Feed:
    if not isinstance(value, Mapping):
        raise InputError(f"`{where}` is {type(value).__name__}, not a dict", _YIELD)
    arrays = {str(name): array for name, array in cast("Mapping[object, object]", value).items()}
    check_names(where, arrays, inputs)
    feed: Feed = {}
    for spec in inputs:
        array = arrays[spec.name]
        if not isinstance(array, np.ndarray | np.generic):
            raise InputError(
                f"`{where}`: `{spec.name}` is {type(array).__name__}, not a NumPy array",
                "convert it with `numpy.asarray`",
            )
        check_dtype(where, spec, array.dtype)
        check_shape(where, spec, array.shape)
        # A copy, because a generator may fill the same buffer again for its next sample.
        feed[spec.name] = as_declared(np.array(array, order="C"), spec)
    return feed

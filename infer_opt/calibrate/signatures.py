"""Near duplicates among samples, by a short signature of each: its size does not depend on the input's."""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infer_opt.calibrate.feed_checks import element_kind

__all__ = ["Duplicate", "Signatures"]

# A prime: rows of images, whose lengths are powers of two and multiples of 10, spread over all numbers of a signature.
_NUMBERS = 251
_SIGNS_SEED = 20_260_101
_LEAST_CORRELATION = 0.995
_SAME_MOMENTS = 0.1  # of the standard deviation: pictures of one scene in other light are not the same
_BLOCK = 1024
_ROUNDING = 1e-6  # of the mean: what rounding leaves of an input that is constant


@dataclass(frozen=True)
class Duplicate:
    """Two samples with (nearly) the same inputs.

    Args:
        first: number of the earlier sample, in the order in which they were added.
        correlation: the smallest of all floating-point inputs, estimated; 1 where the samples are equal.
        equal: byte by byte.
    """

    first: int
    second: int
    correlation: float
    equal: bool


class Signatures:
    """Signatures of samples, one kibibyte and a digest for each, whatever the size of the inputs.

    A floating-point input becomes 251 numbers by a sparse random projection: every element with a random sign is added
    to one of them (M. Charikar, K. Chen, M. Farach-Colton, "Finding frequent items in data streams", 2002). Inner
    products keep their expectation. The estimate of 1 - r, with r the correlation of two inputs, is off by about 9 % of
    itself (one standard deviation), so high correlations are known best. Anything else has to be equal.
    """

    def __init__(self) -> None:
        self._digests: list[bytes] = []
        self._numbers: list[NDArray[np.float32]] = []  # [floating-point inputs that vary, _NUMBERS]
        self._moments: list[NDArray[np.float64]] = []  # [the same, mean and standard deviation]
        self._alike: dict[bytes, list[int]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, feed: Mapping[str, NDArray[Any]]) -> None:
        """Add the next sample."""
        fixed, varying = hashlib.sha256(), hashlib.sha256()
        numbers, moments = [], []
        for name, array in feed.items():
            fixed.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            signature = _signature(array) if element_kind(array.dtype) == "float" else None
            if signature is None:
                fixed.update(data)
                continue
            numbers.append(signature[0])
            moments.append(signature[1:])
            # Several times faster than SHA-256 of all, and no chance meets it and the projection at once.
            varying.update(f"{name} {zlib.crc32(data)}\n".encode() + signature[0].tobytes())
        self._alike[fixed.digest()].append(len(self._digests))
        self._digests.append(fixed.digest() + varying.digest())
        self._numbers.append(np.array(numbers, np.float32).reshape(-1, _NUMBERS))
        self._moments.append(np.array(moments, np.float64).reshape(-1, 2))

    def duplicates(self) -> list[Duplicate]:
        """Each sample that has an earlier one like it, with the one it is most like; the most alike first.

        Every pair is compared, a block at a time: of 10,000 samples in some seconds, which took hours to run.
        """
        best: dict[int, Duplicate] = {}
        for members in self._alike.values():
            for found in self._among(members):
                known = best.get(found.second)
                if known is None or (found.equal, found.correlation) > (known.equal, known.correlation):
                    best[found.second] = found
        return sorted(best.values(), key=lambda each: (not each.equal, -each.correlation, each.second, each.first))

    def least_alike(self, first: int) -> list[int]:
        """The samples from number `first` on, those that are least like any earlier one in front.

        A sample is unlike others by its correlation with the nearest of them, and by how far its mean and its standard
        deviation lie outside of theirs. One that cannot be compared, as its shapes are new, counts as most unlike.
        """
        unlike = dict.fromkeys(range(first, len(self)), np.inf)
        for members in self._alike.values():
            earlier = [member for member in members if member < first]
            if not earlier or not self._numbers[members[0]].size:
                continue
            moments = np.array([self._moments[member] for member in earlier])
            lowest, highest, unit = moments.min(axis=0), moments.max(axis=0), np.median(moments[:, :, 1], axis=0)
            for member in members[len(earlier) :]:
                mine = self._moments[member]
                outside = np.maximum(lowest - mine, mine - highest).clip(0).max(axis=1) / unit
                nearest = max(
                    self._correlations([member], earlier[start : start + _BLOCK]).max()
                    for start in range(0, len(earlier), _BLOCK)
                )
                unlike[member] = float(1 - nearest + outside.max())
        return sorted(unlike, key=lambda member: (-unlike[member], member))

    def _among(self, members: list[int]) -> Iterator[Duplicate]:
        earliest: dict[bytes, int] = {}
        for member in members:
            first = earliest.setdefault(self._digests[member], member)
            if first != member:
                yield Duplicate(first, member, 1.0, equal=True)
        unlike = list(earliest.values())  # of equal samples only the first
        if not self._numbers[members[0]].size:
            return
        for start in range(0, len(unlike), _BLOCK):
            rows = unlike[start : start + _BLOCK]
            for other in range(0, start + 1, _BLOCK):
                yield from self._alike_pairs(rows, unlike[other : other + _BLOCK])

    def _alike_pairs(self, rows: list[int], columns: list[int]) -> Iterator[Duplicate]:
        """Pairs of an earlier sample in `columns` and a later one in `rows`."""
        correlation = self._correlations(rows, columns)
        for row, column in np.argwhere(correlation >= _LEAST_CORRELATION).tolist():
            first, second = columns[column], rows[row]
            if first < second and self._same_moments(first, second):
                yield Duplicate(first, second, float(correlation[row, column]), equal=False)

    def _correlations(self, rows: list[int], columns: list[int]) -> NDArray[np.float64]:
        """The smallest of all inputs for each pair, [rows, columns]."""
        these, those = (np.array([self._numbers[member] for member in each], np.float64) for each in (rows, columns))
        # By 1 - r, half of a squared distance: the inner product alone is off by what the lengths are off.
        squares = [np.square(each).sum(axis=2) for each in (these, those)]
        inner = np.einsum("rin,cin->rci", these, those, optimize=True)
        return np.asarray((1 - (squares[0][:, None] + squares[1][None] - 2 * inner) / 2).min(axis=2))

    def _same_moments(self, first: int, second: int) -> bool:
        one, other = self._moments[first], self._moments[second]
        return bool((np.abs(one - other) <= _SAME_MOMENTS * np.maximum(one[:, 1], other[:, 1])[:, None]).all())


def _signature(array: NDArray[Any]) -> tuple[NDArray[np.float32], float, float] | None:
    """Projection of the standardised input, its mean and its standard deviation; None of an input that is constant."""
    values = np.asarray(array, np.float32).reshape(-1)
    mean = float(values.mean(dtype=np.float64)) if values.size else 0.0
    if not np.isfinite(mean):
        values = np.nan_to_num(values, posinf=0.0, neginf=0.0)
        mean = float(values.mean(dtype=np.float64))
    centred = np.zeros(-(-values.size // _NUMBERS) * _NUMBERS, np.float32)  # up to a whole number of rows
    np.subtract(values, np.float32(mean), out=centred[: values.size])
    length = float(np.sqrt(np.dot(centred, centred)))
    if length <= _ROUNDING * abs(mean) * np.sqrt(values.size):
        return None
    bits = np.frombuffer(np.random.default_rng(_SIGNS_SEED).bytes(-(-centred.size // 8)), np.uint8)
    signs = np.unpackbits(bits, count=centred.size).astype(np.float32)
    # Signs of -1 and 1 by those of 0 and 1: twice the sum of some, less the sum of all.
    rows = centred.reshape(-1, _NUMBERS)
    projection = 2 * np.einsum("ij,ij->j", rows, signs.reshape(rows.shape)) - rows.sum(axis=0)
    return projection / np.float32(length), mean, length / float(np.sqrt(values.size))

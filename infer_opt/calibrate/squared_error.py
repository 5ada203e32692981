"""The squared error that a range costs the elements of a histogram: rounding inside, clipping outside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from infer_opt.calibrate.quantization import Format

__all__ = ["Side", "squared_error"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One sign of the histogram as running sums over its bins; lengths are in bins.

    Attributes:
        used: bins up to the last non-empty one; the arrays have one entry for each of their edges.
        counts: elements of the bin above an edge.
        inside: elements below an edge.
        squares: sum of their squares.
        clipping: summed squared distance from the edge of all elements above it.
    """

    used: int
    counts: Floats
    inside: Floats
    squares: Floats
    clipping: Floats

    @staticmethod
    def of(histogram: NDArray[np.int64]) -> Side:
        """The sums, elements being uniform within a bin; only positive terms are added: nothing cancels."""
        counts = np.trim_zeros(histogram, "b").astype(np.float64)
        edges = np.arange(counts.size + 1.0)
        beyond = _sums_beyond(counts)
        distance = _sums_beyond(beyond[1:] + counts / 2.0)
        return Side(
            used=counts.size,
            counts=np.append(counts, 0.0),
            inside=beyond[0] - beyond,
            squares=np.append(0.0, np.cumsum(counts * np.diff(edges**3) / 3.0)),
            clipping=_sums_beyond(2.0 * distance[1:] + beyond[1:] + counts / 3.0),
        )

    def error(self, cut: NDArray[np.intp], step: Floats) -> Floats:
        """Summed squared error of rounding to multiples of `step` and clipping at edge `cut`."""
        to_zero = np.minimum(step / 2.0, cut)
        edge = to_zero.astype(np.intp)
        zeroed = self.inside[edge] + self.counts[edge] * (to_zero - edge)
        lost = self.squares[edge] + self.counts[edge] * (to_zero**3 - edge**3.0) / 3.0
        rounded = (self.inside[cut] - zeroed) * step**2 / 12.0
        return np.asarray(lost + rounded + self.clipping[cut])


def squared_error(
    negative: Side, positive: Side, low: NDArray[np.intp], high: NDArray[np.intp], storage: Format
) -> Floats:
    """Summed squared error, in squared bin widths, of the range cut at bin edges -low and high.

    Elements within half a step of 0 are rounded to 0 and lose themselves; the others inside have the uniform
    noise step**2 / 12. That the zero point is a whole level is not modelled. `low` and `high` broadcast.
    """
    low, high = np.minimum(low, negative.used), np.minimum(high, positive.used)
    step = storage.step(-low, high)
    return negative.error(low, step) + positive.error(high, step)


def _sums_beyond(values: Floats) -> Floats:
    """Entry j is the sum of values[j:]; one more entry than `values`."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)

"""Which groups to lower, and how: the fastest choice whose predicted error stays inside a budget, exactly.

Noise powers add, and so do times, but for the boundaries: where of two groups that hand on a value only one is in
integers, the value is quantized or dequantized in between. With x = 1 for a chosen alternative (a group, lowered one
way), W and R the sums of x over the alternatives by which a group writes a value in integers, or reads it so, and y and
z = 1 where that value is turned back to float, or to integers,

    minimise    sum over alternatives (seconds lowered - seconds in float) x  +  sum over values (seconds) (y + z)
    subject to  sum over the alternatives of a group x <= 1              for every group that has several
                y >= W - R,  z >= R - W                      for every group that reads a value
                sum over alternatives (noise) x <= limit    for every part of the outputs

which is a mixed-integer linear program.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from infer_opt.calibrate.boundaries import Boundary
    from infer_opt.calibrate.grouping import Alternative, Group
    from infer_opt.calibrate.sensitivity import Sensitivity

__all__ = ["select"]

_SECONDS = 5.0  # for the search; a few hundred groups take some hundredths


def select(
    sensitivity: Sensitivity,
    gains: Mapping[Alternative, float],
    boundaries: Sequence[Boundary],
    least_db: float | None,
) -> tuple[Alternative, ...]:
    """The groups to lower, and how.

    Args:
        gains: seconds that each alternative saves; negative where it loses.
        least_db: SQNR that every part of the outputs has to keep by the prediction, or None for no limit.

    Returns:
        the fastest choice, in the order of the graph; at most one alternative of each group.
    """
    ways = [noise.alternative for noise in sensitivity.noises]
    if not ways:  # the time was over before any was measured, and the solver takes no empty problem
        return ()
    place = {way: index for index, way in enumerate(ways)}
    costs = np.array(
        [-gains[way] for way in ways]
        + [seconds for each in boundaries for seconds in (each.to_float, each.to_integers)]
    )
    constraints = [_one_way(place, len(costs))]
    if boundaries:
        constraints.append(_crossed(boundaries, place, len(costs)))
    if least_db is not None:
        constraints.append(_quiet(sensitivity, least_db, len(costs)))
    integrality = np.array([1] * len(ways) + [0] * 2 * len(boundaries))
    with _silent():
        found = milp(
            costs * _scale(costs),
            integrality=integrality,
            bounds=Bounds(0, 1),
            constraints=constraints,
            options={"time_limit": _SECONDS},
        )
    if found.x is None:  # nothing lowered is always allowed: the solver ran out of time before it saw that
        return ()
    return tuple(way for way, chosen in zip(ways, found.x, strict=False) if chosen > 0.5)


@contextmanager
def _silent() -> Iterator[None]:
    """HiGHS writes lines of its own development to the file behind stdout, where this program puts its answer."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _scale(costs: np.ndarray) -> float:
    """So that the largest is 1: the solver's tolerances are absolute."""
    largest = float(np.abs(costs).max(initial=0.0))
    return 1.0 / largest if largest else 1.0


def _one_way(place: Mapping[Alternative, int], count: int) -> LinearConstraint:
    """A row for each group: of its alternatives, one at most."""
    rivals: dict[Group, list[int]] = defaultdict(list)
    for way, index in place.items():
        rivals[way.group].append(index)
    rows = lil_matrix((len(rivals), count))
    for row, indices in enumerate(rivals.values()):
        rows[row, indices] = 1
    return LinearConstraint(rows.tocsr(), -np.inf, 1)


def _crossed(boundaries: Sequence[Boundary], place: Mapping[Alternative, int], count: int) -> LinearConstraint:
    """For each reader of each value: W - R - y <= 0 and R - W - z <= 0; y to turn it back to float, z the other way."""
    pairs = [(index, each, ways) for index, each in enumerate(boundaries) for ways in each.readers]
    rows = lil_matrix((2 * len(pairs), count))
    first = count - 2 * len(boundaries)
    for row, (index, each, ways) in enumerate(pairs):
        for sign, at, column in ((1, 2 * row, first + 2 * index), (-1, 2 * row + 1, first + 2 * index + 1)):
            if sign == 1 and each.always_float:
                continue
            for writer in each.writers:
                rows[at, place[writer]] += sign
            for reader in ways:
                rows[at, place[reader]] -= sign
            rows[at, column] = -1
    return LinearConstraint(rows.tocsr(), -np.inf, 0)


def _quiet(sensitivity: Sensitivity, least_db: float, count: int) -> LinearConstraint:
    """A row for each part with a signal: its noises as shares of what is allowed add up to 1 at most."""
    parts = [part for part, signal in sensitivity.signals.items() if signal > 0.0]
    rows = np.zeros((len(parts), count))
    for row, part in enumerate(parts):
        allowed = sensitivity.signals[part] * 10 ** (-least_db / 10)
        shares = np.array([noise.powers[part] for noise in sensitivity.noises]) / allowed
        rows[row, : len(shares)] = np.minimum(np.nan_to_num(shares, nan=_TOO_MUCH, posinf=_TOO_MUCH), _TOO_MUCH)
    return LinearConstraint(rows, -np.inf, 1)


_TOO_MUCH = 1e3  # of a share: far over 1, and nothing that a solver chokes on

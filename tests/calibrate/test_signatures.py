"""Near duplicates: what counts as one, how well a correlation is known, and which samples are least alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infer_opt.calibrate.signatures import Signatures
from tests.targets.networks import normal

Array = np.ndarray[Any, Any]


def signed(*samples: Array | dict[str, Array]) -> Signatures:
    """Signatures of samples of one input, or of several."""
    signatures = Signatures()
    for sample in samples:
        signatures.add(sample if isinstance(sample, dict) else {"x": sample})
    return signatures


def test_equal_samples_are_found_and_unlike_ones_are_not() -> None:
    """By number, the later one with the first that it repeats."""
    x = [normal(1, 3, 32, 32, seed=seed) for seed in range(6)]
    found = signed(*x, x[4], x[1], x[4]).duplicates()
    assert [(pair.first, pair.second, pair.equal, pair.correlation) for pair in found] == [
        (4, 6, True, 1.0),
        (1, 7, True, 1.0),
        (4, 8, True, 1.0),
    ]


@pytest.mark.parametrize("correlation", [0.9999, 0.998, 0.99, 0.9])
def test_correlation_is_estimated(correlation: float) -> None:
    """1 - r is off by less than 40 % of itself in all of 50 pairs; 0.995 divides near duplicates from others."""
    gaps = []
    for seed in range(50):
        x, other = normal(1, 3, 40, 40, seed=seed), normal(1, 3, 40, 40, seed=seed + 1000)
        y = np.float32(correlation) * x + np.float32(np.sqrt(1 - correlation**2)) * other
        signatures = signed(x, y)
        true = 1 - np.corrcoef(x.ravel(), y.ravel())[0, 1]
        gaps.append(abs((1 - signatures._correlations([0], [1])[0, 0]) / true - 1))
        assert bool(signatures.duplicates()) == (correlation > 0.995)
    assert max(gaps) < 0.4


@pytest.mark.parametrize(
    ("change", "alike"),
    [
        (lambda x: x * np.float32(1.01), True),
        (lambda x: x + np.float32(0.02), True),
        (lambda x: x * np.float32(1.5), False),
        (lambda x: x + np.float32(0.5), False),
        (lambda x: -x, False),
        (lambda x: np.roll(x, 1, axis=3), False),
        (lambda x: x[:, :, :-1], False),
        (lambda x: x.astype(np.float16), False),
    ],
)
def test_the_same_scene_in_other_light_is_no_duplicate(change: Any, *, alike: bool) -> None:
    """Mean and standard deviation count as well, and so do shape and element type."""
    x = normal(1, 3, 32, 32)
    assert bool(signed(x, change(x)).duplicates()) == alike


def test_integers_have_to_be_equal() -> None:
    """One other token is another sentence, whatever floats go with it."""
    tokens, state = np.arange(200), normal(1, 64)
    other = np.where(tokens == 7, 8, tokens)
    samples = [{"ids": ids, "state": state} for ids in (tokens, other, tokens)]
    [pair] = signed(*samples).duplicates()
    assert (pair.first, pair.second, pair.equal) == (0, 2, True)
    assert signed(tokens, other).duplicates() == []


def test_an_input_that_is_constant_has_to_be_equal() -> None:
    """A state of zeros does not make two samples alike, nor does it part them."""
    zero, one = np.zeros((1, 8), np.float32), np.full((1, 8), 0.1, np.float32)
    x, near = normal(1, 500), normal(1, 500) + np.float32(0.001)
    samples = [{"x": x, "h": zero}, {"x": near, "h": zero}, {"x": x, "h": one}, {"x": normal(1, 500, seed=1), "h": one}]
    [pair] = signed(*samples).duplicates()
    assert (pair.first, pair.second, pair.equal) == (0, 1, False)


def test_a_nan_does_not_hide_what_is_equal() -> None:
    """It counts as 0."""
    x = normal(1, 500)
    x[0, 3] = np.nan
    x[0, 4] = np.inf
    [pair] = signed(x, normal(1, 500, seed=1), x.copy()).duplicates()
    assert (pair.first, pair.second, pair.equal) == (0, 2, True)


def test_blocks_of_pairs_miss_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeat is found from whatever block it is in."""
    monkeypatch.setattr("infer_opt.calibrate.signatures._BLOCK", 4)
    x = [normal(1, 400, seed=seed) for seed in range(11)]
    near = [each + np.float32(0.01) * normal(1, 400, seed=99) for each in x]
    found = signed(*x, *near).duplicates()
    assert sorted((pair.first, pair.second) for pair in found) == [(index, index + 11) for index in range(11)]


def test_the_least_alike_come_first() -> None:
    """One of another scale, then one that nothing is like, then one that is nearly known; new shapes before all."""
    earlier = [normal(1, 400, seed=seed) for seed in range(5)]
    known = earlier[2] + np.float32(0.1) * normal(1, 400, seed=50)
    signatures = signed(*earlier, known, normal(1, 400, seed=60), normal(1, 400, seed=61) * 3, normal(1, 401, seed=62))
    assert signatures.least_alike(5) == [8, 7, 6, 5]

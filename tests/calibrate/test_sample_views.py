"""Some samples of a set, and two sets as one."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.sample_set import Feed, SampleSet
from infer_opt.calibrate.sample_views import Joined, Subset
from tests.targets.networks import Feeds, Lazy


def numbered(index: int) -> Feed:
    """A feed that holds its index."""
    return {"x": np.array([index])}


TEN = Lazy(numbered, 10)


def read(samples: SampleSet, start: int = 0, stop: int | None = None) -> list[int]:
    """The numbers in the feeds."""
    return [int(feed["x"][0]) for feed in samples.feeds(start, len(samples) if stop is None else stop)]


@pytest.mark.parametrize("indices", [range(10), range(3, 7), range(1, 10, 2), range(0, 10, 4)[:2], range(0)])
def test_a_subset_has_the_samples_and_their_names(indices: range) -> None:
    """All of them, and any stretch, as slicing gives it."""
    subset = Subset.of(TEN, indices)
    numbers = list(indices)
    assert (subset.source, len(subset)) == ("lazy", len(numbers))
    assert [subset.describe(index) for index in range(len(subset))] == [f"lazy sample {number}" for number in numbers]
    for start in range(len(numbers) + 1):
        for stop in range(start, len(numbers) + 1):
            assert read(subset, start, stop) == numbers[start:stop]


def test_a_subset_reads_in_one_pass_and_no_further_than_its_last() -> None:
    """What runs through its data from the beginning is run through once."""
    made: list[int] = []

    def watched(index: int) -> Feed:
        made.append(index)
        return numbered(index)

    assert read(Subset.of(Lazy(watched, 10), range(2, 8, 2))) == [2, 4, 6]
    assert made == [2, 3, 4, 5, 6]


def test_a_subset_of_a_subset_is_one() -> None:
    """Indices are those within it."""
    subset = Subset.of(Subset.of(TEN, range(4, 10)), range(1, 6, 2))
    assert (read(subset), subset.describe(2)) == ([5, 7, 9], "lazy sample 9")


def test_joined_sets_follow_each_other() -> None:
    """Any stretch, across the border too; samples keep the names of their own set."""
    both = Joined.of(Subset.of(TEN, range(3)), Lazy(lambda index: numbered(index + 50), 2, source="other"))
    numbers = [0, 1, 2, 50, 51]
    assert (both.source, len(both)) == ("lazy", 5)
    assert [both.describe(index) for index in range(5)] == [
        *(f"lazy sample {index}" for index in range(3)),
        *(f"other sample {index}" for index in range(2)),
    ]
    for start in range(6):
        for stop in range(start, 6):
            assert read(both, start, stop) == numbers[start:stop]


class Hashed(Feeds):
    """Samples with a digest."""

    def _digest(self) -> str:
        return "0123"


def test_a_view_has_the_digest_of_the_data() -> None:
    """It shows samples, and makes none."""
    whole = Hashed([numbered(0), numbered(1)])
    assert Subset.of(whole, range(1)).sha256 == "0123"
    assert Joined.of(whole, TEN).sha256 == "0123"
    assert Subset.of(TEN, range(1)).sha256 is None

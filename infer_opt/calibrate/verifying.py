"""The samples that candidates are judged on: held-out ones, and noisy and blurred copies of images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from infer_opt.calibrate.augment import Augmentation, Blur, Noise, augmented, image_inputs
from infer_opt.calibrate.feeding import Feeding
from infer_opt.calibrate.sample_set import Feed, InputSpec, SampleSet

__all__ = ["Verifying", "verifying"]

_ENOUGH = 16  # samples: of fewer, one that is unlucky decides
_MOST_CHANGED = 8  # each is run once more for every change
_CHANGES: tuple[Augmentation, ...] = (Noise(), Blur())


@dataclass(frozen=True)
class Verifying:
    """Sets of samples for each purpose.

    Args:
        samples: the held-out ones; where these are few, some that calibrated follow, since they are evidence too.
        held_out: how many did not take part in calibration.
        changed: copies of some by the name of what was done to them; none where the model takes no images.
    """

    samples: SampleSet
    held_out: int
    changed: Mapping[str, SampleSet] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Runs for a candidate that is right everywhere."""
        return len(self.samples) + sum(map(len, self.changed.values()))


def verifying(feeding: Feeding, inputs: Sequence[InputSpec], seed: int) -> Verifying | None:
    """The sets for one compile; None where there are no samples at all."""
    if feeding.held_out is None:
        return None
    held_out = _Some(feeding.held_out, tuple(range(feeding.verification_count)))
    if feeding.is_random or feeding.calibration is None:
        return Verifying(held_out, len(held_out))
    images = image_inputs(inputs)
    first = _Some(held_out, tuple(range(min(_MOST_CHANGED, len(held_out)))))
    changed = {each.name: _Changed(first, images, each, seed) for each in _CHANGES} if images else {}
    return Verifying(_topped_up(held_out, feeding), len(held_out), changed)


def _topped_up(held_out: SampleSet, feeding: Feeding) -> SampleSet:
    more = _ENOUGH - len(held_out)
    calibration = feeding.calibration
    if more <= 0 or calibration is None or len(calibration) == len(held_out):  # shared already
        return held_out
    step = max(1, len(calibration) // more)
    return _Joined((held_out, _Some(calibration, tuple(range(0, len(calibration), step))[:more])))


class _View(SampleSet):
    """Samples of other sets, with their names."""

    def _digest(self) -> str | None:
        return None


@dataclass(frozen=True)
class _Some(_View):
    """Samples of a set by index, in ascending order."""

    whole: SampleSet
    indices: tuple[int, ...]

    @property
    def source(self) -> str:  # type: ignore[override] # a view has none of its own
        return self.whole.source

    def __len__(self) -> int:
        return len(self.indices)

    def describe(self, index: int) -> str:
        return self.whole.describe(self.indices[index])

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        wanted = self.indices[start:stop]
        if wanted:
            # One pass: reading anew for each would run through a stacked file or a function again and again.
            feeds = self.whole.feeds(wanted[0], wanted[-1] + 1)
            yield from (feed for index, feed in enumerate(feeds, start=wanted[0]) if index in set(wanted))


@dataclass(frozen=True)
class _Joined(_View):
    """Sets one after the other."""

    sets: tuple[SampleSet, ...]

    @property
    def source(self) -> str:  # type: ignore[override] # a view has none of its own
        return self.sets[0].source

    def __len__(self) -> int:
        return sum(map(len, self.sets))

    def describe(self, index: int) -> str:
        for each in self.sets:
            if index < len(each):
                return each.describe(index)
            index -= len(each)
        raise IndexError(index)

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        for each in self.sets:
            yield from each.feeds(min(start, len(each)), min(stop, len(each)))
            start, stop = max(0, start - len(each)), max(0, stop - len(each))


@dataclass(frozen=True)
class _Changed(_View):
    """A set of images of which each is changed."""

    clean: SampleSet
    images: tuple[str, ...]
    change: Augmentation
    seed: int

    @property
    def source(self) -> str:  # type: ignore[override] # a view has none of its own
        return self.clean.source

    def __len__(self) -> int:
        return len(self.clean)

    def describe(self, index: int) -> str:
        return f"{self.clean.describe(index)} with {self.change.name}"

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        for index, feed in enumerate(self.clean.feeds(start, stop), start=start):
            yield augmented(feed, self.images, self.change, self.seed, index)

"""The samples that candidates are judged on: held-out ones, and noisy and blurred copies of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from infer_opt.calibrate.augment import Augmentation, Blur, Noise, image_inputs
from infer_opt.calibrate.augmented_samples import AugmentedSamples
from infer_opt.calibrate.feeding import Feeding
from infer_opt.calibrate.sample_set import InputSpec, SampleSet
from infer_opt.calibrate.sample_views import Joined, Subset

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
    held_out = Subset.of(feeding.held_out, range(feeding.verification_count))
    if feeding.is_random or feeding.calibration is None:
        return Verifying(held_out, len(held_out))
    images = image_inputs(inputs)
    clean = Subset.of(held_out, range(min(_MOST_CHANGED, len(held_out))))
    changed = {change.name: _changed(clean, images, change, seed) for change in _CHANGES} if images else {}
    return Verifying(_topped_up(held_out, feeding), len(held_out), changed)


def _topped_up(held_out: SampleSet, feeding: Feeding) -> SampleSet:
    more, calibration = _ENOUGH - len(held_out), feeding.calibration
    if more <= 0 or calibration is None or calibration is feeding.held_out:
        return held_out
    step = max(1, len(calibration) // more)
    return Joined.of(held_out, Subset.of(calibration, range(0, len(calibration), step)[:more]))


def _changed(clean: SampleSet, images: tuple[str, ...], change: Augmentation, seed: int) -> SampleSet:
    """The changed copies alone."""
    pairs = AugmentedSamples(clean.source, clean, images, (change,), seed)
    return Subset.of(pairs, range(1, len(pairs), 2))

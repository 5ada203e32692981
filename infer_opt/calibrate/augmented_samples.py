"""A set of samples in which each is followed by its changed forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from infer_opt.calibrate.augment import Augmentation, augmented, image_inputs
from infer_opt.calibrate.feed_checks import ticked
from infer_opt.calibrate.sample_set import Feed, InputSpec, SampleSet
from infer_opt.errors import InputError

__all__ = ["AugmentedSamples", "augmented_samples"]


@dataclass(frozen=True)
class AugmentedSamples(SampleSet):
    """Each sample of a set, followed by its changed forms; nothing is kept. The digest is that of the clean set."""

    source: str
    clean: SampleSet
    names: tuple[str, ...]
    augmentations: tuple[Augmentation, ...]
    seed: int

    def __len__(self) -> int:
        return len(self.clean) * self._forms

    def describe(self, index: int) -> str:
        """`samples.npz sample 3`, or `samples.npz sample 3 with noise`."""
        sample, form = divmod(index, self._forms)
        return self.clean.describe(sample) + (f" with {self.augmentations[form - 1].name}" if form else "")

    def sample_of(self, index: int) -> int:
        """That of the clean set."""
        return index // self._forms

    @property
    def _forms(self) -> int:
        return 1 + len(self.augmentations)

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        first, last = start // self._forms, -(-stop // self._forms)
        return islice(self._all(first, last), start - first * self._forms, stop - first * self._forms)

    def _all(self, first: int, last: int) -> Iterator[Feed]:
        for index, feed in enumerate(self.clean.feeds(first, last), start=first):
            yield feed
            for each in self.augmentations:
                yield augmented(feed, self.names, each, self.seed, index)

    def _digest(self) -> str | None:
        return self.clean.sha256


def augmented_samples(
    clean: SampleSet, specs: Sequence[InputSpec], augmentations: Sequence[Augmentation], seed: int
) -> SampleSet:
    """The samples with their changed forms in between, or as they are where no change is asked for.

    Raises:
        InputError: changes are asked for, and the model takes no images.
    """
    if not augmentations:
        return clean
    names = image_inputs(specs)
    if not names:
        raise InputError(
            f"--augment changes images, and the model takes none; its inputs are {ticked(spec.name for spec in specs)}",
            "leave --augment out, and add samples such as the device will see",
        )
    return AugmentedSamples(clean.source, clean, names, tuple(augmentations), seed)

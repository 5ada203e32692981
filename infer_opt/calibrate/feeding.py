"""The samples of one compile: which calibrate, which verify, and what a user should know of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infer_opt import ir
from infer_opt.calibrate.augmented_samples import augmented_samples
from infer_opt.calibrate.sample_set import InputSpec
from infer_opt.calibrate.samples import load_samples, split
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from infer_opt.calibrate.augment import Augmentation
    from infer_opt.calibrate.sample_set import SampleSet

__all__ = ["Feeding", "feeding"]

_FEWEST = 8
_EQUALITY_SAMPLES = 2
_RANDOM_SAMPLES = 3


@dataclass(frozen=True)
class Feeding:
    """Samples for each use.

    Args:
        calibration: None where the user gave no data, so that INT8 has nothing to stand on.
        held_out: for verification; None where no samples can be made up for the model either.
        source: what the user gave; `random` where that is what verification runs on.
        augmentations: names of the changes whose forms follow each calibration sample.
        shared: too few samples to hold some out, so that calibration and verification have the same.
    """

    calibration: SampleSet | None
    held_out: SampleSet | None
    source: str
    warnings: tuple[str, ...] = ()
    augmentations: tuple[str, ...] = ()
    shared: bool = False

    @property
    def is_random(self) -> bool:
        """Whether verification runs on random numbers."""
        return self.source == "random"

    def for_equality(self) -> list[dict[str, np.ndarray[Any, Any]]]:
        """A few samples on which graph passes are compared with the original."""
        return list(self._feeds(min(_EQUALITY_SAMPLES, self.verification_count)))

    def verification(self) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
        """The held-out samples; of random ones only a few, since more of them prove no more."""
        return self._feeds(self.verification_count)

    def _feeds(self, count: int) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
        return iter(()) if self.held_out is None else self.held_out.feeds(0, count)

    def describe(self, index: int) -> str:
        """A held-out sample's name in messages."""
        return f"sample {index}" if self.held_out is None else self.held_out.describe(index)

    @property
    def verification_count(self) -> int:
        """How many samples verification runs on."""
        there = 0 if self.held_out is None else len(self.held_out)
        return min(_RANDOM_SAMPLES, there) if self.is_random else there

    def provenance(self) -> dict[str, Any] | None:
        """What the artifact was calibrated on, for the manifest; None where there was nothing."""
        if self.calibration is None:
            return None
        return {
            "path": self.source,
            "sha256": self.calibration.sha256,
            "samples": len(self.calibration),
            "augment": list(self.augmentations),
        }

    def table(self) -> dict[str, Any]:
        """JSON-able form, for the report."""
        return {
            "source": self.source,
            "calibration": 0 if self.calibration is None else len(self.calibration),
            "verification": self.verification_count,
            "random": self.is_random,
            "augment": list(self.augmentations),
        }


def feeding(
    model: ir.Model,
    source: str | None,
    preprocess: str | None,
    seed: int,
    augmentations: Sequence[Augmentation] = (),
) -> Feeding:
    """Open the samples that `--calib` names, or random ones for verification only.

    Args:
        augmentations: changes; each calibration sample is followed by a form with each of them. Held-out samples stay
            as they are.

    Raises:
        InputError: the data does not fit the model; file and input are named. Or changes are asked for, and there are
            no images to change.
    """
    inputs = input_specs(model)
    if source is None and augmentations:
        raise InputError("--augment changes calibration samples, and there are none", "pass --calib PATH")
    if source is None:
        try:
            return Feeding(None, load_samples("random", inputs, seed=seed), "random")
        except InputError as error:
            return Feeding(None, None, "random", (f"nothing was verified: {error.message}; pass --calib",))
    samples = load_samples(source, inputs, preprocess=preprocess, seed=seed)
    clean, held_out = split(samples)
    calibration = augmented_samples(clean, inputs, augmentations, seed)
    warnings = []
    if source == "random":
        warnings.append("calibrated on random numbers: ranges and errors say nothing about real inputs")
    elif len(samples) < _FEWEST:
        warnings.append(
            f"only {len(samples)} samples: calibration and verification share them; "
            "a few hundred typical inputs are usual"
        )
    names = tuple(each.name for each in augmentations)
    return Feeding(calibration, held_out, source, tuple(warnings), names, shared=clean is held_out)


def input_specs(model: ir.Model) -> list[InputSpec]:
    """The inputs that have to be fed: those without a default."""
    return [
        InputSpec(str(value.name), ir.numpy_dtype(value), ir.dims(value))
        for value in model.graph.inputs
        if not value.is_initializer()
    ]

"""The audit of a calibration set: what in it makes ranges that will not hold on the device, with the evidence.

It looks on while the samples are calibrated on, and runs a few held-out ones through the same session afterwards: some
as they are, and where they are images, with noise and blurred as well, unless that was calibrated on.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from infer_opt.calibrate.augment import Blur, Noise, augmented, image_inputs
from infer_opt.calibrate.coverage import Coverage
from infer_opt.calibrate.extremes import growth
from infer_opt.calibrate.findings import Audit, Departure, NearDuplicate, Outlier, Sample, Stretch
from infer_opt.calibrate.signatures import Signatures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt.calibrate.extremes import Extremes, Range
    from infer_opt.calibrate.feeding import Feeding
    from infer_opt.calibrate.sample_set import Feed, InputSpec
    from infer_opt.calibrate.statistics import Look, Statistics

__all__ = ["Auditor"]

_NOISE = Noise().strongest  # what `--augment noise` adds at most
_BLUR = Blur()

# A held-out sample is run for every so many feeds that were calibrated on, with noise too; blurred, half as many.
_FEEDS_FOR_ONE = 12
_FEWEST_RUN = 2

_STRETCHED = 1.5
_FEWEST_TO_LEAVE_ONE_OUT = 4
_CLEAN_MARGIN = 0.25  # of a range's width: less is the scatter of any sample
_CHANGED_MARGIN = 0.05  # beyond the same samples unchanged, so nothing is scatter


class Auditor:
    """Audits the samples of one compile; an `Onlooker` of `collect`.

    Args:
        specs: the inputs that the samples feed.
        seed: of the noise.
    """

    def __init__(self, samples: Feeding, specs: Sequence[InputSpec], seed: int) -> None:
        if samples.calibration is None or samples.held_out is None:
            raise ValueError("there is nothing to audit")
        self._calibration, self._held_out = samples.calibration, samples.held_out
        self._shared = samples.shared
        self._images, self._seed = image_inputs(specs), seed
        self._changes = tuple(
            each for each in (_NOISE, _BLUR) if self._images and each.name not in samples.augmentations
        )
        self._signatures = Signatures()
        self._names: list[str] = []
        self.audit: Audit | None = None

    def saw(self, feed: Feed, index: int) -> None:
        """Remember the sample, not its changed forms."""
        if self._calibration.sample_of(index) == len(self._names):
            self._remember(feed, self._calibration.describe(index))

    def finish(self, found: Statistics, look: Look) -> None:
        """Make `audit`."""
        calibrated = len(self._names)
        if not self._shared:
            for index, feed in enumerate(self._held_out):
                self._remember(feed, self._held_out.describe(index))
        self.audit = Audit(
            calibration=calibrated,
            held_out=len(self._held_out),
            shared=self._shared,
            near_duplicates=tuple(
                NearDuplicate(self._sample(pair.first), self._sample(pair.second), pair.correlation, equal=pair.equal)
                for pair in self._signatures.duplicates()
            ),
            outliers=self._outliers(found.extremes) if calibrated >= _FEWEST_TO_LEAVE_ONE_OUT else (),
            departures=self._departures(found, look, calibrated),
        )

    def _remember(self, feed: Feed, name: str) -> None:
        self._signatures.add(feed)
        self._names.append(name)

    def _sample(self, index: int) -> Sample:
        return Sample(index, self._names[index])

    def _outliers(self, extremes: Mapping[str, Extremes]) -> tuple[Outlier, ...]:
        """Samples that alone stretch a range, the one that stretches most of them first."""
        stretched: dict[int, list[Stretch]] = defaultdict(list)
        for value, each in extremes.items():
            for sample in each.suspects():
                stretch = Stretch(value, each.without(sample), each.range())
                if growth(stretch.others, stretch.all) > _STRETCHED:
                    stretched[sample].append(stretch)
        outliers = (
            Outlier(self._sample(sample), len(found), len(extremes), max(found, key=lambda each: each.growth))
            for sample, found in stretched.items()
        )
        return tuple(sorted(outliers, key=lambda each: (-each.values, each.sample.index)))

    def _departures(self, found: Statistics, look: Look, calibrated: int) -> tuple[Departure, ...]:
        """What held-out samples do outside the calibrated ranges: as they are, and changed."""
        ranges = {value: each.range() for value, each in found.extremes.items() if found.sketches[value].count}
        forms = {"clean": Coverage(ranges)}
        forms |= {each.name: Coverage(ranges) for each in self._changes}
        first = 0 if self._shared else calibrated
        wanted = max(_FEWEST_RUN, len(self._calibration) // _FEEDS_FOR_ONE)
        order = range(len(self._names)) if self._shared else self._signatures.least_alike(first)
        chosen = list(order)[:wanted]
        blurred = chosen[: max(1, wanted // 2)]
        for index, feed in enumerate(self._held_out.feeds(0, max(chosen) - first + 1), start=first):
            if index not in chosen:
                continue
            forms["clean"].add(look(feed, self._names[index]), index)
            for change in self._changes:
                if change is _NOISE or index in blurred:
                    changed = augmented(feed, self._images, change, self._seed, index)
                    forms[change.name].add(look(changed, f"{self._names[index]} with {change.name}"), index)
        known = forms["clean"].reached()
        departures = [] if self._shared else [self._departure("clean", 0.0, forms["clean"], _CLEAN_MARGIN, ranges)]
        departures += [
            self._departure(each.name, each.strength, forms[each.name], _CHANGED_MARGIN, known)
            for each in self._changes
        ]
        return tuple(departures)

    def _departure(
        self, inputs: str, strength: float, coverage: Coverage, margin: float, known: Mapping[str, Range]
    ) -> Departure:
        escapes = coverage.escapes(margin, known)
        worst = escapes[0] if escapes else None
        return Departure(
            inputs=inputs,
            strength=strength,
            feeds=coverage.feeds,
            values=len(escapes),
            of=coverage.values,
            share=coverage.share(),
            margin=margin,
            worst=None if worst is None else Stretch(worst.value, worst.known, worst.reached),
            sample=None if worst is None else self._sample(worst.sample),
        )

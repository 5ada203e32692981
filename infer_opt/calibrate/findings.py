"""What the audit of a calibration set found: as data for the report, and in a few lines of warning."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from infer_opt.calibrate.extremes import growth

if TYPE_CHECKING:
    from infer_opt.calibrate.extremes import Range

__all__ = ["Audit", "Departure", "NearDuplicate", "Outlier", "Sample", "Stretch"]

_FEW = 32
_MOST_LISTED = 20  # of each kind, in the report
_MOST_TOLD = 3  # pairs besides the first, in a warning

# When a finding is worth a warning. Found on the samples of 13 public models: see docs/quantization.md.
_SEVERAL = 3
_OUTLIER_SHARE = 0.15
_OUTLIER_GROWTH = 3.0
_CLEAN_SHARE = 0.1
_CHANGED_SHARE = 0.05


@dataclass(frozen=True)
class Sample:
    """A sample by its number in the whole set, from 0, and its name."""

    index: int
    name: str

    def __str__(self) -> str:
        return f"sample {self.index} (`{self.name}`)"


@dataclass(frozen=True)
class NearDuplicate:
    """Two samples with (nearly) the same inputs; see `signatures.Duplicate`."""

    first: Sample
    second: Sample
    correlation: float
    equal: bool


@dataclass(frozen=True)
class Stretch:
    """A value's range without and with something; each holds 0."""

    value: str
    others: Range
    all: Range

    @property
    def growth(self) -> float:
        """How many times as wide; infinite where the others give nothing but 0."""
        return growth(self.others, self.all)

    def __str__(self) -> str:
        return f"`{self.value}` from {_range_text(self.others)} to {_range_text(self.all)}"


@dataclass(frozen=True)
class Outlier:
    """A sample that alone makes ranges more than 1.5 times as wide as all others do.

    Args:
        values: number of such ranges.
        of: number of all.
    """

    sample: Sample
    values: int
    of: int
    worst: Stretch


@dataclass(frozen=True)
class Departure:
    """What held-out samples do outside the calibrated ranges.

    Args:
        inputs: `clean`, `noise` or `blur`.
        strength: of that change, in its own unit; 0 of none.
        feeds: how many were run.
        values: number of values that go farther out than `margin`, a share of the width of the calibrated range; for
            changed inputs, of the range that calibration and the same samples unchanged give together.
        of: number of values that were watched.
        share: of the elements outside the calibrated range, on the mean of all values.
        worst: the value that goes farthest, None where none goes farther than the margin.
        sample: the one that drives it there.
    """

    inputs: str
    strength: float
    feeds: int
    values: int
    of: int
    share: float
    margin: float
    worst: Stretch | None
    sample: Sample | None


@dataclass(frozen=True)
class Audit:
    """All findings, those too that are worth no warning.

    Args:
        calibration: number of samples to calibrate on, without changed forms.
        held_out: number of those to verify on.
        shared: both are the same samples.
        near_duplicates: each sample that has an earlier one like it, the most alike first.
        outliers: the one that stretches most ranges first.
        departures: of clean held-out samples, and where they are images, of those with noise and blurred.
    """

    calibration: int
    held_out: int
    shared: bool
    near_duplicates: tuple[NearDuplicate, ...]
    outliers: tuple[Outlier, ...]
    departures: tuple[Departure, ...]

    def warnings(self) -> tuple[str, ...]:
        """The worst finding of each kind in a line, with the number of others."""
        return tuple(self._warnings())

    def table(self) -> dict[str, Any]:
        """JSON-able form, of each kind the first 20."""
        return {
            "near_duplicates": {
                "count": len(self.near_duplicates),
                "pairs": [asdict(each) for each in self.near_duplicates[:_MOST_LISTED]],
            },
            "outliers": [asdict(each) | {"worst": _stretch(each.worst)} for each in self.outliers[:_MOST_LISTED]],
            "departures": [asdict(each) | {"worst": _stretch(each.worst)} for each in self.departures],
            "warnings": list(self.warnings()),
        }

    def _warnings(self) -> Iterator[str]:
        total = self.calibration + self.held_out
        if not self.shared and total < _FEW:
            yield (
                f"only {total} samples, {self.calibration} to calibrate and {self.held_out} to verify: ranges and"
                " errors of so few are accidental; a few hundred typical inputs are usual"
            )
        if self.near_duplicates:
            yield self._duplicate_warning()
        outliers = [each for each in self.outliers if _stands_out(each)]
        if outliers:
            yield _outlier_warning(outliers)
        for each in self.departures:
            if each.worst is not None and each.values >= _enough(
                each.of, _CLEAN_SHARE if each.inputs == "clean" else _CHANGED_SHARE
            ):
                yield _departure_warning(each)

    def _duplicate_warning(self) -> str:
        pair, *others = self.near_duplicates
        how = (
            "are duplicates"
            if pair.equal
            else f"are near duplicates (correlation {_correlation_text(pair.correlation)})"
        )
        more = ", ".join(f"{each.first.index} and {each.second.index}" for each in others[:_MOST_TOLD])
        more = f", so are {more}" if more else ""
        known = 0 if self.shared else sum(each.second.index >= self.calibration for each in self.near_duplicates)
        held_out = f", {known} of them held out" if known else ""
        return (
            f"{pair.first} and {pair.second} {how}{more}; samples that repeat an earlier one: {len(others) + 1}"
            f"{held_out}: they add nothing to ranges and prove nothing new"
        )


def _outlier_warning(outliers: list[Outlier]) -> str:
    first = outliers[0]
    return (
        f"{first.sample} alone makes {first.values} of {first.of} ranges over 1.5 times as wide, {first.worst}; such"
        f" samples: {len(outliers)}: all others lose precision by it; remove it unless the device will see such inputs"
    )


def _departure_warning(found: Departure) -> str:
    outside = f"{found.share:.2%} of all elements lie outside" if found.share >= 5e-5 else "few elements lie outside"
    if found.inputs == "clean":
        return (
            f"held-out samples leave {found.values} of {found.of} calibrated ranges, {found.sample} farthest,"
            f" {found.worst}; {outside}: calibrate on more samples like it"
        )
    how = f"with noise (sigma {found.strength:.0%} of their range)" if found.inputs == "noise" else "blurred"
    return (
        f"held-out images {how} leave {found.values} of {found.of} calibrated ranges that they keep when clean,"
        f" {found.worst}; {outside}: if the device sees such images, pass --augment {found.inputs} or calibrate on some"
    )


def _stands_out(outlier: Outlier) -> bool:
    if outlier.values >= _enough(outlier.of, _OUTLIER_SHARE):
        return True
    # Three times as wide costs 1.6 bits. A value that is 0 in all other samples has no range to speak of.
    return math.isfinite(outlier.worst.growth) and outlier.worst.growth >= _OUTLIER_GROWTH


def _enough(of: int, share: float) -> int:
    """How many values have to be out for a warning: several, and a share of all."""
    return max(min(_SEVERAL, of), math.ceil(share * of))


def _stretch(found: Stretch | None) -> dict[str, Any] | None:
    if found is None:
        return None
    ratio = found.growth
    # JSON has no infinity.
    return {
        "value": found.value,
        "others": list(found.others),
        "all": list(found.all),
        "growth": ratio if math.isfinite(ratio) else None,
    }


def _range_text(bounds: Range) -> str:
    return f"[{bounds[0]:.3g}, {bounds[1]:.3g}]"


def _correlation_text(correlation: float) -> str:
    return f"{min(correlation, 0.99999):.5f}".rstrip("0")

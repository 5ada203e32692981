"""The audit of a calibration set: planted faults are named by sample, and a clean set gives no warning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from infer_opt.calibrate.audit import Auditor
from infer_opt.calibrate.augment import parse
from infer_opt.calibrate.augmented_samples import augmented_samples
from infer_opt.calibrate.feeding import Feeding, input_specs
from infer_opt.calibrate.findings import Audit
from infer_opt.calibrate.sample_set import Feed
from infer_opt.calibrate.statistics import collect
from tests.targets.networks import Feeds, Network, normal

Array = np.ndarray[Any, Any]

IMAGES = Network(
    "net (float[N,3,24,24] x) => (float[N,4,24,24] y) {"
    " a = Conv<pads=[1,1,1,1]>(x, w) b = Relu(a) c = Conv<pads=[1,1,1,1]>(b, v) y = Relu(c) }",
    {"w": normal(8, 3, 3, 3), "v": normal(4, 8, 3, 3, seed=1)},
)
SEQUENCES = Network("net (float[N,16] x) => (float[N,8] y) { a = MatMul(x, w) y = Relu(a) }", {"w": normal(16, 8)})
VALUES = ["x", "a", "b", "c", "y"]


def pictures(count: int) -> list[Array]:
    """Pixels without structure, between 0 and 1: neither noise nor blur drives anything farther."""
    return [np.random.default_rng(seed).random((1, 3, 24, 24), dtype=np.float32) for seed in range(count)]


def audited(
    network: Network,
    arrays: Sequence[Array],
    folder: Path,
    *,
    held_out: int = 0,
    augment: str = "",
    values: Sequence[str] = VALUES,
) -> Audit:
    """The audit of samples of which the last are held out, or all shared."""
    model = network.load(folder)
    feeds: list[Feed] = [{"x": array} for array in arrays]
    border = len(feeds) - held_out
    whole = Feeds(feeds)
    clean = Feeds(feeds[:border], "calib") if held_out else whole
    specs = input_specs(model)
    changes = parse(augment) if augment else ()
    calibration = augmented_samples(clean, specs, changes, 0)
    shared = not held_out
    names = tuple(each.name for each in changes)
    held = whole if shared else Feeds(feeds[border:], "held")
    samples = Feeding(calibration, held, "set", augmentations=names, shared=shared)
    auditor = Auditor(samples, specs, seed=0)
    collect(model, values, calibration, onlooker=auditor)
    assert auditor.audit is not None
    return auditor.audit


def test_a_clean_set_gives_no_warning(tmp_path: Path) -> None:
    """48 samples of one kind; what was run is in the report all the same."""
    audit = audited(IMAGES, pictures(48), tmp_path, held_out=12)
    assert audit.warnings() == ()
    assert [(each.inputs, each.feeds, each.of) for each in audit.departures] == [
        ("clean", 3, 5),
        ("noise", 3, 5),
        ("blur", 1, 5),
    ]
    table = json.loads(json.dumps(audit.table(), allow_nan=False))
    assert table["near_duplicates"] == {"count": 0, "pairs": []}
    assert table["warnings"] == []


def test_a_near_duplicate_is_named(tmp_path: Path) -> None:
    """Both samples by their numbers in the whole set and by name, the held-out ones counted."""
    images = pictures(48)
    images[31] = np.clip(images[5] + np.float32(0.004) * normal(1, 3, 24, 24), 0, 1)
    images[40] = images[9].copy()
    [warning] = audited(IMAGES, images, tmp_path, held_out=12).warnings()
    assert warning == (
        "sample 9 (`calib sample 9`) and sample 40 (`held sample 4`) are duplicates, so are 5 and 31; samples that"
        " repeat an earlier one: 2, 1 of them held out: they add nothing to ranges and prove nothing new"
    )
    images[40] = pictures(49)[-1]
    [warning] = audited(IMAGES, images, tmp_path, held_out=12).warnings()
    assert warning.startswith(
        "sample 5 (`calib sample 5`) and sample 31 (`calib sample 31`) are near duplicates (correlation 0.999"
    )


@pytest.mark.parametrize("augment", ["", "noise,blur"])
def test_an_outlier_is_named(tmp_path: Path, augment: str) -> None:
    """With the two ranges, also where its changed forms stand beside it."""
    images = pictures(48)
    images[7] *= 4
    audit = audited(IMAGES, images, tmp_path, held_out=12, augment=augment)
    [warning] = audit.warnings()
    assert warning.startswith("sample 7 (`calib sample 7`) alone makes 5 of 5 ranges over 1.5 times as wide, `")
    [outlier] = audit.outliers
    assert (outlier.sample.index, outlier.values, outlier.of) == (7, 5, 5)
    assert 3 < outlier.worst.growth < 5
    worst = audit.table()["outliers"][0]["worst"]
    assert worst["others"][1] < worst["all"][1]


def test_one_value_that_is_stretched_is_no_outlier(tmp_path: Path) -> None:
    """A bright pixel widens its input, and little else: several values have to be, or that one by 3 times."""
    images = pictures(48)
    images[7][0, 0, 0, 0] = 1.7
    audit = audited(IMAGES, images, tmp_path, held_out=12)
    assert [(each.sample.index, each.values) for each in audit.outliers] == [(7, 1)]
    assert audit.warnings() == ()
    images[7][0, 0, 0, 0] = 3.2
    [warning] = audited(IMAGES, images, tmp_path, held_out=12).warnings()
    assert warning.startswith("sample 7 (`calib sample 7`) alone makes ")
    assert "ranges over 1.5 times as wide, `x` from [0, 1] to [0, 3.2]" in warning


def test_few_samples_are_told(tmp_path: Path) -> None:
    """8 of them; where they are so few that both uses share them, `feeding` tells."""
    first = "only 8 samples, 6 to calibrate and 2 to verify: ranges and errors of so few are accidental; a few hundred"
    assert audited(IMAGES, pictures(8), tmp_path, held_out=2).warnings()[0] == f"{first} typical inputs are usual"
    shared = audited(IMAGES, pictures(7), tmp_path)
    assert shared.warnings() == ()
    assert [each.inputs for each in shared.departures] == ["noise", "blur"]


def test_held_out_samples_beyond_the_ranges_are_told(tmp_path: Path) -> None:
    """The one that goes farthest is found, though not all are run, by how unlike the others it is."""
    images = pictures(48)
    images[45] *= 3
    [warning] = audited(IMAGES, images, tmp_path, held_out=12).warnings()
    assert warning.startswith(
        "held-out samples leave 5 of 5 calibrated ranges, sample 45 (`held sample 9`) farthest, `"
    )
    assert warning.endswith("of all elements lie outside: calibrate on more samples like it")


def smooth(count: int) -> list[Array]:
    """Pictures without any noise."""
    return [
        np.ascontiguousarray(ndimage.gaussian_filter(image, (0, 0, 4, 4)) * 4, np.float32) for image in pictures(count)
    ]


FILTERS = normal(8, 3, 3, 3)
EDGES = Network(
    "net (float[N,3,24,24] x) => (float[N,4,20,20] y) { a = Conv(x, w) b = Relu(a) c = Conv(b, v) y = Relu(c) }",
    {"w": FILTERS - FILTERS.mean(axis=(2, 3), keepdims=True), "v": normal(4, 8, 3, 3, seed=1)},
)


def test_images_that_are_too_clean_are_told(tmp_path: Path) -> None:
    """Filters that look for edges find none in smooth images: with noise they go far."""
    audit = audited(EDGES, smooth(48), tmp_path, held_out=12)
    [warning] = audit.warnings()
    assert warning.startswith("held-out images with noise (sigma 16% of their range) leave 4 of 5 ")
    assert "calibrated ranges that they keep when clean, `" in warning
    assert warning.endswith("if the device sees such images, pass --augment noise or calibrate on some")
    by_inputs = {each.inputs: each for each in audit.departures}
    assert by_inputs["noise"].worst is not None
    assert by_inputs["noise"].worst.growth > 1.25
    assert by_inputs["noise"].values > by_inputs["clean"].values == by_inputs["blur"].values == 0
    mended = audited(EDGES, smooth(48), tmp_path, held_out=12, augment="noise")
    assert [each.inputs for each in mended.departures] == ["clean", "blur"]
    assert mended.warnings() == ()


def test_what_is_no_image_is_not_changed(tmp_path: Path) -> None:
    """Clean held-out samples only."""
    audit = audited(SEQUENCES, [normal(1, 16, seed=seed) for seed in range(48)], tmp_path, held_out=12, values=["a"])
    assert [each.inputs for each in audit.departures] == ["clean"]
    assert audit.warnings() == ()


def test_nothing_watched_is_nothing_found(tmp_path: Path) -> None:
    """The inputs are looked at all the same."""
    images = pictures(40)
    images[1] = images[0]
    audit = audited(IMAGES, images, tmp_path, held_out=10, values=[])
    assert (len(audit.near_duplicates), audit.outliers) == (1, ())
    assert [each.values for each in audit.departures] == [0, 0, 0]

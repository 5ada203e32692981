"""The samples that candidates are judged on."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.augment import Blur, Noise, augmented
from infer_opt.calibrate.feeding import Feeding
from infer_opt.calibrate.sample_set import Feed, InputSpec, SampleSet
from infer_opt.calibrate.samples import split
from infer_opt.calibrate.verifying import Verifying, verifying
from tests.targets.networks import Lazy, normal

IMAGE = InputSpec("image", np.dtype(np.float32), ("N", 3, 16, 16))
PLAIN = InputSpec("x", np.dtype(np.float32), ("N", 4))


def made(index: int) -> Feed:
    """An image, and numbers beside it."""
    return {"image": normal(1, 3, 16, 16, seed=index), "x": np.full((1, 4), index, np.float32)}


def fed(count: int, source: str = "calib.npz") -> Feeding:
    """So many samples, split as `compile` splits them."""
    calibration, held_out = split(Lazy(made, count, source))
    return Feeding(calibration, held_out, source)


def sets(feeding: Feeding, *inputs: InputSpec, seed: int = 0) -> Verifying:
    """The sets, which are there."""
    found = verifying(feeding, inputs, seed)
    assert found is not None
    return found


def numbers(samples: SampleSet) -> list[int]:
    """Which samples they are."""
    return [int(feed["x"][0, 0]) for feed in samples]


@pytest.mark.parametrize(
    ("count", "held_out", "also"),
    [
        (64, range(48, 64), []),
        (100, range(75, 100), []),
        (60, range(45, 60), [0]),
        (56, range(42, 56), [0, 21]),
        (40, range(30, 40), [0, 5, 10, 15, 20, 25]),
        (16, range(12, 16), list(range(12))),
        (8, range(6, 8), list(range(6))),
    ],
)
def test_few_held_out_samples_are_topped_up(count: int, held_out: range, also: list[int]) -> None:
    """To 16, by samples that calibrated, from all over them; as many as there are."""
    found = sets(fed(count), PLAIN)
    assert numbers(found.samples) == [*held_out, *also]
    assert found.held_out == len(held_out)
    names = [found.samples.describe(index) for index in range(len(found.samples))]
    assert names == [f"calib.npz sample {index}" for index in [*held_out, *also]]
    assert found.steps == len(held_out) + len(also)


@pytest.mark.parametrize("count", [1, 7])
def test_a_set_that_does_both_is_not_topped_up(count: int) -> None:
    """Under 8 samples, calibration and verification share them: there are no others."""
    found = sets(fed(count), IMAGE)
    assert numbers(found.samples) == list(range(count))
    assert found.held_out == count


@pytest.mark.parametrize("calibrated", [True, False])
def test_random_samples_are_few_and_as_they_are(*, calibrated: bool) -> None:
    """Three of them, whether they calibrated or not; noise on noise says nothing."""
    feeding = fed(64, "random")
    found = sets(feeding if calibrated else Feeding(None, feeding.held_out, "random"), IMAGE)
    assert numbers(found.samples) == [48, 49, 50]
    assert (found.held_out, found.changed, found.steps) == (3, {}, 3)


def test_without_samples_there_are_no_sets() -> None:
    """Nothing can be verified."""
    assert verifying(Feeding(None, None, "random"), [IMAGE], 0) is None


@pytest.mark.parametrize(("count", "changed"), [(5, 5), (16, 4), (64, 8)])
def test_images_are_judged_with_noise_and_blurred_too(count: int, changed: int) -> None:
    """Up to 8 held-out ones, each by itself; what else is fed stays as it is."""
    found = sets(fed(count), PLAIN, IMAGE, seed=3)
    assert list(found.changed) == ["noise", "blur"]
    assert found.steps == len(found.samples) + 2 * changed
    clean = list(found.samples)[:changed]
    for change in (Noise(), Blur()):
        copies = found.changed[change.name]
        assert len(copies) == changed
        for index, (before, after) in enumerate(zip(clean, copies, strict=True)):
            np.testing.assert_array_equal(after["x"], before["x"])
            assert np.abs(after["image"] - before["image"]).max() > 0.01
            expected = augmented(before, ["image"], change, 3, index)
            np.testing.assert_array_equal(after["image"], expected["image"])
            assert copies.describe(index) == f"{found.samples.describe(index)} with {change.name}"


def test_changed_copies_are_the_same_each_time_and_of_the_seed() -> None:
    """Candidates are held to the same noise; another seed is other noise."""
    first, again, other = (sets(fed(16), IMAGE, seed=seed).changed["noise"] for seed in (0, 0, 1))
    for one, same, different in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one["image"], same["image"])
        assert (one["image"] != different["image"]).any()
    feeds = list(first.feeds(1, 3))
    np.testing.assert_array_equal(feeds[1]["image"], list(first)[2]["image"])


def test_inputs_that_are_no_images_are_not_changed() -> None:
    """Tokens, spectra and small maps."""
    small = InputSpec("image", np.dtype(np.float32), ("N", 3, 8, 8))
    assert sets(fed(64), PLAIN, small).changed == {}

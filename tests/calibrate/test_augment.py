"""Changed images: how strong a change is, what it keeps, which inputs it touches, and in which order forms come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from infer_opt.calibrate.augment import (
    AUGMENTATIONS,
    Augmentation,
    Blur,
    Brightness,
    Contrast,
    Noise,
    augmented,
    image_inputs,
    parse,
)
from infer_opt.calibrate.sample_set import InputSpec
from infer_opt.errors import UsageError

EVERY = list(AUGMENTATIONS.values())


def picture(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Pixels as a normalised image has them, from -2.1 to 2.6, mostly far from both ends."""
    pixels = np.random.default_rng(seed).beta(6, 6, shape).astype(np.float32)
    pixels.flat[:2] = 0, 1
    return pixels * np.float32(4.7) - np.float32(2.1)


@pytest.mark.parametrize(
    ("shape", "dtype", "is_image"),
    [
        ((1, 3, 224, 224), np.float32, True),
        ((None, 1, 16, 16), np.float16, True),
        (("batch", 4, "height", "width"), np.float32, True),
        ((1, 3, 48, "width"), np.float32, True),
        ((1, 256, 256, 3), np.float32, True),
        ((1, 3, 224, 224), np.uint8, True),
        ((1, 3, 15, 224), np.float32, False),
        ((1, 8, 224, 224), np.float32, False),
        ((1, None, None, None), np.float32, False),
        ((1, 3, 224), np.float32, False),
        (None, np.float32, False),
        ((1, 3, 224, 224), np.int64, False),
        ((1, 3, 224, 224), np.bool_, False),
    ],
)
def test_images_are_told_by_their_declaration(shape: Any, dtype: Any, *, is_image: bool) -> None:
    """Rank, channels, sides and element type decide."""
    assert image_inputs([InputSpec("x", np.dtype(dtype), shape)]) == (("x",) if is_image else ())


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("augmentation", EVERY)
def test_a_change_keeps_shape_type_and_extremes_of_every_channel(augmentation: Augmentation, layout: str) -> None:
    """Both layouts hold the same changed pixels; the clean feed and other inputs stay as they were."""
    clean = picture(2, 3, 32, 40)
    array = clean if layout == "nchw" else np.ascontiguousarray(clean.transpose(0, 2, 3, 1))
    before, other = array.copy(), np.arange(4)
    feed = augmented({"x": array, "other": other}, ["x"], augmentation, 0, 5)
    np.testing.assert_array_equal(array, before)
    assert feed["other"] is other
    assert (feed["x"].shape, feed["x"].dtype) == (array.shape, array.dtype)
    assert feed["x"].flags.c_contiguous
    changed = feed["x"] if layout == "nchw" else feed["x"].transpose(0, 3, 1, 2)
    assert (changed != clean).mean() > 0.5
    assert (changed.min(axis=(2, 3)) >= clean.min(axis=(2, 3))).all()
    assert (changed.max(axis=(2, 3)) <= clean.max(axis=(2, 3))).all()
    np.testing.assert_array_equal(changed, augmented({"x": clean}, ["x"], augmentation, 0, 5)["x"])


def test_noise_has_its_sigma() -> None:
    """8 % of the range of 4.7; the pixels here are far from the ends, and clipping is rare: within 1 %."""
    clean = picture(1, 3, 224, 224)
    clean[:, 1:, 0, :2] = clean[0, 0, 0, :2]
    noise = augmented({"x": clean}, ["x"], Noise(spread=1), 0, 0)["x"] - clean
    assert abs(noise.std() / (0.08 * 4.7) - 1) < 0.01
    assert abs(noise.mean()) < 0.01 * 4.7


def test_every_image_has_a_sigma_of_its_own() -> None:
    """Within a factor of 2 of 8 %, the median near it, and the strongest at its upper end; pixels are not clipped."""
    clean = np.tile(np.where(np.arange(1024).reshape(1, 1, 32, 32) < 2, np.float32(0), np.float32(0.5)), (256, 1, 1, 1))
    clean[:, :, 0, 1] = 1
    inner = np.s_[:, 0, 1:]
    sigmas = augmented({"x": clean}, ["x"], Noise(), 0, 0)["x"][inner].std(axis=(1, 2))
    assert 0.035 < sigmas.min() < 0.05
    assert 0.14 < sigmas.max() < 0.18
    assert abs(np.median(sigmas) - 0.08) < 0.015
    strongest = augmented({"x": clean}, ["x"], Noise().strongest, 0, 0)["x"][inner].std(axis=(1, 2))
    np.testing.assert_allclose(strongest, 0.16, rtol=0.1)


@pytest.mark.parametrize(("side", "sigma"), [(224, 1.0), (896, 2.0), (56, 0.5)])
def test_blur_is_gaussian(side: int, sigma: float) -> None:
    """A single bright pixel becomes the kernel of that sigma, which grows with the root of the side: within 1e-3."""
    clean = np.zeros((1, 1, side, side), np.float32)
    clean[0, 0, side // 2, side // 2] = 1
    row = augmented({"x": clean}, ["x"], Blur(), 0, 0)["x"][0, 0].sum(axis=0)
    kernel = np.exp(-0.5 * ((np.arange(side) - side // 2) / sigma) ** 2)
    np.testing.assert_allclose(row, kernel / kernel.sum(), atol=1e-3)


def test_brightness_shifts_and_contrast_stretches_by_a_fifth() -> None:
    """Either way, by a coin of the sample's; pixels in the middle, which are not clipped, show it exactly."""
    signs: dict[str, set[float]] = {"brightness": set(), "contrast": set()}
    for index in range(16):
        clean = picture(1, 1, 32, 32, seed=index)
        middle = np.abs(clean - clean.mean()) < 1
        shift = (augmented({"x": clean}, ["x"], Brightness(), 0, index)["x"] - clean)[middle] / 4.7
        stretch = augmented({"x": clean}, ["x"], Contrast(), 0, index)["x"][middle] - clean.mean()
        np.testing.assert_allclose(np.abs(shift), 0.2, atol=1e-5)
        factor = np.dot(stretch, clean[middle] - clean.mean()) / np.square(clean[middle] - clean.mean()).sum()
        np.testing.assert_allclose(abs(factor - 1), 0.2, atol=1e-5)
        signs["brightness"].add(float(np.sign(shift[0])))
        signs["contrast"].add(float(np.sign(factor - 1)))
    assert all(found == {1.0, -1.0} for found in signs.values())


def test_seed_and_index_decide() -> None:
    """The same noise for the same two, another for another of either."""
    clean = {"x": picture(1, 3, 16, 16)}
    forms = [augmented(clean, ["x"], Noise(), *key)["x"] for key in ((0, 0), (0, 0), (0, 1), (1, 0))]
    np.testing.assert_array_equal(forms[0], forms[1])
    assert all((forms[0] != other).any() for other in forms[2:])


def test_raw_pixels_stay_whole_numbers() -> None:
    """A uint8 image is changed within its extremes and rounded."""
    clean = np.random.default_rng(0).integers(10, 240, (1, 16, 16, 3)).astype(np.uint8)
    changed = augmented({"x": clean}, ["x"], Noise(), 0, 0)["x"]
    assert changed.dtype == np.uint8
    assert (changed.min(), changed.max()) == (clean.min(), clean.max())
    assert np.abs(changed.astype(int) - clean).mean() > 5


@pytest.mark.parametrize("far", [-np.inf, np.nan, np.finfo(np.float32).min])
def test_an_additive_mask_is_no_image(far: float) -> None:
    """It stays as it is."""
    mask = np.zeros((1, 1, 16, 16), np.float32)
    mask[..., 8:] = far
    assert augmented({"m": mask}, ["m"], Noise(), 0, 0)["m"] is mask


def test_a_flat_image_stays_flat() -> None:
    """It has no range to take a share of."""
    flat = np.full((1, 3, 16, 16), 0.5, np.float32)
    for each in EVERY:
        np.testing.assert_allclose(augmented({"x": flat}, ["x"], each, 0, 0)["x"], flat)


def test_names_are_parsed_in_order() -> None:
    """Spaces around them do not count."""
    assert parse("blur, noise") == (Blur(), Noise())


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("noise,blurr", "--augment knows no `blurr`", "pass `blur`"),
        ("", "--augment knows no ``", "pass some of `noise`, `blur`, `brightness`, `contrast`"),
        ("rotate", "--augment knows no `rotate`", "pass some of `noise`, `blur`, `brightness`, `contrast`"),
        ("blur,blur", "--augment names `blur` twice", "keep one of the two"),
    ],
)
def test_names_that_cannot_be_meant(text: str, message: str, hint: str) -> None:
    """Unknown, with the nearest that is known; or twice."""
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@dataclass(frozen=True)
class _Far:
    """Throws every pixel far beyond its range."""

    name: ClassVar[str] = "far"
    strength: float = 1e6

    def apply(self, images: np.ndarray[Any, Any], generator: np.random.Generator) -> np.ndarray[Any, Any]:
        """Up or down."""
        return images + np.float32(self.strength) * generator.choice([-1, 1], images.shape).astype(np.float32)


def test_pixels_have_hard_ends() -> None:
    """What is thrown far comes to lie on the extremes of its own channel."""
    clean = picture(1, 3, 16, 16) * np.array([1, 2, 3], np.float32).reshape(1, 3, 1, 1)
    changed = augmented({"x": clean}, ["x"], _Far(), 0, 0)["x"]
    for channel in range(3):
        ends = {clean[0, channel].min(), clean[0, channel].max()}
        assert set(np.unique(changed[0, channel])) == ends

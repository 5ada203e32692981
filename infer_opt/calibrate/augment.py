"""Label-free changes of images: what a camera or a scanner does in production and clean samples do not show.

Nothing is known of how a model's images were normalised, so strengths are shares of an image's own range, and what is
changed is clipped to the extremes of each of its channels: pixels have hard ends, and a changed image keeps to them.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from infer_opt.calibrate.feed_checks import element_kind, ticked
from infer_opt.calibrate.sample_set import Feed, InputSpec
from infer_opt.errors import UsageError, nearest

__all__ = [
    "AUGMENTATIONS",
    "Augmentation",
    "Blur",
    "Brightness",
    "Contrast",
    "Noise",
    "augmented",
    "image_inputs",
    "parse",
]

Images = NDArray[np.float32]  # [n, c, h, w], in the model's own units

_CHANNELS = (1, 3, 4)
_SMALLEST_SIDE = 16  # pixels; what is smaller is no picture of anything
_REFERENCE_SIDE = 224  # pixels
_WIDEST_RANGE = 2.0**16  # of pixels of 16 bits; an additive mask reaches further


class Augmentation(Protocol):
    """A change of images, with its strength."""

    name: ClassVar[str]

    @property
    def strength(self) -> float:
        """How much, in the unit of the change."""
        ...

    def apply(self, images: Images, generator: np.random.Generator) -> Images:
        """Changed copies, not yet clipped: [n, c, h, w] to [n, c, h, w]."""
        ...


@dataclass(frozen=True)
class Noise:
    """Gaussian noise, independent for each element; `strength` is the median sigma as a share of the image's range.

    Light differs, and noise with it: each image has a sigma of its own, from strength / spread to strength * spread,
    its logarithm drawn uniformly. By default they are 10 to 41 in pixels of 8 bits; denoisers are compared at 15 to 50.
    """

    name: ClassVar[str] = "noise"
    strength: float = 0.08
    spread: float = 2.0

    @property
    def strongest(self) -> Noise:
        """The strongest of these, without spread."""
        return Noise(self.strength * self.spread, spread=1.0)

    def apply(self, images: Images, generator: np.random.Generator) -> Images:
        """Noise added."""
        factor = self.spread ** generator.uniform(-1, 1, (len(images), 1, 1, 1))
        sigma = (self.strength * factor).astype(np.float32) * _ranges(images)
        return np.asarray(images + sigma * generator.standard_normal(images.shape, dtype=np.float32))


@dataclass(frozen=True)
class Blur:
    """Gaussian blur; `strength` is its sigma in pixels where the shorter side has 224.

    It grows with the square root of that side: a lens blurs a share of the picture, a moving hand some pixels.
    """

    name: ClassVar[str] = "blur"
    strength: float = 1.0

    def apply(self, images: Images, generator: np.random.Generator) -> Images:  # noqa: ARG002 - the protocol's
        """Blurred within each channel; beyond its rim an image goes on as it ends."""
        sigma = self.strength * float(np.sqrt(min(images.shape[2:]) / _REFERENCE_SIDE))
        return np.asarray(ndimage.gaussian_filter(images, (0.0, 0.0, sigma, sigma), mode="nearest"))


@dataclass(frozen=True)
class Brightness:
    """Lighter or darker, by a coin; `strength` is the shift as a share of the image's range."""

    name: ClassVar[str] = "brightness"
    strength: float = 0.2

    def apply(self, images: Images, generator: np.random.Generator) -> Images:
        """Shifted."""
        return np.asarray(images + np.float32(_coin(generator) * self.strength) * _ranges(images))


@dataclass(frozen=True)
class Contrast:
    """More or less contrast, by a coin; `strength` is the change of every distance from the channel's mean."""

    name: ClassVar[str] = "contrast"
    strength: float = 0.2

    def apply(self, images: Images, generator: np.random.Generator) -> Images:
        """Stretched or shrunk around the mean of each channel."""
        mean = images.mean(axis=(2, 3), keepdims=True)
        return np.asarray(mean + np.float32(1.0 + _coin(generator) * self.strength) * (images - mean))


AUGMENTATIONS: dict[str, Augmentation] = {each.name: each for each in (Noise(), Blur(), Brightness(), Contrast())}


def parse(text: str) -> tuple[Augmentation, ...]:
    """The changes that a text like `noise,blur` names, in its order, at their default strengths.

    Raises:
        UsageError: a name is unknown or comes twice.
    """
    names = [name.strip() for name in text.split(",")]
    for position, name in enumerate(names):
        if name not in AUGMENTATIONS:
            near = nearest(name, AUGMENTATIONS)
            raise UsageError(
                f"--augment knows no `{name}`", f"pass {f'`{near}`' if near else 'some of ' + ticked(AUGMENTATIONS)}"
            )
        if name in names[:position]:
            raise UsageError(f"--augment names `{name}` twice", "keep one of the two")
    return tuple(AUGMENTATIONS[name] for name in names)


def image_inputs(specs: Sequence[InputSpec]) -> tuple[str, ...]:
    """Names of the inputs that take images, as far as their declaration tells.

    They are floats or uint8 of rank 4 with 1, 3 or 4 channels on axis 1 or on the last axis, and height and width are
    at least 16 or left open.
    """
    return tuple(spec.name for spec in specs if _takes_images(spec))


def augmented(feed: Feed, names: Collection[str], augmentation: Augmentation, seed: int, index: int) -> Feed:
    """The feed with the inputs `names` changed and all others as they are; the same for the same seed and index.

    An input that holds no finite image, such as an additive mask, stays as it is: NaN, Inf, or a range beyond that of
    16 bits. Changed inputs keep their shape and element type, and each channel of each image its extremes.

    Args:
        names: inputs of [n, c, h, w] or [n, h, w, c], as `image_inputs` finds them.
        index: the sample's, so that each has noise of its own.
    """
    generator = np.random.default_rng([seed, index, zlib.crc32(augmentation.name.encode())])
    return {name: _changed(array, augmentation, generator) if name in names else array for name, array in feed.items()}


def _takes_images(spec: InputSpec) -> bool:
    if spec.shape is None or len(spec.shape) != 4:
        return False
    if element_kind(spec.dtype) != "float" and spec.dtype != np.dtype(np.uint8):
        return False
    _, *places = spec.shape
    layouts = ((places[0], places[1:]), (places[2], places[:2]))
    return any(
        channels in _CHANNELS and all(not isinstance(side, int) or side >= _SMALLEST_SIDE for side in sides)
        for channels, sides in layouts
    )


def _changed(array: NDArray[Any], augmentation: Augmentation, generator: np.random.Generator) -> NDArray[Any]:
    """One input changed and clipped."""
    if not array.size:
        return array
    ordered = array if _channels_first(array.shape) else np.moveaxis(array, 3, 1)
    clean = np.ascontiguousarray(ordered, dtype=np.float32)
    low, high = clean.min(axis=(2, 3), keepdims=True), clean.max(axis=(2, 3), keepdims=True)
    # Written so that a NaN fails it too.
    if not (low.min() > -_WIDEST_RANGE and high.max() < _WIDEST_RANGE):
        return array
    changed = np.clip(augmentation.apply(clean, generator), low, high)
    if array.dtype == np.dtype(np.uint8):
        changed = np.rint(changed)
    ordered = changed if _channels_first(array.shape) else np.moveaxis(changed, 1, 3)
    return np.ascontiguousarray(ordered, dtype=array.dtype)


def _channels_first(shape: tuple[int, ...]) -> bool:
    """Whether channels are on axis 1; where either axis could hold them, on the one that leaves the larger image."""
    first, last = shape[1] in _CHANNELS, shape[3] in _CHANNELS
    return first and not (last and min(shape[1:3]) > min(shape[2:4]))


def _ranges(images: Images) -> Images:
    """Largest less smallest element of each image: [n, 1, 1, 1]."""
    return np.asarray(np.ptp(images, axis=(1, 2, 3), keepdims=True))


def _coin(generator: np.random.Generator) -> int:
    return 1 if generator.integers(2) else -1

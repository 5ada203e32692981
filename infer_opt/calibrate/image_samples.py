"""Samples in a folder of images. Pillow, the extra `[images]`, is imported only here and only when used."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infer_opt import ir
from infer_opt.calibrate.feed_checks import as_declared, element_kind, shape_text, ticked
from infer_opt.calibrate.preprocess import Layout, Preprocess, parse_preprocess
from infer_opt.calibrate.sample_set import Feed, InputSpec, SampleSet
from infer_opt.errors import InputError, UsageError

__all__ = ["IMAGE_SUFFIXES", "ImageSamples", "image_samples"]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")

_GRAY_RIM = (114, 114, 114)
# Deeper modes (I;16, I, F) would be clipped to 255, not scaled, on conversion.
_EIGHT_BIT_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_DAMAGE = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error)


@dataclass(frozen=True)
class ImageSamples(SampleSet):
    """Images as feeds, in the order of their files' names; see `image_samples`."""

    source: str
    spec: InputSpec
    names: tuple[str, ...]
    preprocess: Preprocess
    size: tuple[int, int]
    layout: Layout
    batch: int

    def __len__(self) -> int:
        return len(self.names) // self.batch

    def describe(self, index: int) -> str:
        """The image's file, or the first and the last of a batch."""
        first = Path(self.source) / self.names[index * self.batch]
        return str(first) if self.batch == 1 else f"{first} to {self.names[(index + 1) * self.batch - 1]}"

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        for first in range(start * self.batch, stop * self.batch, self.batch):
            names = self.names[first : first + self.batch]
            yield {self.spec.name: np.stack([self._image(Path(self.source) / name) for name in names])}

    def _image(self, path: Path) -> NDArray[Any]:
        pixels = _pixels(path, self.preprocess, self.size)
        raw = self.spec.dtype == np.dtype(np.uint8)
        values: NDArray[Any] = pixels if raw else _normalized(pixels, self.preprocess)
        ordered = values if self.layout == "nhwc" else values.transpose(2, 0, 1)
        return as_declared(ordered, self.spec)

    def _digest(self) -> str:
        return ir.files_sha256(Path(self.source), self.names)


def image_samples(
    source: str, names: Sequence[str], inputs: Sequence[InputSpec], preprocess: str | None
) -> ImageSamples:
    """Samples of the images `names` in the folder `source`, for a model with one input of rank 4.

    Each image is turned upright by its EXIF tag, resized bilinearly (with antialiasing) as the spec says, and
    becomes `(pixel * scale - mean) / std`, or raw pixels for a uint8 input. One image is one feed, or as many
    as the model's fixed batch.

    Raises:
        UsageError: no spec, a bad one, or one that does not fit the model's input.
        InputError: Pillow is missing, the model's input takes no images, or the images are no whole number of
            batches. While reading: an image is damaged, animated or deeper than 8 bits.
    """
    spec = _image_input(source, inputs)
    if preprocess is None:
        raise UsageError(
            f"`{source}` holds images, and no preprocess spec says how to feed them",
            "pass one with --preprocess, such as"
            " `size=224x224,scale=1/255,mean=0.485:0.456:0.406,std=0.229:0.224:0.225`",
        )
    parsed = parse_preprocess(preprocess)
    size, layout = _size_and_layout(parsed, spec)
    batch = spec.shape[0] if spec.shape and isinstance(spec.shape[0], int) and spec.shape[0] > 0 else 1
    if len(names) % batch:
        raise InputError(
            f"`{source}` has {len(names)} images, which is no multiple of the model's batch of {batch}",
            f"remove {len(names) % batch} or export the model with a dynamic batch",
        )
    _require_pillow(source)
    return ImageSamples(source, spec, tuple(names), parsed, size, layout, batch)


def _image_input(source: str, inputs: Sequence[InputSpec]) -> InputSpec:
    if len(inputs) != 1:
        raise InputError(
            f"`{source}` holds images, and the model has {len(inputs)} inputs: {ticked(spec.name for spec in inputs)}",
            "save a .npz keyed by input name with `numpy.savez`",
        )
    spec = inputs[0]
    if spec.shape is not None and len(spec.shape) != 4:
        raise InputError(
            f"`{source}` holds images, and the input `{spec.name}` has rank {len(spec.shape)}, not 4",
            "save the samples as a .npz",
        )
    if element_kind(spec.dtype) != "float" and spec.dtype != np.dtype(np.uint8):
        raise InputError(
            f"`{source}` holds images, and the input `{spec.name}` is {spec.dtype.name}, neither float nor uint8",
            "save the samples as a .npz",
        )
    return spec


def _size_and_layout(preprocess: Preprocess, spec: InputSpec) -> tuple[tuple[int, int], Layout]:
    """Height and width, and layout: the spec's or else the model's; the two checked against each other."""
    shape = spec.shape or (None, None, None, None)
    layout = preprocess.layout or _deduced_layout(shape, spec, preprocess.channels)
    channels, height, width = shape[1:] if layout == "nchw" else (shape[3], *shape[1:3])
    if isinstance(channels, int) and channels != preprocess.channels:
        raise UsageError(
            f"the input `{spec.name}` has {channels} in place of the channels of color={preprocess.color}:"
            f" {shape_text(shape)}, {layout}",
            "pass color=gray for 1 channel, color=rgb or bgr for 3, or another layout",
        )
    size = preprocess.size
    if size is None:
        if not (isinstance(height, int) and isinstance(width, int)):
            raise UsageError(
                f"the preprocess spec has no size, and the input `{spec.name}` leaves it open: {shape_text(shape)}",
                "add size=HEIGHTxWIDTH to it",
            )
        size = height, width
    if any(isinstance(want, int) and want != have for want, have in zip((height, width), size, strict=True)):
        raise UsageError(
            f"the preprocess spec has size={size[0]}x{size[1]}, and the input `{spec.name}` wants"
            f" {shape_text(shape)} ({layout})",
            "leave size out to take the model's",
        )
    return size, layout


def _deduced_layout(shape: Sequence[int | str | None], spec: InputSpec, channels: int) -> Layout:
    """The layout whose place for channels holds 1 or 3, or else just the number that `color` gives."""
    for counts in ((1, 3), (channels,)):
        first, last = shape[1] in counts, shape[3] in counts
        if first != last:
            return "nchw" if first else "nhwc"
    raise UsageError(
        f"the layout of the input `{spec.name}` cannot be deduced from its shape {shape_text(shape)}",
        "add layout=nchw or layout=nhwc to the preprocess spec",
    )


def _require_pillow(source: str) -> None:
    try:
        import PIL.Image  # noqa: F401, PLC0415 - an extra, found missing before any work is done
    except ImportError as error:
        raise InputError(
            f"`{source}` holds images, and Pillow, which reads them, is not installed",
            "install it with `pip install 'infer-opt[images]'`",
        ) from error


def _pixels(path: Path, preprocess: Preprocess, size: tuple[int, int]) -> NDArray[np.uint8]:
    """The image resized and in the spec's colours: uint8, height x width x channels."""
    from PIL import Image, ImageOps  # noqa: PLC0415 - an extra

    height, width = size
    bilinear = Image.Resampling.BILINEAR
    try:
        with Image.open(path) as opened:
            _check_plain(path, opened.mode, getattr(opened, "n_frames", 1))
            image = ImageOps.exif_transpose(opened).convert("L" if preprocess.color == "gray" else "RGB")
    except (*_DAMAGE, Image.DecompressionBombError) as error:
        raise InputError(
            f"`{path}` cannot be read as an image: {' '.join(str(error).split())}", "replace or remove it"
        ) from error
    if preprocess.resize == "crop":
        image = ImageOps.fit(image, (width, height), bilinear)
    elif preprocess.resize == "pad":
        rim = _GRAY_RIM[0] if preprocess.color == "gray" else _GRAY_RIM
        image = ImageOps.pad(image, (width, height), bilinear, color=rim)
    else:
        image = image.resize((width, height), bilinear)
    pixels = np.asarray(image).reshape(height, width, preprocess.channels)
    return pixels[:, :, ::-1] if preprocess.color == "bgr" else pixels


def _check_plain(path: Path, mode: str, frames: int) -> None:
    if mode not in _EIGHT_BIT_MODES:
        raise InputError(f"`{path}` has pixels of more than 8 bits (mode {mode})", "save it with 8 bits a channel")
    if frames > 1:
        raise InputError(f"`{path}` is animated, with {frames} frames", "save the frame you mean as an image")


def _normalized(pixels: NDArray[np.uint8], preprocess: Preprocess) -> NDArray[np.float32]:
    mean, std = np.array(preprocess.mean, np.float32), np.array(preprocess.std, np.float32)
    return (pixels * np.float32(preprocess.scale) - mean) / std

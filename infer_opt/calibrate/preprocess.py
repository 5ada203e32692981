"""The preprocess spec: how an image becomes a feed, as text such as `size=224x224,scale=1/255,mean=0.5`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from infer_opt.errors import UsageError, nearest

__all__ = ["Color", "Layout", "Preprocess", "Resize", "parse_preprocess"]

Resize = Literal["stretch", "crop", "pad"]
Color = Literal["rgb", "bgr", "gray"]
Layout = Literal["nchw", "nhwc"]


@dataclass(frozen=True)
class Preprocess:
    """How an image becomes a feed: `(pixel * scale - mean) / std` for each channel, pixels from 0 to 255.

    Inputs of type uint8 take the pixels as they are: scale, mean and std are then left to the model.
    `parse_preprocess(str(spec))` gives the spec back.

    Args:
        size: height and width in pixels; None takes the model's, where they are fixed.
        resize: `stretch` to the size; `crop` covers it, keeping proportions, and cuts the middle out; `pad`
            fits into it, keeping proportions, and fills the rim with the gray 114, as YOLO's letterbox does.
        color: order of the channels; `gray` is one channel, ITU-R 601 luma.
        scale: factor for the pixels, before mean and std.
        mean: one value, or one a channel in the order of `color`.
        std: one value, or one a channel in the order of `color`.
        layout: order of the feed's dimensions; None deduces it from the model's shape.
    """

    size: tuple[int, int] | None = None
    resize: Resize = "stretch"
    color: Color = "rgb"
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    layout: Layout | None = None

    @property
    def channels(self) -> int:
        """Channels of a pixel: 1 or 3."""
        return 1 if self.color == "gray" else 3

    def __str__(self) -> str:
        parts = [] if self.size is None else [f"size={self.size[0]}x{self.size[1]}"]
        parts += [f"resize={self.resize}", f"color={self.color}", f"scale={_number_text(self.scale)}"]
        parts += [f"mean={_list_text(self.mean)}", f"std={_list_text(self.std)}"]
        parts += [] if self.layout is None else [f"layout={self.layout}"]
        return ",".join(parts)


def parse_preprocess(text: str) -> Preprocess:
    """The spec that `text` states: `key=value` pairs between commas, keys as the fields of `Preprocess`.

    Values: size as HEIGHTxWIDTH; scale a number or a fraction such as 1/255; mean and std numbers or
    fractions between colons.

    Raises:
        UsageError: an unknown, repeated or empty key, a value that is not one of the key's, or a count of
            mean or std that is neither 1 nor the count of channels.
    """
    values: dict[str, Any] = {}
    for pair in text.split(","):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if key not in _PARSERS:
            near = nearest(key, _PARSERS)
            raise UsageError(
                f"the preprocess spec `{text}` has an unknown key `{key}`",
                f"write `{near}`; the keys are {_KEYS}" if near else f"use one of the keys: {_KEYS}",
            )
        if not equals or not value:
            raise UsageError(f"the preprocess spec `{text}` has no value for `{key}`", f"write `{key}=VALUE`")
        if key in values:
            raise UsageError(f"the preprocess spec `{text}` has `{key}` twice", "remove one of the two")
        values[key] = _PARSERS[key](key, value)
    spec = Preprocess(**values)
    for key, numbers in (("mean", spec.mean), ("std", spec.std)):
        if len(numbers) not in (1, spec.channels):
            raise UsageError(
                f"the preprocess spec gives `{key}` {len(numbers)} values, and color={spec.color} has"
                f" {spec.channels} channel{'s' * (spec.channels > 1)}",
                f"give one value, or one a channel: {spec.channels}",
            )
    return spec


def _bad_value(key: str, value: str, wanted: str) -> UsageError:
    return UsageError(f"the preprocess spec's `{key}` cannot be `{value}`", f"write {wanted}")


def _size(key: str, value: str) -> tuple[int, int]:
    height, _, width = value.partition("x")
    if not (height.isdecimal() and width.isdecimal() and int(height) and int(width)):
        raise _bad_value(key, value, "HEIGHTxWIDTH in pixels, such as 224x224")
    return int(height), int(width)


def _choice(choices: Sequence[str]) -> Callable[[str, str], str]:
    def parse(key: str, value: str) -> str:
        if value in choices:
            return value
        near = nearest(value, choices)
        raise _bad_value(key, value, f"`{near}`" if near else "one of " + ", ".join(choices))

    return parse


def _number(key: str, value: str) -> float:
    try:
        number = float(Fraction(value)) if "/" in value else float(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _bad_value(key, value, "a number such as 0.5, or a fraction such as 1/255")
    return number


def _scale(key: str, value: str) -> float:
    number = _number(key, value)
    if number == 0:
        raise _bad_value(key, value, "a number other than 0, such as 1/255")
    return number


def _means(key: str, value: str) -> tuple[float, ...]:
    return tuple(_number(key, part) for part in value.split(":"))


def _deviations(key: str, value: str) -> tuple[float, ...]:
    return tuple(_scale(key, part) for part in value.split(":"))


_PARSERS: dict[str, Callable[[str, str], object]] = {
    "size": _size,
    "resize": _choice(get_args(Resize)),
    "color": _choice(get_args(Color)),
    "scale": _scale,
    "mean": _means,
    "std": _deviations,
    "layout": _choice(get_args(Layout)),
}
_KEYS = ", ".join(_PARSERS)


def _list_text(numbers: Sequence[float]) -> str:
    return ":".join(_number_text(number) for number in numbers)


def _number_text(number: float) -> str:
    """The shorter of the decimal and, where it is the same number, 1/n."""
    decimal = repr(number).removesuffix(".0")
    inverse = round(1 / number) if abs(number) > 1e-9 else 0
    if inverse > 0 and 1 / inverse == number:
        return min(decimal, f"1/{inverse}", key=len)
    return decimal

"""The preprocess spec is read as written, prints as what it was read from, and misspelt is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_opt.calibrate.preprocess import Preprocess, parse_preprocess
from infer_opt.errors import UsageError

IMAGENET = "size=224x320,resize=crop,color=bgr,scale=1/255,mean=0.485:0.456:0.406,std=0.229:0.224:0.225,layout=nhwc"
KEYS = "size, resize, color, scale, mean, std, layout"


def test_every_key_is_read() -> None:
    """Height before width; fractions and lists become floats."""
    assert parse_preprocess(IMAGENET) == Preprocess(
        size=(224, 320),
        resize="crop",
        color="bgr",
        scale=1 / 255,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        layout="nhwc",
    )
    assert parse_preprocess(" std = 2 , mean=1/2:1:-3 ") == Preprocess(mean=(0.5, 1.0, -3.0), std=(2.0,))


def test_a_spec_prints_as_it_was_written() -> None:
    """All that is not open is printed, fractions as such where they are shorter."""
    assert str(parse_preprocess(IMAGENET)) == IMAGENET
    assert str(Preprocess()) == "resize=stretch,color=rgb,scale=1,mean=0,std=1"
    assert str(Preprocess(scale=0.5, mean=(1 / 3,))) == "resize=stretch,color=rgb,scale=0.5,mean=1/3,std=1"


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NONZERO = NUMBERS.filter(bool)


@given(st.data())
def test_printing_is_the_inverse_of_parsing(data: st.DataObject) -> None:
    """For any spec, to the last bit."""
    color = data.draw(st.sampled_from(["rgb", "bgr", "gray"]))
    counts = (1,) if color == "gray" else (1, 3)
    spec = Preprocess(
        size=data.draw(st.none() | st.tuples(st.integers(1, 5000), st.integers(1, 5000))),
        resize=data.draw(st.sampled_from(["stretch", "crop", "pad"])),
        color=color,
        scale=data.draw(NONZERO | st.integers(1, 10**6).map(lambda n: 1 / n)),
        mean=tuple(data.draw(st.sampled_from(counts).flatmap(lambda n: st.tuples(*[NUMBERS] * n)))),
        std=tuple(data.draw(st.sampled_from(counts).flatmap(lambda n: st.tuples(*[NONZERO] * n)))),
        layout=data.draw(st.sampled_from([None, "nchw", "nhwc"])),
    )
    assert parse_preprocess(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "sise=2x2",
            "the preprocess spec `sise=2x2` has an unknown key `sise`",
            f"write `size`; the keys are {KEYS}",
        ),
        ("q=1", "the preprocess spec `q=1` has an unknown key `q`", f"use one of the keys: {KEYS}"),
        ("", "the preprocess spec `` has an unknown key ``", f"use one of the keys: {KEYS}"),
        ("scale=1,", "the preprocess spec `scale=1,` has an unknown key ``", f"use one of the keys: {KEYS}"),
        ("scale", "the preprocess spec `scale` has no value for `scale`", "write `scale=VALUE`"),
        ("scale= ", "the preprocess spec `scale= ` has no value for `scale`", "write `scale=VALUE`"),
        ("std=1,std=2", "the preprocess spec `std=1,std=2` has `std` twice", "remove one of the two"),
        (
            "size=224",
            "the preprocess spec's `size` cannot be `224`",
            "write HEIGHTxWIDTH in pixels, such as 224x224",
        ),
        (
            "size=0x3",
            "the preprocess spec's `size` cannot be `0x3`",
            "write HEIGHTxWIDTH in pixels, such as 224x224",
        ),
        (
            "size=-1x3",
            "the preprocess spec's `size` cannot be `-1x3`",
            "write HEIGHTxWIDTH in pixels, such as 224x224",
        ),
        ("resize=strech", "the preprocess spec's `resize` cannot be `strech`", "write `stretch`"),
        ("color=RGB", "the preprocess spec's `color` cannot be `RGB`", "write one of rgb, bgr, gray"),
        ("layout=nchv", "the preprocess spec's `layout` cannot be `nchv`", "write `nchw`"),
        (
            "scale=one",
            "the preprocess spec's `scale` cannot be `one`",
            "write a number such as 0.5, or a fraction such as 1/255",
        ),
        (
            "scale=1/0",
            "the preprocess spec's `scale` cannot be `1/0`",
            "write a number such as 0.5, or a fraction such as 1/255",
        ),
        (
            "scale=0",
            "the preprocess spec's `scale` cannot be `0`",
            "write a number other than 0, such as 1/255",
        ),
        (
            "mean=0.5:nan",
            "the preprocess spec's `mean` cannot be `nan`",
            "write a number such as 0.5, or a fraction such as 1/255",
        ),
        (
            "mean=1e999",
            "the preprocess spec's `mean` cannot be `1e999`",
            "write a number such as 0.5, or a fraction such as 1/255",
        ),
        (
            "std=1:0:1",
            "the preprocess spec's `std` cannot be `0`",
            "write a number other than 0, such as 1/255",
        ),
        (
            "mean=1:2",
            "the preprocess spec gives `mean` 2 values, and color=rgb has 3 channels",
            "give one value, or one a channel: 3",
        ),
        (
            "color=gray,std=1:2:3",
            "the preprocess spec gives `std` 3 values, and color=gray has 1 channel",
            "give one value, or one a channel: 1",
        ),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str, hint: str) -> None:
    """The key, the value, and the nearest that would do."""
    with pytest.raises(UsageError) as caught:
        parse_preprocess(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)

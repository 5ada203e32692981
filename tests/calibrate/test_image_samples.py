"""Images become feeds by the stated formula, in the stated order of channels and dimensions."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from infer_opt.calibrate.samples import InputSpec, load_samples
from infer_opt.errors import InputError, UsageError

NCHW = InputSpec("image", np.dtype("f4"), ("n", 3, 4, 6))
IMAGENET = "size=224x224,scale=1/255,mean=0.485:0.456:0.406,std=0.229:0.224:0.225"
SUFFIXES = ("png", "jpg", "jpeg", "bmp", "webp")


def picture(height: int, width: int, channels: int = 3) -> np.ndarray:
    """Random pixels, the same at every call."""
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), np.uint8)


def folder_of(tmp_path: Path, **pictures: np.ndarray) -> str:
    """A folder with a PNG for each array."""
    for name, pixels in pictures.items():
        Image.fromarray(pixels.squeeze()).save(tmp_path / f"{name}.png")
    return str(tmp_path)


def fed(source: str, spec: InputSpec, preprocess: str) -> np.ndarray:
    """The first feed's array."""
    return next(iter(load_samples(source, [spec], preprocess=preprocess)))[spec.name]


def test_the_formula(tmp_path: Path) -> None:
    """(pixel * scale - mean) / std for each channel, to float32 rounding."""
    pixels = picture(4, 6)
    spec = "size=4x6,scale=1/255,mean=0.485:0.456:0.406,std=0.229:0.224:0.225"
    array = fed(folder_of(tmp_path, a=pixels), NCHW, spec)
    wanted = (pixels / 255.0 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    assert array.dtype == np.float32
    assert array.flags.c_contiguous
    np.testing.assert_allclose(array, wanted.transpose(2, 0, 1)[None], rtol=0, atol=2e-6)


def test_orders_of_channels_and_dimensions(tmp_path: Path) -> None:
    """Mean and std go with the channels as fed; the layout is deduced or stated."""
    pixels = picture(4, 6)
    source = folder_of(tmp_path, a=pixels)
    nhwc = InputSpec("image", np.dtype("f4"), ("n", 4, 6, 3))
    np.testing.assert_array_equal(fed(source, nhwc, "scale=1"), pixels[None])
    np.testing.assert_array_equal(fed(source, nhwc, "color=bgr,mean=1:2:3"), pixels[None, :, :, ::-1] - [1.0, 2, 3])
    np.testing.assert_array_equal(fed(source, NCHW, "color=bgr"), pixels[None, :, :, ::-1].transpose(0, 3, 1, 2))
    unknown = InputSpec("image", np.dtype("f4"), None)
    np.testing.assert_array_equal(fed(source, unknown, "size=4x6,layout=nhwc"), pixels[None])
    ambiguous = InputSpec("image", np.dtype("f4"), (1, 3, 6, 1))
    stated = fed(source, ambiguous, "size=3x6,color=gray,layout=nhwc")
    np.testing.assert_array_equal(stated, fed(source, ambiguous, "size=3x6,color=gray"))
    assert stated.shape == (1, 3, 6, 1)


def test_gray(tmp_path: Path) -> None:
    """Gray files become colour by repeating, colour becomes gray by ITU-R 601 luma to 1 of 255."""
    gray, pixels = picture(4, 6, 1), picture(4, 6)
    one = InputSpec("image", np.dtype("f4"), (1, 1, 4, 6))
    source = folder_of(tmp_path, a=gray, b=pixels)
    np.testing.assert_array_equal(fed(source, one, "color=gray")[0, 0], gray[..., 0])
    np.testing.assert_array_equal(fed(source, NCHW, "color=rgb")[0], np.repeat(gray.transpose(2, 0, 1), 3, axis=0))
    luma = list(load_samples(source, [one], preprocess="color=gray"))[1]["image"][0, 0]
    np.testing.assert_allclose(luma, pixels @ [0.299, 0.587, 0.114], atol=1)


def test_element_types(tmp_path: Path) -> None:
    """uint8 inputs take raw pixels whatever the spec says of scale; float16 is rounded last."""
    pixels = picture(4, 6)
    source = folder_of(tmp_path, a=pixels)
    raw = fed(source, InputSpec("image", np.dtype("u1"), (1, 3, 4, 6)), "scale=1/255,mean=3,std=2")
    assert raw.dtype == np.uint8
    np.testing.assert_array_equal(raw[0], pixels.transpose(2, 0, 1))
    half = fed(source, InputSpec("image", np.dtype("f2"), (1, 3, 4, 6)), "scale=1/255")
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, fed(source, NCHW, "scale=1/255").astype(np.float16))


def bands(height: int, width: int) -> np.ndarray:
    """Left third red, middle third green, right third blue."""
    pixels = np.zeros((height, width, 3), np.uint8)
    third = width // 3
    for channel in range(3):
        pixels[:, channel * third : (channel + 1) * third, channel] = 255
    return pixels


def test_stretch_keeps_all_of_the_image(tmp_path: Path) -> None:
    """A wide image in a square has its three bands, narrower."""
    array = fed(folder_of(tmp_path, a=bands(20, 60)), NCHW, "size=4x6")[0]
    np.testing.assert_array_equal(array.argmax(axis=0), [[0, 0, 1, 1, 2, 2]] * 4)


def test_crop_keeps_the_middle(tmp_path: Path) -> None:
    """A wide image in a square shows its middle third alone."""
    square = InputSpec("image", np.dtype("f4"), (1, 3, 4, 4))
    array = fed(folder_of(tmp_path, a=bands(20, 60)), square, "resize=crop")[0]
    np.testing.assert_array_equal(array.argmax(axis=0), np.ones((4, 4)))
    np.testing.assert_array_equal(array[1, :, 1:3], 255)  # at its rim the filter reaches into the other bands


def test_pad_keeps_all_and_fills_with_gray_114(tmp_path: Path) -> None:
    """A wide image in a square has a rim above and below; gray images too."""
    square = InputSpec("image", np.dtype("f4"), (1, 3, 12, 12))
    source = folder_of(tmp_path, a=bands(20, 60))
    array = fed(source, square, "resize=pad")[0]
    np.testing.assert_array_equal(array[:, [0, 1, 2, 3, 8, 9, 10, 11]], 114)
    np.testing.assert_array_equal(array[:, 4:8].argmax(axis=0), [[0] * 4 + [1] * 4 + [2] * 4] * 4)
    gray = fed(source, InputSpec("image", np.dtype("f4"), (1, 1, 12, 12)), "resize=pad,color=gray")
    np.testing.assert_array_equal(gray[0, 0, :4], 114)


def test_an_image_is_turned_upright(tmp_path: Path) -> None:
    """EXIF orientation 6 of a camera held upright: turned by 90 degrees clockwise."""
    pixels = picture(6, 4)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(fed(str(tmp_path), NCHW, "size=4x6")[0].transpose(1, 2, 0), np.rot90(pixels, -1))


def test_every_suffix_and_mode_is_read(tmp_path: Path) -> None:
    """All five kinds of file in any case, and palettes, transparency and CMYK as colours."""
    for index, suffix in enumerate(SUFFIXES):
        Image.new("RGB", (6, 4), (200, 200, 200)).save(tmp_path / f"{index}.{suffix}")
    Image.new("RGB", (6, 4), (200, 200, 200)).save(tmp_path / "5.JPG")
    for index, mode in enumerate(("P", "RGBA", "LA"), start=6):
        Image.new("RGB", (6, 4), (200, 200, 200)).convert(mode).save(tmp_path / f"{index}.png")
    Image.new("RGB", (6, 4), (200, 200, 200)).convert("CMYK").save(tmp_path / "9.jpg")
    (tmp_path / ".DS_Store").touch()
    samples = load_samples(str(tmp_path), [NCHW], preprocess="scale=1")
    assert len(samples) == 10
    assert samples.describe(0) == str(tmp_path / "0.png")
    for feed in samples:
        np.testing.assert_allclose(feed["image"], np.full((1, 3, 4, 6), 200), atol=8)  # palette and JPEG steps


def test_a_fixed_batch_takes_as_many_images(tmp_path: Path) -> None:
    """In the order of names; a remainder is an error."""
    batch = InputSpec("image", np.dtype("f4"), (2, 3, 4, 6))
    source = folder_of(tmp_path, **{name: np.full((4, 6, 3), i, np.uint8) for i, name in enumerate("abcd")})
    samples = load_samples(source, [batch], preprocess="scale=1")
    assert [feed["image"][:, 0, 0, 0].tolist() for feed in samples] == [[0, 1], [2, 3]]
    assert [feed["image"][0, 0, 0, 0] for feed in samples.feeds(1, 2)] == [2]
    assert samples.describe(1) == f"{tmp_path / 'c.png'} to d.png"
    (tmp_path / "d.png").unlink()
    with pytest.raises(InputError) as caught:
        load_samples(source, [batch], preprocess="scale=1")
    assert caught.value.message == f"`{source}` has 3 images, which is no multiple of the model's batch of 2"
    assert caught.value.hint == "remove 1 or export the model with a dynamic batch"


def test_the_digest_covers_names_and_bytes(tmp_path: Path) -> None:
    """It is that of the listing `sha256sum *` prints."""
    source = folder_of(tmp_path, b=picture(4, 6), a=picture(2, 2))
    lines = "".join(
        f"{hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()}  {name}\n" for name in ("a.png", "b.png")
    )
    samples = load_samples(source, [NCHW], preprocess="scale=1")
    assert samples.sha256 == hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize(
    ("shape", "preprocess", "message", "hint"),
    [
        (
            (1, 3, 4, 6),
            None,
            "`FOLDER` holds images, and no preprocess spec says how to feed them",
            f"pass one with --preprocess, such as `{IMAGENET}`",
        ),
        (
            (1, 3, "h", 6),
            "scale=1",
            "the preprocess spec has no size, and the input `image` leaves it open: [1, 3, h, 6]",
            "add size=HEIGHTxWIDTH to it",
        ),
        (
            (1, 3, "h", 6),
            "size=6x4",
            "the preprocess spec has size=6x4, and the input `image` wants [1, 3, h, 6] (nchw)",
            "leave size out to take the model's",
        ),
        (
            (1, None, 4, 6),
            "scale=1",
            "the layout of the input `image` cannot be deduced from its shape [1, ?, 4, 6]",
            "add layout=nchw or layout=nhwc to the preprocess spec",
        ),
        (
            (1, 3, 4, 3),
            "scale=1",
            "the layout of the input `image` cannot be deduced from its shape [1, 3, 4, 3]",
            "add layout=nchw or layout=nhwc to the preprocess spec",
        ),
        (
            (1, 1, 4, 6),
            "color=bgr",
            "the input `image` has 1 in place of the channels of color=bgr: [1, 1, 4, 6], nchw",
            "pass color=gray for 1 channel, color=rgb or bgr for 3, or another layout",
        ),
        (
            (1, 4, 6, 3),
            "color=gray",
            "the input `image` has 3 in place of the channels of color=gray: [1, 4, 6, 3], nhwc",
            "pass color=gray for 1 channel, color=rgb or bgr for 3, or another layout",
        ),
    ],
)
def test_a_spec_that_does_not_fit_is_named(
    tmp_path: Path, shape: tuple[int | str | None, ...], preprocess: str | None, message: str, hint: str
) -> None:
    """The spec's part, the input and its shape."""
    source = folder_of(tmp_path, a=picture(4, 6))
    with pytest.raises(UsageError) as caught:
        load_samples(source, [InputSpec("image", np.dtype("f4"), shape)], preprocess=preprocess)
    assert (caught.value.message.replace(source, "FOLDER"), caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("inputs", "message", "hint"),
    [
        (
            [NCHW, InputSpec("scale", np.dtype("f4"), ())],
            "`FOLDER` holds images, and the model has 2 inputs: `image`, `scale`",
            "save a .npz keyed by input name with `numpy.savez`",
        ),
        (
            [InputSpec("x", np.dtype("f4"), (3, 4, 6))],
            "`FOLDER` holds images, and the input `x` has rank 3, not 4",
            "save the samples as a .npz",
        ),
        (
            [InputSpec("x", np.dtype("i1"), (1, 3, 4, 6))],
            "`FOLDER` holds images, and the input `x` is int8, neither float nor uint8",
            "save the samples as a .npz",
        ),
    ],
)
def test_a_model_that_takes_no_images_is_named(
    tmp_path: Path, inputs: list[InputSpec], message: str, hint: str
) -> None:
    """Images feed one input of rank 4, float or uint8."""
    source = folder_of(tmp_path, a=picture(4, 6))
    with pytest.raises(InputError) as caught:
        load_samples(source, inputs, preprocess="scale=1")
    assert (caught.value.message.replace(source, "FOLDER"), caught.value.hint) == (message, hint)


def test_images_that_would_be_read_wrongly_are_errors(tmp_path: Path) -> None:
    """16 bits would be clipped to white, and of an animation only a frame would be seen."""
    Image.fromarray(np.full((4, 6), 3000, np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(InputError) as caught:
        fed(str(tmp_path), NCHW, "scale=1")
    assert caught.value.message == f"`{tmp_path / 'a.png'}` has pixels of more than 8 bits (mode I;16)"
    assert caught.value.hint == "save it with 8 bits a channel"
    frames = [Image.new("RGB", (6, 4), (i, i, i)) for i in (0, 200)]
    frames[0].save(tmp_path / "a.png", save_all=True, append_images=frames[1:])
    with pytest.raises(InputError) as caught:
        fed(str(tmp_path), NCHW, "scale=1")
    assert caught.value.message == f"`{tmp_path / 'a.png'}` is animated, with 2 frames"
    assert caught.value.hint == "save the frame you mean as an image"


@pytest.mark.parametrize("keep", [0, 20, 0.5, 0.99])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_damaged_image_is_named(tmp_path: Path, suffix: str, keep: float) -> None:
    """Cut anywhere, in any format; never half an image."""
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(picture(64, 64)).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: keep if isinstance(keep, int) else int(len(data) * keep)])
    with pytest.raises(InputError) as caught:
        fed(str(tmp_path), NCHW, "scale=1")
    assert caught.value.message.startswith(f"`{path}` cannot be read as an image: ")
    assert "\n" not in caught.value.message
    assert caught.value.hint == "replace or remove it"


def test_an_image_that_would_fill_the_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow's limit against decompression bombs is an error like any other."""
    source = folder_of(tmp_path, a=picture(4, 6))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(InputError, match=r"a\.png` cannot be read as an image: Image size \(24 pixels\)"):
        fed(source, NCHW, "scale=1")


def test_without_pillow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that installs it, before any image is looked at."""
    source = folder_of(tmp_path, a=picture(4, 6))
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(InputError) as caught:
        load_samples(source, [NCHW], preprocess="scale=1")
    assert caught.value.message == f"`{source}` holds images, and Pillow, which reads them, is not installed"
    assert caught.value.hint == "install it with `pip install 'infer-opt[images]'`"

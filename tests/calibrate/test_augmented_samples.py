"""Samples followed by their changed forms: in which order, under which names, and for which models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infer_opt.calibrate.augment import Blur, Noise, augmented, parse
from infer_opt.calibrate.augmented_samples import augmented_samples
from infer_opt.calibrate.sample_set import Feed, InputSpec
from infer_opt.errors import InputError
from tests.targets.networks import Feeds


def pixels(*shape: int, seed: int) -> np.ndarray[Any, Any]:
    """From 0 to 1."""
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


IMAGE = InputSpec("x", np.dtype(np.float32), (1, 3, 16, 16))


@pytest.mark.parametrize(("start", "stop"), [(0, 9), (0, 0), (1, 2), (2, 7), (3, 6), (8, 9)])
def test_every_sample_is_followed_by_its_forms(start: int, stop: int) -> None:
    """A part of the set gives the same feeds as the whole, with the names of the clean samples."""
    feeds: list[Feed] = [{"x": pixels(1, 3, 16, 16, seed=seed)} for seed in range(3)]
    samples = augmented_samples(Feeds(feeds), [IMAGE], parse("noise,blur"), 7)
    expected = [
        form
        for index, feed in enumerate(feeds)
        for form in (feed, *(augmented(feed, ["x"], each, 7, index) for each in (Noise(), Blur())))
    ]
    assert len(samples) == len(expected) == 9
    got = list(samples.feeds(start, stop))
    assert len(got) == stop - start
    for one, other in zip(got, expected[start:stop], strict=True):
        np.testing.assert_array_equal(one["x"], other["x"])
    names = [samples.describe(index) for index in (3, 4, 5)]
    assert names == ["memory sample 1", "memory sample 1 with noise", "memory sample 1 with blur"]


def test_no_change_is_the_set_itself() -> None:
    """Nothing is wrapped."""
    feeds = Feeds([])
    assert augmented_samples(feeds, [], (), 0) is feeds


def test_a_model_without_images_cannot_be_augmented() -> None:
    """The inputs that it has are named."""
    with pytest.raises(InputError) as caught:
        augmented_samples(Feeds([]), [InputSpec("ids", np.dtype(np.int64), (1, 8))], parse("noise"), 0)
    assert caught.value.message == "--augment changes images, and the model takes none; its inputs are `ids`"
    assert caught.value.hint == "leave --augment out, and add samples such as the device will see"

"""Random samples have the declared shapes and types, and depend on nothing but the seed."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from infer_opt.calibrate.samples import InputSpec, load_samples
from infer_opt.errors import InputError, UsageError

FLOATS = InputSpec("floats", np.dtype("f4"), ("batch", 3, "length", None))
IDS = InputSpec("ids", np.dtype("i8"), (None, "length"))


def test_dimensions() -> None:
    """Fixed ones stay; free ones are 1 for dimension 0, 64 in images, 16 elsewhere; a symbol is the same everywhere."""
    turned = InputSpec("turned", np.dtype("f4"), ("length", "batch", 2))
    scalar = InputSpec("scalar", np.dtype("f4"), ())
    samples = load_samples("random", [FLOATS, IDS, turned, scalar])
    assert len(samples) == 8
    for feed in samples:
        # `length` is dimension 0 of `turned`, so it is 1 in all three.
        assert [feed[n].shape for n in ("floats", "ids", "turned", "scalar")] == [
            (1, 3, 1, 64),
            (1, 1),
            (1, 1, 2),
            (),
        ]
    [first, *_] = load_samples("random", [FLOATS, IDS])
    assert (first["floats"].shape, first["ids"].shape) == ((1, 3, 64, 64), (1, 64))
    sentence = InputSpec("ids", np.dtype("i8"), ("batch", "words"))
    assert next(iter(load_samples("random", [sentence])))["ids"].shape == (1, 16)


def test_values() -> None:
    """Floats are standard normal (4 standard errors of 64,000 values), integers 0 and 1, bools both."""
    names = ["f2", "f4", "f8", "i8", "i4", "u1", "?"]
    inputs = [InputSpec(name, np.dtype(name), (1, 8000)) for name in names]
    inputs.append(InputSpec("bf", np.dtype(ml_dtypes.bfloat16), (1, 8000)))
    feeds = list(load_samples("random", inputs))
    for spec in inputs:
        values = np.stack([feed[spec.name] for feed in feeds])
        assert values.dtype == spec.dtype
        numbers = values.astype(np.float64)
        if spec.name in ("f2", "f4", "f8", "bf"):
            assert abs(numbers.mean()) < 4 / np.sqrt(64_000)
            assert abs(numbers.std() - 1) < 4 / np.sqrt(2 * 64_000)
        else:
            assert set(np.unique(numbers)) == {0, 1}
            assert abs(numbers.mean() - 0.5) < 4 * 0.5 / np.sqrt(64_000)


def test_the_seed_decides() -> None:
    """Equal seeds give equal feeds in any slice; other seeds and other samples give other feeds."""
    samples = load_samples("random", [FLOATS], seed=3)
    feeds = [feed["floats"] for feed in samples]
    again = load_samples("random", [FLOATS], seed=3)
    np.testing.assert_array_equal([feed["floats"] for feed in again.feeds(2, 5)], feeds[2:5])
    other = next(iter(load_samples("random", [FLOATS], seed=4)))["floats"]
    assert not np.array_equal(other, feeds[0])
    assert not np.array_equal(feeds[1], feeds[0])


def test_names() -> None:
    """There is no data, so no digest."""
    samples = load_samples("random", [FLOATS])
    assert samples.source == "random"
    assert samples.describe(3) == "random sample 3"
    assert samples.sha256 is None


def test_an_unknown_rank_is_an_error() -> None:
    """No shape is made up."""
    with pytest.raises(InputError) as caught:
        load_samples("random", [InputSpec("x", np.dtype("f4"), None)])
    assert caught.value.message == "the rank of the input `x` is unknown, so no random samples can be made"
    assert caught.value.hint == "pass real samples, or export the model with shapes"


def test_a_type_without_random_values_is_an_error() -> None:
    """Complex numbers are neither normal nor 0 or 1."""
    with pytest.raises(InputError) as caught:
        load_samples("random", [InputSpec("x", np.dtype("c8"), (1,))])
    assert caught.value.message == "the input `x` is complex64, for which no random samples can be made"
    assert caught.value.hint == "pass real samples"


def test_a_negative_seed_is_an_error() -> None:
    """NumPy's generators take none."""
    with pytest.raises(UsageError) as caught:
        load_samples("random", [FLOATS], seed=-1)
    assert (caught.value.message, caught.value.hint) == ("the seed `-1` is negative", "pass 0 or more")

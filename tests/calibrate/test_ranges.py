"""Range methods against published optima, raw data and plain-loop references."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from infer_opt.calibrate.quantization import Format, from_range
from infer_opt.calibrate.ranges import (
    METHODS,
    Entropy,
    MeanSquaredError,
    MinMax,
    Percentile,
    RangeMethod,
    _divergences,
)
from infer_opt.calibrate.sketch import Sketch
from infer_opt.errors import UsageError

UINT8 = Format("uint8", symmetric=False)
INT8 = Format("int8", symmetric=True)
INT4 = Format("int4", symmetric=True)
UINT4 = Format("uint4", symmetric=False)
INT16 = Format("int16", symmetric=True)
FORMATS = [UINT8, INT8, Format("int8", symmetric=True, narrow=True, bits=7), INT4, UINT4, INT16]

METHOD_VALUES = [kind() for kind in METHODS.values()]
methods = pytest.mark.parametrize("method", METHOD_VALUES, ids=lambda method: method.name)
formats = pytest.mark.parametrize("form", FORMATS, ids=str)

Sampler = Callable[[np.random.Generator, int], np.ndarray]
DISTRIBUTIONS: dict[str, Sampler] = {
    "gaussian": lambda rng, n: rng.standard_normal(n),
    "laplace": lambda rng, n: rng.laplace(size=n),
    "relu": lambda rng, n: np.maximum(rng.standard_normal(n), 0),
    "student": lambda rng, n: rng.standard_t(3, n),
    "heavy": lambda rng, n: rng.standard_t(2.2, n),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "sparse": lambda rng, n: rng.standard_normal(n) * np.where(rng.random(n) < 0.02, 10, 0.01),
    "shifted": lambda rng, n: rng.normal(5, 1, n),
    "scores": lambda rng, n: 1 / (1 + np.exp(-rng.normal(-6, 2, n))),
    "negative": lambda rng, n: -rng.gamma(2, size=n),
}


def draw(name: str, count: int = 1 << 16) -> np.ndarray:
    """Elements of a distribution, float32."""
    return DISTRIBUTIONS[name](np.random.default_rng(0), count).astype(np.float32)


def sketch_of(values: np.ndarray) -> Sketch:
    """The sketch of one whole tensor."""
    finite = values[np.isfinite(values)]
    sketch = Sketch()
    sketch.observe(values, finite.min(initial=np.inf), finite.max(initial=-np.inf))
    return sketch


def noise(values: np.ndarray, low: float, high: float, form: Format) -> float:
    """Mean squared error of the raw values quantized in that range."""
    return float(np.mean((from_range(low, high, form).fake(values) - values) ** 2, dtype=np.float64))


def test_methods_are_found_by_their_names() -> None:
    """The table's keys are the names that a pipeline's text uses."""
    assert {key: kind.name for key, kind in METHODS.items()} == {key: key for key in METHODS}
    assert list(METHODS) == ["minmax", "percentile", "entropy", "mse"]


def test_min_max_is_the_exact_extremes_with_zero() -> None:
    """It sees the outlier that the subsample misses, and never loses 0."""
    sketch = Sketch()
    sketch.observe(np.array([1.0, 2.0], np.float32), 0.5, 700.0)
    assert MinMax().range(sketch, UINT8) == (0.0, 700.0)


@pytest.mark.parametrize("percentile", [90.0, 99.0, 99.9])
@pytest.mark.parametrize("name", ["gaussian", "laplace", "shifted", "relu", "negative"])
def test_percentile_is_that_of_the_raw_data(name: str, percentile: float) -> None:
    """Within one bin width of numpy.percentile: two-sided tails, and magnitudes for a symmetric format."""
    values = draw(name)
    sketch = sketch_of(values)
    method, tail = Percentile(percentile), (100 - percentile) / 2
    expected = (min(0.0, np.percentile(values, tail)), max(0.0, np.percentile(values, 100 - tail)))
    np.testing.assert_allclose(method.range(sketch, UINT8), expected, atol=sketch.bin_width())
    magnitude = np.percentile(np.abs(values), percentile)
    expected = (max(min(values.min(), 0.0), -magnitude), min(max(values.max(), 0.0), magnitude))
    np.testing.assert_allclose(method.range(sketch, INT8), expected, atol=sketch.bin_width())


def test_percentile_of_a_subsample_is_within_its_standard_error() -> None:
    """Four standard errors in probability, plus one bin, around the true quantile of a Gaussian."""
    sketch = sketch_of(draw("gaussian", 20_000))
    probability = 0.995
    margin = 4 * sketch.quantile_error(probability)
    low, high = stats.norm.ppf([probability - margin, probability + margin])
    found = Percentile(99.0).range(sketch, UINT8)[1]
    assert low - sketch.bin_width() < found < high + sketch.bin_width()


def test_percentile_of_100_clips_nothing() -> None:
    """It is min-max, also beyond the subsample."""
    sketch = Sketch()
    sketch.observe(np.array([-1.0, 2.0], np.float32), -30.0, 700.0)
    assert Percentile(100.0).range(sketch, UINT8) == (-30.0, 700.0)


def test_percentile_does_not_clip_a_nearly_empty_tensor_away() -> None:
    """Where fewer elements than the clipped share differ from 0, min-max is kept."""
    values = np.zeros(100_000, np.float32)
    values[:3] = 5.0
    for form in (UINT8, INT8):
        assert Percentile(99.9).range(sketch_of(values), form) == (0.0, 5.0)


@pytest.mark.parametrize("percentile", [0.0, -1.0, 100.5, math.nan])
def test_percentile_outside_its_range_is_refused(percentile: float) -> None:
    """The words name the value and the remedy."""
    with pytest.raises(UsageError, match=rf"^percentile `{percentile}` is outside \(0, 100\]$") as caught:
        Percentile(percentile)
    assert caught.value.hint == "give a percentage such as `99.99`"


@pytest.mark.parametrize(
    ("name", "alpha"),
    [("laplace", 5.03), ("gaussian", 2.55)],
)
@pytest.mark.parametrize("form", [INT4, UINT4], ids=str)
def test_squared_error_finds_the_published_clipping_of_four_bits(name: str, alpha: float, form: Format) -> None:
    """Banner et al. (ACIQ, 2018): 5.03 b for Laplace, 2.55 sigma for Gaussian data, within 8 %."""
    low, high = MeanSquaredError().range(sketch_of(draw(name, 1 << 20)), form)
    assert high == pytest.approx(alpha, rel=0.08)
    assert -low == pytest.approx(alpha, rel=0.08)


def best_noise(values: np.ndarray, form: Format) -> float:
    """Least error of the raw data over a grid of 1 % steps: one threshold, or each end in turn."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    grid = np.linspace(0.01, 1.0, 100)
    if form.symmetric:
        reach = max(-low, high) * grid
        return min(noise(values, max(low, -t), min(high, t), form) for t in reach)
    for _ in range(2):
        low = min(grid * low, key=lambda end: noise(values, end, high, form))
        high = min(grid * high, key=lambda end: noise(values, low, end, form))
    return noise(values, low, high, form)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("form", [UINT8, INT8, INT4, UINT4, INT16], ids=str)
def test_squared_error_is_near_the_best_range_of_the_raw_data(name: str, form: Format) -> None:
    """The real quantization error is within 3 % of the best that a fine grid of ranges reaches."""
    values = draw(name, 1 << 14)
    found = MeanSquaredError().range(sketch_of(values), form)
    assert noise(values, *found, form) <= 1.03 * best_noise(values, form)


def test_squared_error_does_not_count_exact_zeros_as_noise() -> None:
    """Nine tenths of zeros change nothing: they are exact in every range."""
    values = np.abs(draw("gaussian"))
    with_zeros = np.concatenate([values, np.zeros(9 * values.size, np.float32)])
    for form in (UINT8, INT4):
        expected = MeanSquaredError().range(sketch_of(values), form)
        assert MeanSquaredError().range(sketch_of(with_zeros), form) == expected


def divergence(counts: np.ndarray, size: int, levels: int) -> float:
    """KL(P || Q) of `size` bins as the talk describes it, in plain loops."""
    reference = counts[:size].astype(np.float64)
    reference[-1] += counts[size:].sum()
    quantized = np.zeros(size)
    for level in range(levels):
        members = [b for b in range(size) if b * levels // size == level and counts[b] > 0]
        for b in members:
            quantized[b] = sum(int(counts[m]) for m in members) / len(members)
    kept = quantized.sum()
    smoothed = (1 - 1e-4) * (quantized / kept if kept else quantized) + 1e-4 / size
    return float(
        stats.entropy(reference, np.where(reference > 0, smoothed, 0)) - math.log(smoothed[reference > 0].sum())
    )


@pytest.mark.parametrize("name", ["gaussian", "student", "lognormal", "shifted", "sparse"])
@pytest.mark.parametrize("levels", [8, 100])
def test_divergences_are_those_of_a_plain_reference(name: str, levels: int) -> None:
    """The running sums give scipy's divergence of distributions built bin by bin, within 1e-9."""
    counts = np.trim_zeros(np.add(*sketch_of(draw(name)).sides()), "b")
    candidates = np.array([levels, levels + 1, 3 * levels + 2, 444, counts.size - 1, counts.size])
    expected = [divergence(counts, size, levels) for size in candidates]
    np.testing.assert_allclose(_divergences(counts, candidates, levels), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "form", "levels"), [("gaussian", INT8, 128), ("student", UINT8, 128), ("relu", UINT8, 256)]
)
def test_entropy_takes_the_least_divergence(name: str, form: Format, levels: int) -> None:
    """Of every ninth threshold, none diverges 2 % less by the reference with as many levels."""
    sketch = sketch_of(draw(name))
    counts = np.trim_zeros(np.add(*sketch.sides()), "b")
    high = Entropy().range(sketch, form)[1]
    chosen = divergence(counts, math.ceil(high / sketch.bin_width()), levels)
    assert chosen <= 1.02 * min(divergence(counts, size, levels) for size in range(levels, counts.size + 1, 9))


def test_entropy_of_16_bits_clips_nothing() -> None:
    """More levels than bins leave nothing to judge."""
    values = draw("student")
    assert Entropy().range(sketch_of(values), INT16) == (values.min(), values.max())


@pytest.mark.parametrize("method", [Percentile(99.9), Entropy(), MeanSquaredError()], ids=lambda m: m.name)
@pytest.mark.parametrize("form", [UINT8, INT8, INT4], ids=str)
def test_heavy_tails_are_clipped(method: RangeMethod, form: Format) -> None:
    """At least a tenth of a Student distribution's range goes."""
    values = draw("student")
    low, high = method.range(sketch_of(values), form)
    assert high - low < 0.9 * (values.max() - values.min())


@methods
@pytest.mark.parametrize("form", [UINT8, INT8, INT4, UINT4, INT16], ids=str)
def test_uniform_data_is_not_clipped(method: RangeMethod, form: Format) -> None:
    """At most the half step goes that the outermost level covers anyway, or the percentile's own share."""
    values = np.random.default_rng(0).uniform(-1, 1, 1 << 17).astype(np.float32)
    low, high = method.range(sketch_of(values), form)
    half_step = float(form.step(-1, 1)) / 2
    assert min(-low, high) > 1 - half_step - 0.003


@methods
@formats
@pytest.mark.parametrize(
    "values",
    [
        [0.0],
        [3.0],
        [-3.0],
        [-5.0, -1.0, -2.0],
        [1e-45, -1e-45],
        [1e-40] * 50,
        [3.4e38, -3.4e38, 1.0],
        [-np.inf, 0.5, 1.0, np.nan],
        [np.nan, np.inf],
        [0.0, 0.0, 1.0],
    ],
    ids=str,
)
def test_degenerate_tensors_have_usable_ranges(method: RangeMethod, form: Format, values: list[float]) -> None:
    """Finite, around 0, inside the extremes, empty only for no or only zero values, and quantizable."""
    sketch = sketch_of(np.array(values, np.float32))
    low, high = method.range(sketch, form)
    check_range(low, high, sketch)
    assert np.isfinite(from_range(low, high, form).scale)


def check_range(low: float, high: float, sketch: Sketch) -> None:
    """What every method promises."""
    assert min(sketch.minimum, 0.0) <= low <= 0.0 <= high <= max(sketch.maximum, 0.0)
    assert math.isfinite(low)
    assert math.isfinite(high)
    assert (low < high) == (sketch.minimum < 0.0 or sketch.maximum > 0.0) or sketch.minimum > sketch.maximum
    assert str(low) != "-0.0"
    assert str(high) != "-0.0"


@methods
def test_padding_with_minus_infinity_does_not_widen_the_range(method: RangeMethod) -> None:
    """A border of -inf before a MaxPool leaves the range of the values it surrounds."""
    values = draw("relu")
    padded = np.pad(values, 1000, constant_values=-np.inf)
    for form in FORMATS:
        assert method.range(sketch_of(padded), form) == method.range(sketch_of(values), form)


@methods
def test_a_tensor_never_sampled_has_its_extremes(method: RangeMethod) -> None:
    """An empty subsample leaves only the exact extremes to go by."""
    sketch = Sketch()
    sketch.observe(np.zeros(0, np.float32), -2.0, 3.0)
    assert [method.range(sketch, form) for form in FORMATS] == [(-2.0, 3.0)] * len(FORMATS)


@given(
    arrays.arrays(np.float32, st.integers(0, 30), elements=st.floats(width=32)),
    st.sampled_from(METHOD_VALUES),
    st.sampled_from(FORMATS),
    st.floats(0, 1e30),
)
def test_ranges_lie_within_the_extremes(values: np.ndarray, method: RangeMethod, form: Format, more: float) -> None:
    """Low <= 0 <= high inside the extremes for any values, with an outlier that was not sampled."""
    finite = values[np.isfinite(values)]
    sketch = Sketch()
    if finite.size:
        sketch.observe(values, float(finite.min()), max(float(finite.max()), more))
    else:
        sketch.observe(values, math.inf, -math.inf)
    check_range(*method.range(sketch, form), sketch)


@methods
def test_a_method_takes_at_most_three_milliseconds_a_tensor(method: RangeMethod) -> None:
    """The best of 10 calls for the widest search, that of a one-sided and of a two-sided tensor."""
    for name, form in (("relu", UINT8), ("student", UINT8), ("student", INT8)):
        sketch, seconds = sketch_of(draw(name)), math.inf
        for _ in range(10):
            start = time.perf_counter()
            method.range(sketch, form)
            seconds = min(seconds, time.perf_counter() - start)
        assert seconds < 3e-3

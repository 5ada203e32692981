"""The sketch of a tensor: exact, independent of order, bounded."""

from __future__ import annotations

import io
import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from infer_opt.calibrate.sketch import BINS, Sketch

FLOAT32_MAX = float(np.finfo(np.float32).max)
DENORMAL = float(np.finfo(np.float32).smallest_subnormal)

tensors = arrays.arrays(np.float32, st.integers(0, 20), elements=st.floats(width=32))


def observe(sketch: Sketch, tensor: np.ndarray, sample: int | None = None) -> None:
    """Observe a whole tensor as its own subsample."""
    finite = tensor[np.isfinite(tensor)]
    sketch.observe(tensor, finite.min(initial=np.inf), finite.max(initial=-np.inf), sample=sample)


def sketch_of(*tensors: np.ndarray) -> Sketch:
    """The sketch of whole tensors, samples 0, 1, ..."""
    sketch = Sketch()
    for tensor in tensors:
        observe(sketch, np.asarray(tensor, np.float32))
    return sketch


def state(sketch: Sketch) -> dict[str, bytes]:
    """All bytes of a sketch, -0.0 and 0.0 being different."""
    return {name: array.tobytes() for name, array in sketch.to_arrays().items()}


@pytest.mark.parametrize("scale", [DENORMAL, 1e-30, 1.0, 3.7, 1e38])
def test_histogram_is_that_of_numpy(scale: float) -> None:
    """Counts equal numpy.histogram's over the sketch's own edges, also for denormal and huge values."""
    values = np.clip(np.random.default_rng(0).standard_normal(5000), -3, 3) * scale
    sketch = sketch_of(values)
    expected, _ = np.histogram(values.astype(np.float32).astype(np.float64), sketch.edges())
    np.testing.assert_array_equal(sketch.histogram, expected)
    assert sketch.histogram.sum() == sketch.count == 5000


def test_edges_are_symmetric_and_as_tight_as_a_power_of_two_allows() -> None:
    """The largest magnitude, 3, lies in the upper half of [0, 4); the bins are equally wide."""
    sketch = sketch_of(np.array([0.5, -3.0]))
    edges = sketch.edges()
    assert (edges[0], edges[-1], sketch.exponent) == (-4.0, 4.0, 2)
    np.testing.assert_array_equal(np.diff(edges), np.full(BINS, sketch.bin_width()))


@pytest.mark.parametrize("value", [2.0, -2.0])
def test_a_power_of_two_lies_inside_the_range(value: float) -> None:
    """A magnitude on the edge of a range takes the next one, on both sides alike."""
    sketch = sketch_of(np.array([value]))
    assert sketch.exponent == 2
    assert sketch.histogram[np.searchsorted(sketch.edges(), value, side="right") - 1] == 1


@given(st.lists(tensors, max_size=6).flatmap(lambda some: st.tuples(st.just(some), st.permutations(range(len(some))))))
def test_order_of_observations_does_not_matter(case: tuple[list[np.ndarray], list[int]]) -> None:
    """Any order of the samples gives the same bytes."""
    samples, order = case
    forward, shuffled = Sketch(), Sketch()
    for index in range(len(samples)):
        observe(forward, samples[index], index)
    for index in order:
        observe(shuffled, samples[index], index)
    assert state(forward) == state(shuffled)


@given(st.tuples(tensors, tensors, tensors))
def test_merge_is_associative_commutative_and_equal_to_one_pass(samples: tuple[np.ndarray, ...]) -> None:
    """(a + b) + c, a + (b + c), c + (b + a) and one sketch of all three are the same bytes."""

    def part(index: int) -> Sketch:
        sketch = Sketch()
        observe(sketch, samples[index], index)
        return sketch

    left, right, reverse = part(0), part(1), part(2)
    left.merge(part(1))
    left.merge(part(2))
    right.merge(part(2))
    nested = part(0)
    nested.merge(right)
    backward = part(1)
    backward.merge(part(0))
    reverse.merge(backward)
    assert state(left) == state(nested) == state(reverse) == state(sketch_of(*samples))


@given(tensors, st.integers(0, 20))
def test_histogram_does_not_depend_on_chunks(tensor: np.ndarray, cut: int) -> None:
    """A tensor in two observations gives the histogram of one observation."""
    whole, halves = sketch_of(tensor), sketch_of(tensor[:cut], tensor[cut:])
    np.testing.assert_array_equal(whole.histogram, halves.histogram)
    assert (whole.exponent, whole.zeros) == (halves.exponent, halves.zeros)


def test_merge_leaves_the_other_sketch_alone() -> None:
    """The argument of merge keeps its bytes and shares no memory with the result."""
    other, sketch = sketch_of(np.array([1.0])), sketch_of(np.array([100.0]))
    before = state(other)
    sketch.merge(other)
    observe(sketch, np.array([1.0], np.float32))
    assert state(other) == before


def test_non_finite_values_are_counted_and_left_out() -> None:
    """-inf padding changes neither extremes nor histogram."""
    sketch = sketch_of(np.array([-np.inf, 1.0, np.nan, np.inf, 2.0]))
    assert (sketch.count, sketch.nans, sketch.infinities) == (2, 1, 2)
    assert (sketch.minimum, sketch.maximum) == (1.0, 2.0)
    assert sketch.histogram.sum() == 2


def test_counts_of_the_whole_tensor_include_those_of_the_subsample() -> None:
    """The given count and the subsample's own are two views of the same elements: the larger one holds."""
    sketch = Sketch()
    sketch.observe(np.array([np.nan, np.inf, 1.0], np.float32), 1.0, 1.0, nans=7, infinities=0)
    assert (sketch.nans, sketch.infinities) == (7, 1)


def test_a_tensor_without_finite_elements() -> None:
    """It is a sample without extremes, and the widest sample stays unset."""
    sketch = sketch_of(np.array([np.nan, -np.inf]), np.array([]))
    assert (sketch.samples, sketch.count, sketch.widest_sample) == (2, 0, None)
    assert (sketch.minimum, sketch.maximum) == (math.inf, -math.inf)


def test_zeros_leave_the_range_open() -> None:
    """After only zeros k is unset; the first other value sets it and the zeros are kept."""
    sketch = sketch_of(np.zeros(10), np.array([-0.0]))
    assert sketch.exponent is None
    assert (sketch.count, sketch.zeros, sketch.histogram[BINS // 2]) == (11, 11, 11)
    np.testing.assert_array_equal(sketch.edges()[[0, -1]], [-1.0, 1.0])
    observe(sketch, np.array([1e-20], np.float32))
    assert sketch.histogram[BINS // 2] == 11
    assert sketch.edges()[-1] < 2e-20


def test_sides_are_magnitudes_without_zeros() -> None:
    """Both signs are counted by magnitude from 0 up, exact zeros in neither."""
    sketch = sketch_of(np.array([0.0, 0.0, 0.25, -0.25, -0.75, 0.999]))
    negative, positive = sketch.sides()
    width = sketch.bin_width()
    assert (negative.sum(), positive.sum()) == (2, 2)
    assert positive[int(0.25 / width)] == positive[int(0.999 / width)] == 1
    # A bin is closed at its lower end, so on the negative side at the end away from 0.
    assert negative[int(0.25 / width) - 1] == negative[int(0.75 / width) - 1] == 1


def test_denormals_next_to_huge_values_keep_their_sign() -> None:
    """The smallest negative value stays left of 0 in a range of 2**128."""
    sketch = sketch_of(np.array([-DENORMAL, DENORMAL, FLOAT32_MAX, -FLOAT32_MAX]))
    assert np.flatnonzero(sketch.histogram).tolist() == [0, BINS // 2 - 1, BINS // 2, BINS - 1]


def test_float64_beyond_float32_is_infinite() -> None:
    """Elements are taken as float32, and 1e300 is none."""
    sketch = Sketch()
    sketch.observe(np.array([1e300, 2.0]), 2.0, 2.0)
    assert (sketch.infinities, sketch.count) == (1, 1)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_widest_sample_is_the_first_of_the_largest_magnitude(order: tuple[int, ...]) -> None:
    """Samples 1 and 2 both reach magnitude 5: the result is 1 in every order."""
    samples = [np.array([4.0]), np.array([-5.0]), np.array([5.0])]
    merged = Sketch()
    for index in order:
        part = Sketch()
        observe(part, samples[index], index)
        merged.merge(part)
    assert merged.widest_sample == 1


def test_quantile_error_is_the_spread_of_sample_quantiles() -> None:
    """It equals the spread of the 90 % quantile over 2,000 samples of 400 uniform numbers, within 6 %."""
    rng = np.random.default_rng(1)
    sketch = sketch_of(rng.random(400))
    spread = np.quantile(rng.random((2000, 400)), 0.9, axis=1).std()
    assert sketch.quantile_error(0.9) == pytest.approx(spread, rel=0.06)
    assert Sketch().quantile_error(0.9) == math.inf


def test_arrays_round_trip_through_a_file() -> None:
    """What savez wrote makes the same sketch, also the empty one."""
    for sketch in (sketch_of(np.array([1.0, -300.0, np.nan])), Sketch()):
        file = io.BytesIO()
        np.savez(file, **sketch.to_arrays())
        file.seek(0)
        with np.load(file) as loaded:
            assert state(Sketch.from_arrays(dict(loaded))) == state(sketch)


def test_arrays_of_another_layout_are_refused() -> None:
    """A histogram of other bins or a missing array is an error, not a wrong sketch."""
    arrays_of = sketch_of(np.array([1.0])).to_arrays()
    with pytest.raises(ValueError, match=r"^histogram of shape \(8,\), not \(2048,\)$"):
        Sketch.from_arrays({**arrays_of, "histogram": np.zeros(8, np.int64)})
    del arrays_of["counts"]
    with pytest.raises(KeyError, match="counts"):
        Sketch.from_arrays(arrays_of)


@pytest.mark.parametrize(
    ("minimum", "maximum", "message"),
    [
        (-1.0, 2.0, r"subsample \[0.0, 3.0\] is outside the extremes \[-1.0, 2.0\]"),
        (0.5, 4.0, r"subsample \[0.0, 3.0\] is outside the extremes \[0.5, 4.0\]"),
        (-math.inf, 4.0, r"extremes \[-inf, 4.0\] are not a finite range of float32"),
        (-1.0, 1e39, r"extremes \[-1.0, inf\] are not a finite range of float32"),
        (math.nan, 4.0, r"extremes \[nan, 4.0\] are not a finite range of float32"),
        (4.0, -4.0, r"extremes \[4.0, -4.0\] are not a finite range of float32"),
    ],
)
def test_extremes_that_contradict_the_subsample_are_refused(minimum: float, maximum: float, message: str) -> None:
    """The sketch is left as it was."""
    sketch = Sketch()
    with pytest.raises(ValueError, match=f"^{message}$"):
        sketch.observe(np.array([0.0, 3.0], np.float32), minimum, maximum)
    assert state(sketch) == state(Sketch())


def test_probability_outside_the_unit_interval_is_refused() -> None:
    """A percentage given for a probability is an error."""
    with pytest.raises(ValueError, match=r"^probability 99.9 is outside \[0, 1\]$"):
        Sketch().quantile_error(99.9)


def test_an_observation_of_4096_elements_takes_under_100_microseconds() -> None:
    """The best of 300 calls; calibration makes one for each tensor and sample."""
    values = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    sketch = Sketch()
    seconds = math.inf
    for _ in range(300):
        start = time.perf_counter()
        sketch.observe(values, -10.0, 10.0)
        seconds = min(seconds, time.perf_counter() - start)
    assert seconds < 100e-6

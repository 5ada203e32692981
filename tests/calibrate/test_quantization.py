"""Scales and zero points, against onnxruntime's own operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from infer_opt.calibrate.quantization import Format, Quantization, from_range, from_weights

FLOAT32 = np.finfo(np.float32)
DTYPES = ["uint8", "int8", "uint16", "int16"]
ALL_DTYPES: list[Any] = [*DTYPES, "uint4", "int4"]

formats = st.builds(Format, st.sampled_from(ALL_DTYPES), st.booleans(), st.booleans())
reals = st.floats(width=32, allow_nan=False, allow_infinity=False)


def run_onnx(quantization: Quantization, values: np.ndarray, outputs: tuple[str, ...]) -> list[np.ndarray]:
    """`levels` and `real` of QuantizeLinear and DequantizeLinear in onnxruntime."""
    kind = getattr(TensorProto, quantization.format.dtype.upper())
    shape = list(quantization.scale.shape)
    axis = {} if quantization.axis is None else {"axis": quantization.axis}
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["levels"], **axis),
            helper.make_node("DequantizeLinear", ["levels", "scale", "zero"], ["real"], **axis),
        ],
        "quantize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, values.shape)],
        [
            helper.make_tensor_value_info(name, kind if name == "levels" else TensorProto.FLOAT, values.shape)
            for name in outputs
        ],
        [
            helper.make_tensor("scale", TensorProto.FLOAT, shape, quantization.scale.ravel().tolist()),
            helper.make_tensor("zero", kind, shape, quantization.zero_point.ravel().tolist()),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(list(outputs), {"x": values})


def probe(quantization: Quantization) -> np.ndarray:
    """Ties, saturation on both sides, infinities and random values, for three channels of axis 1."""
    lowest, highest = quantization.format.limits()
    ties = np.concatenate([np.arange(-40, 40) + 0.5, [lowest - 9.5, highest + 9.5, lowest - 0.5, highest + 0.5]])
    spread = np.random.default_rng(0).uniform(lowest * 1.5 - 5, highest * 1.5 + 5, 2000)
    steps = np.concatenate([ties, spread, [np.inf, -np.inf, 0.0, -0.0]]).astype(np.float32)
    values = np.repeat(steps[:, None], 3, axis=1)
    return values * quantization.scale


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("per_channel", [False, True])
def test_levels_and_reals_are_those_of_onnxruntime(dtype: Any, per_channel: bool) -> None:  # noqa: FBT001
    """Bit for bit, with ties, saturation and infinities, per tensor and per axis."""
    form = Format(dtype, symmetric=False)
    scales, zeros = np.array([0.037, 0.5, 1.7], np.float32), np.array([0, 3, 100], form.storage())
    each = Quantization(form, scales, zeros, 1) if per_channel else Quantization(form, scales[1, ...], zeros[1, ...])
    values = probe(each)
    levels, real = run_onnx(each, values, ("levels", "real"))
    np.testing.assert_array_equal(each.quantize(values), levels, strict=True)
    np.testing.assert_array_equal(each.dequantize(levels), real, strict=True)
    np.testing.assert_array_equal(each.fake(values), real, strict=True)


@pytest.mark.parametrize("dtype", ["uint4", "int4"])
def test_four_bit_values_are_those_of_onnxruntime(dtype: Any) -> None:
    """Quantized and back, bit for bit."""
    form = Format(dtype, symmetric=False)
    each = Quantization(form, np.array([0.5, 0.037, 1.7], np.float32), np.array([0, 3, 5], form.storage()), 1)
    values = probe(each)[:-4]  # without infinities, which onnxruntime 1.23 casts to 4 bits undefined
    np.testing.assert_array_equal(each.fake(values), run_onnx(each, values, ("real",))[0], strict=True)


def test_half_way_values_round_to_even() -> None:
    """0.5, 1.5, 2.5 steps are levels 0, 2, 2 (ONNX QuantizeLinear), and NaN is the lowest level."""
    each = Quantization(Format("int8", symmetric=True), np.array(1, np.float32), np.array(0, np.int8))
    assert each.quantize(np.array([0.5, 1.5, 2.5, -0.5, -1.5, np.nan])).tolist() == [0, 2, 2, 0, -2, -128]


@pytest.mark.parametrize(
    ("form", "limits", "middle"),
    [
        (Format("uint8", symmetric=False), (0, 255), 128),
        (Format("int8", symmetric=True), (-128, 127), 0),
        (Format("int8", symmetric=True, narrow=True), (-127, 127), 0),
        (Format("uint8", symmetric=True, narrow=True), (1, 255), 128),
        (Format("uint8", symmetric=False, bits=7), (0, 127), 64),
        (Format("int8", symmetric=True, bits=7), (-64, 63), 0),
        (Format("int8", symmetric=True, narrow=True, bits=7), (-63, 63), 0),
        (Format("uint16", symmetric=True), (0, 65535), 32768),
        (Format("int16", symmetric=True), (-32768, 32767), 0),
        (Format("int4", symmetric=True), (-8, 7), 0),
        (Format("uint4", symmetric=True), (0, 15), 8),
    ],
)
def test_limits_of_formats(form: Format, limits: tuple[int, int], middle: int) -> None:
    """The published levels of each type, full, narrow and reduced, and the symmetric zero point."""
    assert (form.limits(), form.middle()) == (limits, middle)
    assert form.storage().itemsize == (2 if "16" in form.dtype else 1)
    assert form.storage().kind == ("i" if form.dtype.startswith("int") else "u")


def test_values_saturate_at_the_limits_of_the_format() -> None:
    """Seven bits stay within 64 levels of each sign even for values far outside."""
    each = from_range(-1.0, 1.0, Format("int8", symmetric=True, narrow=True, bits=7))
    assert each.quantize(np.array([-50.0, -1.0, 1.0, 50.0])).tolist() == [-63, -63, 63, 63]


@given(formats, reals, reals)
def test_ranges_keep_zero_exact_and_their_ends_within_half_a_step(form: Format, one: float, other: float) -> None:
    """Zero comes back as zero; the ends of the range come back at most half a step off."""
    low, high = sorted((one, other))
    each = from_range(low, high, form)
    scale = float(each.scale)
    assert FLOAT32.tiny <= scale < math.inf
    assert each.fake(np.zeros(1, np.float32)).tolist() == [0.0]
    assert np.isfinite(each.dequantize(np.array(form.limits()))).all()
    if max(-low, high) < FLOAT32.max / 4:
        ends = np.array([low, high])
        assert np.abs(each.fake(ends).astype(np.float64) - ends).max() <= scale * 0.501


@given(formats, reals, reals)
def test_symmetric_ranges_have_the_middle_as_zero_point(form: Format, one: float, other: float) -> None:
    """0 for signed types and half of the levels for unsigned ones, whatever the range."""
    each = from_range(min(one, other), max(one, other), form)
    if form.symmetric:
        assert int(each.zero_point) == form.middle()


@pytest.mark.parametrize(
    ("low", "high", "form", "scale", "zero_point"),
    [
        (-1.0, 3.0, Format("uint8", symmetric=False), 4 / 255, 64),
        (2.0, 5.1, Format("uint8", symmetric=False), 5.1 / 255, 0),
        (-5.1, -2.0, Format("int8", symmetric=False), 5.1 / 255, 127),
        (-1.0, 3.0, Format("int8", symmetric=True), 3 / 127, 0),
        (-3.0, 1.0, Format("int8", symmetric=True), 3 / 128, 0),
        (-3.0, 1.0, Format("int8", symmetric=True, narrow=True), 3 / 127, 0),
        (-3.0, 2.0, Format("uint8", symmetric=True), 3 / 128, 128),
        (0.0, 2.54, Format("uint8", symmetric=False, bits=7), 0.02, 0),
        (0.0, 0.0, Format("uint8", symmetric=False), 1.0, 0),
        (0.0, 1e-44, Format("uint8", symmetric=False), float(FLOAT32.tiny), 0),
        (0.0, math.inf, Format("uint8", symmetric=False), float(FLOAT32.max) / 256, 0),
        (-math.inf, math.inf, Format("int8", symmetric=True), float(FLOAT32.max) / 256, 0),
    ],
)
def test_scale_and_zero_point_of_ranges(low: float, high: float, form: Format, scale: float, zero_point: int) -> None:
    """Worked by hand from scale = width / steps and zero point = lowest - low / scale."""
    each = from_range(low, high, form)
    assert each.scale == np.float32(scale)
    assert each.zero_point == zero_point
    assert each.axis is None


@pytest.mark.parametrize(("low", "high"), [(math.nan, 1.0), (0.0, math.nan), (1.0, -1.0)])
def test_what_is_no_range_is_refused(low: float, high: float) -> None:
    """NaN and reversed ends are errors, not a scale."""
    with pytest.raises(ValueError, match=r"^\[.*\] is not a range$"):
        from_range(low, high, Format("uint8", symmetric=False))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_weights_have_the_absolute_maximum_of_each_channel_on_the_highest_level(axis: int) -> None:
    """Level 127 is the channel's maximum, and no weight comes back more than half a step off."""
    weights = np.random.default_rng(0).standard_normal((5, 7, 3)).astype(np.float32)
    each = from_weights(weights, axis, Format("int8", symmetric=True, narrow=True))
    others = tuple(i for i in range(3) if i != axis % 3)
    assert each.axis == axis % 3
    np.testing.assert_allclose(each.scale * 127, np.abs(weights).max(others), rtol=1e-6)
    assert np.all(np.abs(each.quantize(weights)).max(others) == 127)
    step = np.expand_dims(each.scale, others)
    assert np.all(np.abs(each.fake(weights) - weights) <= 0.5001 * step)


def test_weights_of_one_axis_and_per_tensor() -> None:
    """A vector has one channel an element; without an axis there is one scale."""
    vector = np.array([0.5, -2.54], np.float32)
    form = Format("int8", symmetric=True, narrow=True)
    np.testing.assert_allclose(from_weights(vector, 0, form).scale * 127, [0.5, 2.54], rtol=1e-6)
    per_tensor = from_weights(vector, None, form)
    assert (per_tensor.scale.shape, per_tensor.axis) == ((), None)
    assert float(per_tensor.scale) == pytest.approx(0.02, rel=1e-6)


def test_all_zero_channels_come_back_as_zero_with_the_scale_of_the_others() -> None:
    """A pruned channel's bias keeps a step like that of its neighbours; an all-zero tensor has scale 1."""
    weights = np.array([[0, 0], [1.27, 0.1], [0.5, 0.2]], np.float32)
    form = Format("uint8", symmetric=True, narrow=True)
    each = from_weights(weights, 0, form)
    assert float(each.scale[0]) == float(each.scale[1]) == pytest.approx(0.01)
    assert each.fake(weights)[0].tolist() == [0.0, 0.0]
    assert from_weights(np.zeros((2, 3)), 0, form).scale.tolist() == [1.0, 1.0]
    assert from_weights(np.zeros((2, 0)), 0, form).scale.tolist() == [1.0, 1.0]


def test_minimum_scale_keeps_the_bias_of_tiny_weights_within_int32() -> None:
    """The documented floor, abs(bias) / (input scale * (2**31 - 1)), makes a bias of 0.7 fit."""
    weights = np.array([[1e-10, -3e-11], [0.5, 0.25]], np.float32)
    bias, input_scale = np.array([0.7, -0.7]), 0.02
    form = Format("int8", symmetric=True, narrow=True)
    assert abs(bias[0] / (input_scale * from_weights(weights, 0, form).scale[0])) > 2**31
    each = from_weights(weights, 0, form, minimum_scale=np.abs(bias) / (input_scale * (2**31 - 1)))
    assert np.all(np.abs(bias / (input_scale * each.scale.astype(np.float64))) < 2**31)
    assert float(each.scale[1]) == pytest.approx(0.5 / 127, rel=1e-6)


@pytest.mark.parametrize(
    ("weights", "axis", "symmetric", "message"),
    [
        ([1.0, math.nan], None, True, "weights hold NaN or infinite values"),
        ([1.0, math.inf], 0, True, "weights hold NaN or infinite values"),
        ([1.0, 2.0], 0, False, "weights need a symmetric format"),
        ([1.0, 2.0], 1, True, "axis 1 is out of bounds"),
    ],
)
def test_weights_without_a_quantization_are_refused(
    weights: list[float],
    axis: int | None,
    symmetric: bool,  # noqa: FBT001
    message: str,
) -> None:
    """Non-finite weights, an asymmetric format and a missing axis are errors."""
    with pytest.raises(ValueError, match=message):
        from_weights(np.array(weights), axis, Format("int8", symmetric=symmetric))


def test_equal_numbers_are_equal_and_hash_alike() -> None:
    """Equality is that of format, axis and every number."""
    form = Format("int8", symmetric=True)
    one, same = from_range(-1.0, 1.0, form), from_range(-1.0, 1.0, form)
    assert one == same
    assert len({one, same}) == 1
    assert one != from_range(-2.0, 2.0, form)
    assert one != from_range(-1.0, 1.0, Format("int8", symmetric=False))
    channels = from_weights(np.ones((2, 2)), 0, form)
    assert channels != from_weights(np.ones((2, 2)), 1, form)
    assert one != "one"


def test_arrays_are_owned_and_read_only() -> None:
    """Neither the caller's array nor a reader can change a plan."""
    scale = np.array(0.5, np.float32)
    each = Quantization(Format("int8", symmetric=True), scale, np.array(0, np.int8))
    scale[...] = 7
    assert each.scale == 0.5
    with pytest.raises(ValueError, match="read-only"):
        each.scale[...] = 7


@pytest.mark.parametrize(
    ("scale", "zero_point", "axis", "message"),
    [
        (np.float64(0.5), np.int8(0), None, r"scale is float64\[\], which is not float32 per tensor"),
        (np.float32(0.5), np.uint8(0), None, r"zero_point is uint8\[\], which is not int8 per tensor"),
        (np.float32([0.5]), np.int8([0]), None, r"scale is float32\[1\], which is not float32 per tensor"),
        (np.float32(0.5), np.int8(0), 0, r"scale is float32\[\], which is not float32 per channel"),
        (np.float32([1, 1]), np.int8([0]), 0, r"zero_point is int8\[1\], which is not int8 per channel"),
        (np.float32(0), np.int8(0), None, "scale is not positive and finite"),
        (np.float32(np.inf), np.int8(0), None, "scale is not positive and finite"),
        (np.float32(np.nan), np.int8(0), None, "scale is not positive and finite"),
        (np.float32(1), np.int8(64), None, r"zero point is outside \[-64, 63\]"),
    ],
)
def test_numbers_that_are_no_quantization_are_refused(
    scale: np.ndarray, zero_point: np.ndarray, axis: int | None, message: str
) -> None:
    """Wrong types, shapes, scales and zero points each have their own message."""
    form = Format("int8", symmetric=True, bits=7)
    with pytest.raises(ValueError, match=f"^{message}$"):
        Quantization(form, np.asarray(scale), np.asarray(zero_point), axis)


def test_channels_that_do_not_fit_the_tensor_are_refused() -> None:
    """Three scales for an axis of four, or for an axis that is not there."""
    each = from_weights(np.ones((3, 2)), 0, Format("int8", symmetric=True))
    message = r"^3 channels on axis 0 do not fit a tensor of shape "
    with pytest.raises(ValueError, match=message + r"\(4, 2\)$"):
        each.quantize(np.ones((4, 2)))
    with pytest.raises(ValueError, match=message + r"\(\)$"):
        each.dequantize(np.int8(1))


@pytest.mark.parametrize(
    ("dtype", "bits", "message"),
    [
        ("int8", 9, "9 bits do not fit int8"),
        ("int8", 1, "1 bits do not fit int8"),
        ("int32", None, "unknown.*'int32'"),
    ],
)
def test_formats_that_do_not_exist_are_refused(dtype: Any, bits: int | None, message: str) -> None:
    """Unknown types and impossible widths are errors."""
    with pytest.raises(ValueError, match=message):
        Format(dtype, symmetric=True, bits=bits)

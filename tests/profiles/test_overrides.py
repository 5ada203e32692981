"""`--set key=value`: facts changed for one run."""

from __future__ import annotations

import pytest

from infer_opt import profiles
from infer_opt.errors import UsageError
from infer_opt.profiles import Profile

BACKENDS = {"onnxruntime", "tensorrt"}


def load(name: str, **overrides: str) -> Profile:
    """The shipped profile with overrides; a `.` in a key is written `__`."""
    dotted = {key.replace("__", "."): text for key, text in overrides.items()}
    return profiles.load(name, backends=BACKENDS, overrides=dotted)


def test_texts_become_the_type_of_the_key() -> None:
    """Whole number, number, flag, choice, list, text."""
    profile = load(
        "t4",
        memory_mb="8192",
        bandwidth_gbs="300.5",
        sparse_2_4="true",
        verify="rules",
        precisions="fp32, fp16",
        pipeline="simplify,quantize{method=mse}",
        dialect__weight_bits="7",
        peak__int8_tops="65",
    )
    assert (profile.memory_mb, profile.bandwidth_gbs, profile.sparse_2_4) == (8192, 300.5, True)
    assert (profile.verify, profile.precisions) == ("rules", ("fp32", "fp16"))
    assert profile.pipeline == "simplify,quantize{method=mse}"
    assert profile.dialect is not None
    assert (profile.dialect.weight_bits, profile.dialect.bias) == (7, "float")
    assert (profile.peak.int8_tops, profile.peak.fp16_tflops) == (65.0, 65.0)


def test_the_origin_says_so() -> None:
    """The manifest shows which facts were the user's."""
    profile = load("x86-avx2", memory_mb="2048", dialect__weight_bits="8")
    assert profile.source["memory_mb"] == profile.source["dialect.weight_bits"] == "set on the command line"
    assert "memory_mb" not in profile.unknown
    assert "cores" in profile.unknown


def test_null_makes_a_fact_unknown() -> None:
    """So that no cost model counts on it."""
    profile = load("t4", bandwidth_gbs="null", peak__int8_tops="null")
    assert profile.bandwidth_gbs is profile.peak.int8_tops is None
    assert profile.unknown == ("bandwidth_gbs", "peak.int8_tops")
    assert profile.source["bandwidth_gbs"] == "set on the command line"


def test_without_overrides_nothing_changes() -> None:
    """Two loads give one value."""
    assert load("t4") == load("t4")
    assert load("t4") != load("t4", memory_mb="1")


@pytest.mark.parametrize(
    ("key", "text", "message", "hint"),
    [
        ("memry_mb", "8", "`--set memry_mb=8`: unknown key `memry_mb`", "write `--set memory_mb=8`"),
        ("weight_bits", "7", "unknown key `weight_bits`", "write `--set dialect.weight_bits=7`"),
        ("colour", "red", "unknown key `colour`", "see all keys with `infer-opt profiles show NAME`"),
        ("extends", "t4", "unknown key `extends`", None),
        ("memory_mb", "lots", '`memory_mb` must be a whole number above 0, not "lots"', None),
        ("memory_mb", "8.5", '`memory_mb` must be a whole number above 0, not "8.5"', None),
        ("memory_mb", "-8", "`memory_mb` must be a whole number above 0, not -8", None),
        ("bandwidth_gbs", "inf", "`bandwidth_gbs` must be a number above 0, not inf", None),
        ("unified_memory", "yes", '`unified_memory` must be true or false, not "yes"', None),
        ("precisions", "fp32,fp61", '`precisions` may hold "fp32"', 'write "fp16"'),
        ("precisions", "", "`precisions` is empty", 'write at least `precisions = ["fp32"]`'),
        ("dialect.weight_bits", "9", '`dialect.weight_bits` must be one of 8, 7, not "9"', None),
        ("backend", "tensorflow", "unknown backend `tensorflow`", "use `onnxruntime` or `tensorrt`"),
        ("opset.max", "3", "`opset.min` 13 is above `opset.max` 3", "swap the two"),
        ("opset.min", "null", "missing `opset.min`", "give it a whole number above 0"),
        ("peak", "65", "`peak` is a table", "set one of `peak.fp32_gflops`, `peak.fp16_tflops`"),
        ("source", "me", "`source` follows from the other keys", "remove `--set source`"),
    ],
)
def test_a_bad_override_names_the_option(key: str, text: str, message: str, hint: str | None) -> None:
    """As it was written, then what is wrong."""
    with pytest.raises(UsageError) as caught:
        profiles.load("t4", backends=BACKENDS, overrides={key: text})
    assert caught.value.message.startswith(f"`--set {key}={text}`: ")
    assert message in caught.value.message
    if hint is not None:
        assert (caught.value.hint or "").startswith(hint)


def test_only_the_guilty_option_is_named() -> None:
    """Others beside it are not blamed."""
    with pytest.raises(UsageError, match=r"^`--set threads=0`: "):
        load("t4", memory_mb="8", threads="0")

"""`--set key=value`: facts changed for one run."""

from __future__ import annotations

import pytest

from infer_opt import profiles
from infer_opt.errors import UsageError
from infer_opt.profiles import Profile
from infer_opt.profiles.schema import RESERVED

BACKENDS = {"onnxruntime", "tensorrt"}


def load(name: str, **overrides: str) -> Profile:
    """The shipped profile with overrides; a `.` in a key is written `__`."""
    dotted = {key.replace("__", "."): text for key, text in overrides.items()}
    return profiles.load(name, backends=BACKENDS, overrides=dotted)


def test_texts_become_the_type_of_the_key() -> None:
    """Whole number, choice, list, text, flag, in a table and above."""
    profile = load(
        "t4",
        threads="3",
        verify="rules",
        precisions="fp32, fp16",
        pipeline="simplify,quantize{method=mse}",
        dialect__weight_bits="7",
        dialect__weight_per_channel="false",
    )
    assert (profile.threads, profile.verify, profile.precisions) == (3, "rules", ("fp32", "fp16"))
    assert profile.pipeline == "simplify,quantize{method=mse}"
    assert profile.dialect is not None
    assert (profile.dialect.weight_bits, profile.dialect.weight_per_channel) == (7, False)
    assert profile.dialect.bias == "float"


def test_the_origin_says_so() -> None:
    """The manifest shows which facts were the user's."""
    profile = load("x86-avx2", threads="2", dialect__weight_bits="8")
    assert profile.source["threads"] == profile.source["dialect.weight_bits"] == "set on the command line"
    assert profile.source["isa"] == "by definition of the profile"


def test_null_makes_a_fact_unknown() -> None:
    """Beside those that are so already, whose notes stay."""
    profile = load("x86-avx2", arch="null", runtime__version="null")
    assert profile.arch is None
    assert profile.runtime is not None
    assert profile.runtime.version is None
    assert profile.unknown == ("cores", "memory_mb", "bandwidth_gbs", "peak.fp32_gflops", "arch", "runtime.version")
    assert profile.source["arch"] == "set on the command line"
    assert profile.source["cores"] == "differs from host to host"


@pytest.mark.parametrize("key", sorted(RESERVED.keys() - {"unknown"}))
@pytest.mark.parametrize("text", ["1", "null"])
def test_a_key_that_nothing_uses_is_refused(key: str, text: str) -> None:
    """Setting it would change nothing; the message says what will use it one day."""
    with pytest.raises(UsageError) as caught:
        profiles.load("t4", backends=BACKENDS, overrides={key: text})
    assert caught.value.message == f"`--set {key}={text}`: `{key}` is {RESERVED[key]}"
    assert caught.value.message.startswith(f"`--set {key}={text}`: `{key}` is not used yet: ")
    assert caught.value.hint == f"remove `--set {key}`"


def test_without_overrides_nothing_changes() -> None:
    """Two loads give one value."""
    assert load("t4") == load("t4")
    assert load("t4") != load("t4", threads="2")


@pytest.mark.parametrize(
    ("key", "text", "message", "hint"),
    [
        ("treads", "8", "`--set treads=8`: unknown key `treads`", "write `--set threads=8`"),
        ("weight_bits", "7", "unknown key `weight_bits`", "write `--set dialect.weight_bits=7`"),
        ("colour", "red", "unknown key `colour`", "see all keys with `infer-opt profiles show NAME`"),
        ("extends", "t4", "unknown key `extends`", None),
        ("threads", "lots", '`threads` must be a whole number above 0, not "lots"', None),
        ("threads", "8.5", '`threads` must be a whole number above 0, not "8.5"', None),
        ("threads", "-8", "`threads` must be a whole number above 0, not -8", None),
        ("opset.max", "inf", '`opset.max` must be a whole number above 0, not "inf"', None),
        ("dialect.weight_per_channel", "yes", '`dialect.weight_per_channel` must be true or false, not "yes"', None),
        ("precisions", "fp32,fp61", '`precisions` may hold "fp32"', 'write "fp16"'),
        ("precisions", "", "`precisions` is empty", 'write at least `precisions = ["fp32"]`'),
        ("dialect.weight_bits", "9", '`dialect.weight_bits` must be one of 8, 7, not "9"', None),
        ("backend", "tensorflow", "unknown backend `tensorflow`", "use `onnxruntime` or `tensorrt`"),
        ("opset.max", "3", "`opset.min` 20 is above `opset.max` 3", "swap the two"),
        ("opset.min", "null", "missing `opset.min`", "give it a whole number above 0"),
        ("opset", "13", "`opset` is a table", "set one of `opset.min`, `opset.max`"),
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
        load("t4", pipeline="fuse", threads="0")

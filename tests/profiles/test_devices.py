"""The shipped profiles: every file loads, names its sources, and holds what its device is known for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import is_dataclass, replace

import pytest

from infer_opt import profiles
from infer_opt.profiles import Profile
from infer_opt.profiles.inheritance import shipped
from infer_opt.profiles.schema import ProfileFile
from infer_opt.profiles.tables import faults, flat, from_table, key_types, to_table
from infer_opt.profiles.toml_files import Table

BACKENDS = {"onnxruntime", "tensorrt"}
NAMES = profiles.names()

# A decision of ours, or a matter of what the device is called, and not a fact that somebody else states.
DECISIONS = {
    "name",
    "backend",
    "summary",
    "precisions",
    "pipeline",
    "threads",
    "verify",
    "confidence",
    "unknown",
}
NAMING = {"soc", "hw_revision", "arch", "compute_capability", "runtime", "dynamic_shapes", "unified_memory"}


def load(name: str) -> Profile:
    """The shipped profile."""
    return profiles.load(name, backends=BACKENDS)


def test_the_devices_of_this_release_are_there() -> None:
    """Scripts name them; the bases are not offered as targets."""
    assert {"arm-a78", "t4", "x86-avx2", "x86-avx512-vnni"} <= set(NAMES)
    assert {"onnxruntime-cpu", "tensorrt"} <= set(profiles.names(abstract=True))
    assert set(NAMES).isdisjoint(profiles.names(abstract=True))
    assert sorted(NAMES) == NAMES


@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_file_is_sound(name: str) -> None:
    """`profiles check` has nothing to say, of bases too."""
    assert profiles.check(shipped()[name], backends=BACKENDS) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_is_named_as_its_file(name: str) -> None:
    """`load(name).name` is what the user asked for, and one line tells what it is."""
    assert load(name).name == name
    assert load(name).summary


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_survives_json(name: str) -> None:
    """The manifest holds the whole profile: every key, and back to the same value."""
    profile = load(name)
    table = json.loads(json.dumps(profiles.to_table(profile)))
    assert from_table(Profile, table) == profile
    assert list(table) == list(Profile.__dataclass_fields__)
    assert hash(from_table(Profile, table)) == hash(profile)


@pytest.mark.parametrize("name", NAMES)
def test_every_fact_says_where_it_comes_from(name: str) -> None:
    """Facts of hardware and dialect have a line in `source`, for themselves or for their table."""
    profile = load(name)
    stated = {key for key, value in flat(to_table(profile)).items() if value not in (None, [])}
    told = {key for key in stated for note in profile.source if key == note or key.startswith(f"{note}.")}
    owing = {key for key in stated - told if key.partition(".")[0] not in {*DECISIONS, *NAMING, "source"}}
    assert owing == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_quantizing_profile_has_a_dialect(name: str) -> None:
    """INT8 through a Q/DQ graph cannot be written without its rules."""
    profile = load(name)
    assert "int8" in profile.precisions
    assert profile.dialect is not None
    assert profile.opset is not None
    assert profile.opset.min >= 13, "per-channel DequantizeLinear starts there"


def test_avx2_differs_from_vnni_in_the_weights() -> None:
    """Without VNNI two products are summed in 16 bits: 255 * 64 * 2 fits, 255 * 65 * 2 does not."""
    avx2, vnni = load("x86-avx2"), load("x86-avx512-vnni")
    assert avx2.dialect is not None
    assert vnni.dialect is not None
    largest = 2 ** (avx2.dialect.weight_bits - 1)
    assert 255 * largest * 2 <= 2**15 - 1 < 255 * (largest + 1) * 2
    assert vnni.dialect.weight_bits == 8
    assert "avx512_vnni" in vnni.isa
    assert "avx512_vnni" not in avx2.isa


def test_arm_reads_signed_activations() -> None:
    """With a free zero point, so that -128 can stand for 0 behind a Relu."""
    dialect = load("arm-a78").dialect
    assert dialect is not None
    assert dialect.activation_dtype == "int8"
    assert not dialect.activation_symmetric


def test_t4_is_a_turing_with_tensorrt() -> None:
    """Compute capability 7.5: FP16 and INT8 tensor cores, no BF16, no 2:4; symmetric INT8."""
    t4 = load("t4")
    assert (t4.backend, t4.compute_capability, t4.sparse_2_4) == ("tensorrt", "7.5", False)
    assert t4.precisions == ("fp32", "fp16", "int8")
    assert (t4.memory_mb, t4.bandwidth_gbs, t4.peak.fp16_tflops, t4.peak.int8_tops) == (16384, 320, 65, 130)
    assert t4.dialect is not None
    assert (t4.dialect.activation_dtype, t4.dialect.activation_symmetric) == ("int8", True)
    assert (t4.dialect.bias, t4.dialect.output_q) == ("float", False)


@pytest.mark.parametrize(
    ("name", "capability", "sparse"),
    [
        ("t4", "7.5", False),
        ("a100", "8.0", True),
        ("a10g", "8.6", True),
        ("orin-agx", "8.7", True),
        ("orin-agx@jetpack7", "8.7", True),
        ("orin-nano", "8.7", True),
        ("orin-nx", "8.7", True),
        ("l4", "8.9", True),
        ("h100", "9.0", True),
    ],
)
def test_gpus_have_the_capability_of_their_chip(name: str, capability: str, sparse: bool) -> None:  # noqa: FBT001
    """By NVIDIA's list of compute capabilities; 2:4 from 8.0 on."""
    device = load(name)
    assert (device.compute_capability, device.sparse_2_4) == (capability, sparse)
    peak = device.peak
    if peak.int8_tops is not None and peak.sparse_int8_tops is not None:
        assert peak.sparse_int8_tops == pytest.approx(2 * peak.int8_tops, rel=0.01)


def test_a_jetpack_brings_its_tensorrt() -> None:
    """A revision differs in what it says, and in nothing else."""
    old, new = load("orin-agx"), load("orin-agx@jetpack7")
    assert (old.runtime and old.runtime.version, new.runtime and new.runtime.version) == ("10.3", "11.4.1")
    assert replace(new, name=old.name, summary=old.summary, runtime=old.runtime, source=old.source) == old


def misspelt(word: str) -> Iterator[str]:
    """Every word that one slip makes of `word`: a letter lost, doubled, or swapped with the next."""
    for i in range(len(word)):
        yield word[:i] + word[i + 1 :]
        yield word[:i] + word[i] + word[i:]
        if word[i : i + 2] not in ("", word[i] * 2, word[i]):
            yield word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def with_typo(table: Table, key: str, typo: str) -> Table:
    """`table` with the last name of the dotted `key` misspelt."""
    first, _, rest = key.partition(".")
    if rest:
        return {**table, first: with_typo(table[first], rest, typo)}
    return {typo if name == key else name: value for name, value in table.items()}


def test_every_misspelt_key_is_caught_and_the_right_one_named() -> None:
    """One slip in any key, of nested tables too, gives one unknown key, and the hint is that key."""
    whole = to_table(load("t4")) | {"extends": "other", "abstract": False}
    kinds = key_types(ProfileFile)
    tried = 0
    for key in kinds:
        outer, _, last = key.rpartition(".")
        for typo in set(misspelt(last)) - {known.rpartition(".")[2] for known in kinds}:
            wrong = f"{outer}.{typo}" if outer else typo
            found = list(faults(ProfileFile, with_typo(whole, key, typo), partial=True))
            assert [fault.message for fault in found] == [f"unknown key `{wrong}`"]
            assert found[0].hint == f"write `{key}`"
            tried += 1
    assert tried > 500
    assert sum(is_dataclass(kind) for kind in kinds.values()) == 5, "keys of nested tables were tried too"

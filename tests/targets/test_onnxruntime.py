"""The onnxruntime backend: what it refuses, writes and runs, and when its latency counts."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from infer_opt import ir, targets
from infer_opt.calibrate.planner import float_plan
from infer_opt.calibrate.target import Target
from infer_opt.errors import InputError
from infer_opt.targets.host import host_isa
from infer_opt.targets.onnxruntime import OnnxRuntimeTarget
from tests.targets.networks import Network, int8_plan, normal, profile, run, uniform_feeds

X86, ARM = profile("x86-avx512-vnni"), profile("arm-a78")
CONV = Network("net (float[N,3,8,8] x) => (float[N,4,6,6] y) { c = Conv(x, w) y = Relu(c) }", {"w": normal(4, 3, 3, 3)})
HERE = replace(X86, arch=platform.machine(), isa=())


def test_the_registry_makes_it_for_its_profiles() -> None:
    """By the profile's backend; the file is the registration."""
    assert targets.backends()["onnxruntime"] == "onnxruntime"
    made = targets.create(X86)
    assert isinstance(made, OnnxRuntimeTarget)
    assert made.profile is X86


@pytest.mark.parametrize(
    "text",
    [
        CONV.text,
        "net (float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }",
        """net (float[2] x, bool b) => (float[2] y) {
            y = If(b) <
                then_branch = t () => (float[2] p) { p = Neg(x) },
                else_branch = e () => (float[2] q) { q = Identity(x) }
            >
        }""",
    ],
)
def test_operators_that_onnxruntime_registers_pass(tmp_path: Path, text: str) -> None:
    """The standard's, its own, and those inside subgraphs."""
    targets.create(X86).check(Network(text, CONV.constants if "Conv" in text else {}).load(tmp_path))


def test_an_unknown_operator_is_refused_by_node(tmp_path: Path) -> None:
    """The first one is named, the others are counted; before any work."""
    text = (
        "net (float[2] x) => (float[2] y) { a = Relu(x) [strange] b = com.microsoft.Mystery(a)"
        " c = com.microsoft.Mystery(b) y = com.microsoft.Riddle(c) }"
    )
    with pytest.raises(InputError) as caught:
        targets.create(X86).check(Network(text).load(tmp_path))
    assert caught.value.message == (
        "node `strange`: onnxruntime has no operator `com.microsoft::Mystery` (2 more nodes: Riddle)"
    )
    assert caught.value.hint == "export without it, give it a function body, or pass --allow-op"


def test_an_unknown_operator_in_a_branch_is_refused(tmp_path: Path) -> None:
    """Subgraphs run on the device too; a single culprit needs no count."""
    text = (
        "net (float[2] x, bool b) => (float[2] y) { y = If(b) <then_branch = t () => (float[2] p)"
        " { [inside] p = com.microsoft.Mystery(x) }, else_branch = e () => (float[2] q) { q = Identity(x) }> }"
    )
    with pytest.raises(InputError) as caught:
        targets.create(X86).check(Network(text).load(tmp_path))
    assert caught.value.message == "node `inside`: onnxruntime has no operator `com.microsoft::Mystery`"


def test_the_float_artifact_computes_what_the_model_does(tmp_path: Path) -> None:
    """One file, listed with its settings; what was run here counts as run where the host is the device."""
    target = targets.create(HERE)
    model = CONV.load(tmp_path)
    folder = tmp_path / "artifact"
    folder.mkdir()
    made = target.emit(model, float_plan(target.regions(model)), folder)
    assert (made.main, made.files) == ("model.onnx", ("model.onnx",))
    assert (made.checked, made.unchecked) == ("run", ())
    assert dict(made.run) == {"threads": 1, "arena": True}
    onnx.checker.check_model(onnx.load(folder / "model.onnx"), full_check=True)
    feed = uniform_feeds(1, {"x": (2, 3, 8, 8)}).feed[0]
    runner = target.run(folder, made, 1)
    assert runner is not None
    np.testing.assert_array_equal(runner.run(feed)["y"], CONV.run(feed)["y"])


def test_an_artifact_for_another_cpu_is_emulated(tmp_path: Path) -> None:
    """Said in words, and run with the arithmetic of signed activations."""
    target = targets.create(replace(ARM, arch="riscv64"))
    model = CONV.load(tmp_path)
    samples = uniform_feeds(2, {"x": (1, 3, 8, 8)})
    folder = tmp_path / "artifact"
    folder.mkdir()
    made = target.emit(model, int8_plan(model, ARM, samples), folder)
    assert made.checked == "emulated"
    assert made.unchecked == (
        f"run here with other kernels than the device's: the profile is for riscv64, this host is {platform.machine()}",
    )
    runner = target.run(folder, made, 1)
    assert runner is not None
    entry = runner._session.get_session_options().get_session_config_entry("session.qdqisint8allowed")
    assert entry == "1"
    expected = run(folder / "model.onnx", samples.feed[0], session_qdqisint8allowed="1")
    np.testing.assert_array_equal(runner.run(samples.feed[0])["y"], expected["y"])


def test_large_weights_go_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the size that one protobuf holds, here set to 100 bytes, both files belong to the artifact."""
    monkeypatch.setattr(sys.modules["infer_opt.ir.save"], "_EXTERNAL_ABOVE_BYTES", 100)
    target = targets.create(HERE)
    model = CONV.load(tmp_path)
    folder = tmp_path / "artifact"
    folder.mkdir()
    made = target.emit(model, float_plan(target.regions(model)), folder)
    assert made.files == ("model.onnx", "model.onnx.data")
    assert {path.name for path in folder.iterdir()} == set(made.files)
    feed = uniform_feeds(1, {"x": (1, 3, 8, 8)}).feed[0]
    runner = target.run(folder, made, 1)
    assert runner is not None
    np.testing.assert_array_equal(runner.run(feed)["y"], CONV.run(feed)["y"])


def timed(**facts: object) -> str | None:
    """Why latency does not count for such a profile."""
    target: Target = targets.create(profile("x86-avx512-vnni", **facts))
    return target.timed_here()


def test_latency_counts_where_the_host_has_what_the_profile_names() -> None:
    """Same architecture, written either way, and all that this host has; no names are no claim."""
    assert timed(arch=platform.machine(), isa=()) is None
    assert timed(arch=platform.machine().replace("_", "-"), isa=tuple(host_isa())) is None
    assert timed(arch=None, isa=()) is None


def test_latency_does_not_count_on_another_architecture() -> None:
    """The words name both."""
    assert timed(arch="riscv64") == f"the profile is for riscv64, this host is {platform.machine()}"


def test_latency_does_not_count_without_an_extension() -> None:
    """The words name what is missing, and only that."""
    had = sorted(host_isa())[:1]
    missing = timed(arch=platform.machine(), isa=(*had, "avx9000", "neon3"))
    assert missing == "this host's CPU lacks avx9000, neon3"


AVX2 = {"fma", "avx2"}
AVX512 = AVX2 | {"avx512f", "avx512bw"}
A78_CPU = {"neon", "fp16", "dotprod"}


@pytest.mark.parametrize(
    ("name", "machine", "host", "reason"),
    [
        ("x86-avx2", "x86_64", AVX2, None),
        ("x86-avx2", "x86_64", AVX512, None),
        ("x86-avx2", "x86_64", AVX512 | {"avx512_vnni"}, "has vnni, which"),
        ("x86-avx2", "x86_64", AVX2 | {"avx_vnni"}, "has vnni, which"),
        ("x86-avx2", "x86_64", AVX512 | {"avx512_vnni", "avx_vnni", "amx_int8"}, "has vnni, amx, which"),
        ("x86-avx2", "x86_64", {"ssse3"}, "lacks avx2"),
        ("x86-avx512-vnni", "x86_64", AVX512 | {"avx512_vnni"}, None),
        ("x86-avx512-vnni", "x86_64", AVX512 | {"avx512_vnni", "avx_vnni", "amx_bf16"}, None),
        ("x86-avx512-vnni", "x86_64", AVX512 | {"avx512_vnni", "amx_int8"}, "has amx, which"),
        ("x86-avx512-vnni", "x86_64", AVX2 | {"avx_vnni"}, "lacks avx512f, avx512_vnni"),
        ("arm-a78", "aarch64", A78_CPU, None),
        ("arm-a78", "aarch64", A78_CPU | {"sve"}, None),
        ("arm-a78", "aarch64", A78_CPU | {"i8mm"}, "has i8mm, which"),
        ("arm-a78", "aarch64", A78_CPU | {"sve", "svei8mm", "i8mm"}, "has i8mm, sve, which"),
    ],
)
def test_latency_counts_only_with_the_same_int8_kernels(
    monkeypatch: pytest.MonkeyPatch, name: str, machine: str, host: set[str], reason: str | None
) -> None:
    """A host that can do more than the device picks other kernels: its time is not the device's either."""
    monkeypatch.setattr("infer_opt.targets.host.host_isa", lambda: frozenset(host))
    monkeypatch.setattr("platform.machine", lambda: machine)
    said = targets.create(profile(name)).timed_here()
    if reason is None or reason.startswith("lacks"):
        assert said == (reason and f"this host's CPU {reason}")
    else:
        assert said == f"this host's CPU {reason} the profile lacks: its INT8 kernels differ"


def test_an_artifact_for_a_lesser_cpu_is_emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ran on VNNI is no proof for a CPU without."""
    monkeypatch.setattr("infer_opt.targets.host.host_isa", lambda: frozenset(AVX512 | {"avx512_vnni"}))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    target, model = targets.create(profile("x86-avx2")), CONV.load(tmp_path)
    made = target.emit(model, float_plan(target.regions(model)), tmp_path)
    assert made.checked == "emulated"
    assert "this host's CPU has vnni" in made.unchecked[0]


def test_a_profile_without_a_dialect_has_no_regions(tmp_path: Path) -> None:
    """Nothing says how its Q/DQ graph would have to look."""
    assert targets.create(replace(X86, dialect=None)).regions(CONV.load(tmp_path)) == ()


def test_a_profile_without_int8_offers_float_only(tmp_path: Path) -> None:
    """Whatever its dialect says."""
    found = targets.create(replace(X86, precisions=("fp32",))).regions(CONV.load(tmp_path))
    assert {region.precisions for region in found} == {("fp32",)}


def test_every_backend_of_a_shipped_profile_is_there() -> None:
    """And every registered file makes a target that has all of the protocol."""
    for name in ("x86-avx512-vnni", "x86-avx2", "arm-a78", "t4"):
        made = targets.create(profile(name))
        for method in ("check", "regions", "emit", "run", "timed_here"):
            assert callable(getattr(made, method))


def test_the_float_plan_leaves_the_graph_alone(tmp_path: Path) -> None:
    """Node for node."""
    target = targets.create(HERE)
    model = CONV.load(tmp_path)
    folder = tmp_path / "artifact"
    folder.mkdir()
    target.emit(model, float_plan(target.regions(model)), folder)
    assert ir.fingerprint(ir.load(folder / "model.onnx")) == ir.fingerprint(model)

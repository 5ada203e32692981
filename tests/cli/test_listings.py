"""`profiles`, `passes` and `doctor`: what they list, in both forms."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_opt import profiles
from infer_opt.cli.doctor import Toolchain


def test_profiles(infer_opt: Callable, fits: Callable) -> None:
    """Bare `profiles` is `profiles list`: every target and no mere base."""
    bare, listed = infer_opt("profiles"), infer_opt("profiles", "list")
    assert (bare.code, bare.err, bare.out) == (0, "", listed.out)
    assert [line.split()[0] for line in bare.out.splitlines()[1:]] == profiles.names()
    found = infer_opt("profiles", "list", "--json").json
    fits("profiles", found)
    assert infer_opt("profiles", "--json").json == found
    assert [item["name"] for item in found["profiles"]] == profiles.names()


def test_one_profile(infer_opt: Callable, fits: Callable) -> None:
    """Each fact with its source; the JSON is what goes into a manifest."""
    found = infer_opt("profiles", "show", "t4", "--json").json
    fits("profiles", found)
    assert found["profile"]["memory_mb"] == 16384
    lines = infer_opt("profiles", "show", "t4").out.splitlines()
    [memory] = [line for line in lines if line.startswith("memory_mb")]
    assert memory.split(maxsplit=2) == ["memory_mb", "16384", "NVIDIA T4 product brief: 16 GB of GDDR6"]
    assert infer_opt("profiles", "show", "toaster").code == 2


def test_checking_a_profile(infer_opt: Callable, fits: Callable) -> None:
    """All problems, each with its line, and code 1; a sound file is called that."""
    Path("bad.toml").write_text('extends = "t4"\nname = "mine"\nprecisons = ["fp32"]\nthreads = "two"\n')
    ran = infer_opt("profiles", "check", "bad.toml")
    assert ran.code == 1
    assert [line.split()[0] for line in ran.out.splitlines()] == ["bad.toml:3:", "bad.toml:4:"]
    assert "write `precisions`" in ran.out
    assert ran.err.splitlines()[0] == "error: `bad.toml` has 2 problems"
    as_json = infer_opt("profiles", "check", "bad.toml", "--json")
    fits("profiles", as_json.json)
    assert [item["line"] for item in as_json.json["problems"]] == [3, 4]
    Path("good.toml").write_text('extends = "t4"\nname = "mine"\n')
    sound = infer_opt("profiles", "check", "good.toml")
    assert (sound.code, sound.out, sound.err) == (0, "good.toml: sound\n", "")
    assert infer_opt("profiles", "check", "good.toml", "--json").json["problems"] == []
    assert infer_opt("profiles", "check", "nope.toml").code == 1


def test_passes(infer_opt: Callable, fits: Callable) -> None:
    """All of them, with their options."""
    ran = infer_opt("passes")
    assert (ran.code, ran.out) == (0, infer_opt("passes", "list").out)
    found = infer_opt("passes", "--json").json
    fits("passes", found)
    names = [item["name"] for item in found["passes"]]
    assert {"simplify", "fuse", "quantize"} <= set(names)
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == names


def test_one_pass(infer_opt: Callable, fits: Callable) -> None:
    """What it does, and for each option what it takes, its default and its meaning."""
    text = infer_opt("passes", "show", "quantize").out
    assert text.startswith("quantize\n\n")
    assert "auto|minmax|percentile|entropy|mse" in text
    found = infer_opt("passes", "show", "quantize", "--json").json
    fits("passes", found)
    [entry] = found["passes"]
    percentile = next(option for option in entry["options"] if option["name"] == "percentile")
    assert (percentile["takes"], percentile["default"]) == ("number", 99.99)
    assert all(option["help"] for option in entry["options"])
    assert "without  text" in infer_opt("passes", "show", "fuse").out
    near = infer_opt("passes", "show", "fuze")
    assert (near.code, "did you mean `fuse`?" in near.err) == (2, True)


def test_doctor(infer_opt: Callable, fits: Callable) -> None:
    """Versions as installed, every profile with a reason where it cannot be timed, every toolchain with its command."""
    found = infer_opt("doctor", "--json").json
    fits("doctor", found)
    assert found["versions"]["onnxruntime"] == importlib.metadata.version("onnxruntime")
    assert [item["name"] for item in found["profiles"]] == profiles.names()
    assert {item["name"]: item["not_timed_here"] for item in found["profiles"]}["t4"] == "the t4 is a GPU"
    tools = {item["name"]: item for item in found["toolchains"]}
    assert tools["onnxruntime"]["found"] is True
    assert all(item["install"] for item in tools.values())
    ran = infer_opt("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert "no: the t4 is a GPU" in ran.out


def test_doctor_tells_a_host_that_can_do_more(infer_opt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """With VNNI, x86-avx2 is not timed: the reason is that of `compile`."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for flags, reason in (
        ({"avx2"}, None),
        ({"avx2", "avx_vnni"}, "this host's CPU has vnni, which the profile lacks: its INT8 kernels differ"),
    ):
        monkeypatch.setattr("infer_opt.targets.host.host_isa", lambda flags=flags: frozenset(flags))
        [found] = infer_opt("doctor", "--target", "x86-avx2", "--json").json["profiles"]
        assert found["not_timed_here"] == reason


def test_doctor_of_one_target(infer_opt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only that profile; code 1 and the command where what it needs is missing."""
    found = infer_opt("doctor", "--target", "x86-avx2", "--json")
    assert (found.code, [item["name"] for item in found.json["profiles"]]) == (0, ["x86-avx2"])
    absent = Toolchain("kernels", "no_such_module", "no-such", "pip install no-such", "everything", "onnxruntime")
    monkeypatch.setattr("infer_opt.cli.doctor.TOOLCHAINS", (absent,))
    missing = infer_opt("doctor", "--target", "x86-avx2")
    assert missing.code == 1
    assert missing.err.splitlines() == [
        "error: `x86-avx2` needs kernels, which is missing",
        "hint: run `pip install no-such`",
    ]
    assert infer_opt("doctor").code == 0
    assert infer_opt("doctor", "--target", "toaster").code == 2


def test_doctor_installs_by_name(infer_opt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is close gets a hint; a folder that is none, an error."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ran = infer_opt("doctor", "--install", "tensorrt-rtxx")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean `tensorrt-rtx`?" in ran.err
    ran = infer_opt("doctor", "--install", "tensorrt-rtx", "--find-links", "nowhere")
    assert (ran.code, ran.out) == (1, "")
    assert "`nowhere` is no folder" in ran.err
    Path("wheels").mkdir()
    ran = infer_opt("doctor", "--install", "tensorrt-rtx", "--find-links", "wheels")
    assert ran.code == 1
    first, second, *_ = ran.err.splitlines()
    assert first.startswith("installing tensorrt-rtx-cu12-libs==")
    assert " MB in " in first
    assert second.startswith("error: tensorrt-rtx could not be installed: ")

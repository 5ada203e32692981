"""`infer-opt sensitivity`: the table of parts, for people and as JSON, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infer_opt.calibrate.journal import Journal
from tests.hosts import target_here


def test_the_table(infer_opt: Callable, fits: Callable) -> None:
    """Every part by the names of the original, most costly first, with all of them together."""
    ran = infer_opt("sensitivity", "net.onnx", "--target", target_here(), "--calib", "calib.npz", "--json")
    fits("sensitivity", ran.json)
    found = ran.json
    assert ran.code == 0
    assert {name for entry in found["groups"] for name in entry["nodes"]} == {
        "conv",
        "relu",
        "pool",
        "flatten",
        "head_gemm",
    }
    costs = [entry["sqnr_db"]["scores"] for entry in found["groups"]]
    assert costs == sorted(costs)
    assert 15 < found["together_db"]["int8"]["scores"] < costs[0]
    assert {name for entry in found["groups"] if entry["precision"] == "int8-dynamic" for name in entry["nodes"]} == {
        "head_gemm"
    }
    assert found["together_db"]["int8-dynamic"]["scores"] > found["together_db"]["int8"]["scores"]
    assert found["samples"] == 8
    assert found["unmeasured"] is None
    assert found["front"][0]["level"] == "all in float"
    assert next(point["modelled_speedup"] for point in found["front"]) == 1.0
    assert [point["sqnr_db"]["scores"] for point in found["front"]] == sorted(
        (point["sqnr_db"]["scores"] for point in found["front"]), reverse=True
    )
    assert all(0 < entry["milliseconds"][0] < 1000 for entry in found["groups"])


def test_text_for_people(infer_opt: Callable) -> None:
    """The same on stdout, with the prediction labelled; nothing is written."""
    before = sorted(Path().iterdir())
    ran = infer_opt("sensitivity", "net.onnx", "--target", target_here(), "--calib", "calib.npz")
    assert (ran.code, ran.err) == (0, "")
    assert "all together (predicted)" in ran.out
    assert "Pareto front, predicted" in ran.out
    assert "latency modelled: measured kernel times, summed" in ran.out
    assert "SQNR in dB (measured, 8 samples), " in ran.out
    assert f"net.onnx for {target_here()}" in ran.out
    assert sorted(Path().iterdir()) == before


def test_a_device_with_one_precision(infer_opt: Callable) -> None:
    """One line says why there is nothing to measure."""
    Path("plain.toml").write_text('extends = "t4"\nname = "plain"\nprecisions = ["fp32"]\n')
    ran = infer_opt("sensitivity", "net.onnx", "--target", "plain.toml", "--calib", "calib.npz")
    assert ran.code == 1
    assert "net.onnx` can run at INT8 on `plain`: the profile offers no INT8" in ran.err
    assert "hint: name a --target whose precisions hold int8" in ran.err


def test_a_device_that_this_host_is_not(infer_opt: Callable, fits: Callable) -> None:
    """Errors are measured all the same; latency is not, and the table says why."""
    ran = infer_opt("sensitivity", "net.onnx", "--target", "arm-a78", "--calib", "calib.npz", "--json")
    fits("sensitivity", ran.json)
    assert ran.json["unmeasured"].startswith("the profile is for aarch64, this host is ")
    assert {entry["milliseconds"] for entry in ran.json["groups"]} == {None}
    assert {point["modelled_ms"] for point in ran.json["front"]} == {None}
    assert len(ran.json["front"]) > 1
    text = infer_opt("sensitivity", "net.onnx", "--target", "arm-a78", "--calib", "calib.npz").out
    assert "float us" not in text
    assert "modelled" not in text


def test_a_device_whose_rates_are_known(infer_opt: Callable, fits: Callable) -> None:
    """Latency is modelled, and every word of it says so."""
    ran = infer_opt("sensitivity", "net.onnx", "--target", "t4", "--calib", "calib.npz", "--json")
    fits("sensitivity", ran.json)
    assert (ran.json["times"], ran.json["unmeasured"]) == ("modelled", "the t4 is a GPU")
    assert ran.json["latency_model"].startswith("modelled: a roofline of the device's peaks, 8.1 TFLOPS fp32")
    assert all(taken > 0 for entry in ran.json["groups"] for taken in entry["milliseconds"])
    assert all(point["modelled_ms"] > 0 for point in ran.json["front"])
    text = infer_opt("sensitivity", "net.onnx", "--target", "t4", "--calib", "calib.npz").out
    assert "modelled: a roofline of the device's peaks, 8.1 TFLOPS fp32" in text
    assert "latency modelled: modelled kernel times, summed" in text
    assert "measured kernel by kernel" not in text


def test_what_was_measured_is_not_measured_again(infer_opt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the journals in the user's cache, which `compile` reads and writes too."""
    monkeypatch.setenv("INFER_OPT_CACHE", str(Path("cache").absolute()))
    asked = ("net.onnx", "--target", target_here(), "--calib", "calib.npz", "--json")
    first = infer_opt("sensitivity", *asked).json
    monkeypatch.setattr("infer_opt.calibrate.sensitivity.Journal.add", refuse_to_add)
    second = infer_opt("sensitivity", *asked).json
    noises = [[(entry["name"], entry["sqnr_db"]) for entry in found["groups"]] for found in (first, second)]
    assert noises[0] == noises[1]
    assert infer_opt("compile", *asked).code == 0


def refuse_to_add(journal: Journal, key: str, found: object) -> None:
    """In place of `Journal.add`."""
    del journal, found
    raise AssertionError(f"{key} was measured again")


def test_samples_are_needed(infer_opt: Callable) -> None:
    """Random inputs have no ranges that mean anything."""
    ran = infer_opt("sensitivity", "net.onnx", "--target", target_here())
    assert (ran.code, "--calib" in ran.err) == (2, True)


def test_augment_is_read(infer_opt: Callable) -> None:
    """As for compile; this net's images are of 8 pixels, too small for one."""
    ran = infer_opt("sensitivity", "net.onnx", "--target", target_here(), "--calib", "calib.npz", "--augment", "blur")
    assert ran.code == 1
    assert "--augment changes images, and the model takes none" in ran.err

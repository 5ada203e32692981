"""`infer-opt bench`: what is measured, in which form, and the comparison with a baseline."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_opt.cli.baseline import grown, read_baseline, read_percent
from infer_opt.errors import InputError, UsageError

QUICK = ("--rounds", "5")


def test_models_and_artifacts_side_by_side(infer_opt: Callable, fits: Callable) -> None:
    """A result for each at each batch size, the first the measure of speed."""
    ran = infer_opt("bench", "net.onnx", "compiled", "--data", "calib.npz", "--batch", "4,1", *QUICK, "--json")
    assert (ran.code, ran.err) == (0, "")
    fits("bench", ran.json)
    results = ran.json["results"]
    assert [(Path(item["name"]).name, item["batch"]) for item in results] == [
        ("net.onnx", 1),
        ("net.onnx", 4),
        ("compiled", 1),
        ("compiled", 4),
    ]
    for item in results:
        assert 0 < item["p50_ms"] <= item["p90_ms"] <= item["p99_ms"]
        assert item["samples_per_second"] == pytest.approx(1e3 * item["batch"] / item["p50_ms"], rel=0.05)
        assert item["peak_resident_bytes"] > 1_000_000  # a session alone takes more
        assert item["random_inputs"] is False
    assert [item["speedup"] for item in results[:2]] == [1.0, 1.0]


def test_text_for_people(infer_opt: Callable) -> None:
    """The table is the answer, on stdout; how it was measured is beside it."""
    ran = infer_opt("bench", "fixed.onnx", *QUICK)
    assert ran.out.split()[:9] == ["model", "batch", "P50", "ms", "P90", "ms", "P99", "ms", "samples/s"]
    assert "measured on this host: 5 rounds in turns, threads: 1, on random inputs" in ran.err


def test_a_device_that_is_not_this_host_is_named(infer_opt: Callable) -> None:
    """The figures are this host's, and say so."""
    ran = infer_opt("bench", "fixed.onnx", "--target", "t4", *QUICK)
    assert "runs here with other kernels than the device's: the t4 is a GPU" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("fixed.onnx", "--batch", "2"), 1, "input `x` has 1 for its batch, so --batch 2 cannot be measured"),
        (("net.onnx", "--batch", "0"), 2, "--batch cannot be `0`"),
        (("net.onnx", "--batch", "1,"), 2, "--batch cannot be `1,`"),
        (("net.onnx", "net.onnx"), 2, "is named twice"),
        (("net.onnx", "--fail-above", "5%"), 2, "--fail-above has nothing to compare with"),
        (("net.onnx", "--baseline", "calib.npz"), 1, "calib.npz` holds no measured latency"),
        (("net.onnx", "--baseline", "nope.json"), 1, "`nope.json` cannot be read"),
        (("nope.onnx",), 1, "`nope.onnx` does not exist"),
    ],
)
def test_bad_options(infer_opt: Callable, words: tuple[str, ...], code: int, said: str) -> None:
    """Code and culprit."""
    ran = infer_opt("bench", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_a_regression_is_code_3(infer_opt: Callable, fits: Callable, kit: Path) -> None:
    """Against a baseline of a millionth of a millisecond anything is slower; against an hour nothing is."""
    entry = {"name": str(kit / "net.onnx"), "batch": 1, "p50_ms": 1e-6}
    Path("fast.json").write_text(json.dumps({"results": [entry]}))
    Path("slow.json").write_text(json.dumps({"results": [entry | {"p50_ms": 3.6e6}]}))
    slower = infer_opt("bench", "net.onnx", "--batch", "1", "--baseline", "fast.json", *QUICK, "--json")
    assert slower.code == 3
    fits("bench", slower.json)
    assert slower.json["baseline"][0]["growth"] > 0.05
    assert "of the baseline's 1e-06 ms" in slower.err
    assert infer_opt("bench", "net.onnx", "--batch", "1", "--baseline", "slow.json", *QUICK).code == 0


def test_what_it_prints_is_a_baseline(infer_opt: Callable) -> None:
    """The JSON of one bench is what the next is compared with; so is the report of a measured compile."""
    Path("bench.json").write_text(infer_opt("bench", "net.onnx", *QUICK, "--json").out)
    options = ("net.onnx", *QUICK, "--fail-above", "100000%", "--json")
    assert len(infer_opt("bench", *options, "--baseline", "bench.json").json["baseline"]) == 1
    report = {"latency": {"kind": "measured", "artifact_ms": 2.5}}
    Path("report.json").write_text(json.dumps(report))
    assert infer_opt("bench", *options, "--baseline", "report.json").json["baseline"][0]["p50_ms"] == 2.5


def test_growth() -> None:
    """By name and batch; at the limit is not above it; what the baseline lacks is left out."""
    results = [{"name": "a", "batch": 1, "p50_ms": 1.05}, {"name": "a", "batch": 2, "p50_ms": 2.2}]
    compared, faults = grown(results, {("a", 1): 1.0, ("a", 2): 2.0, ("b", 1): 1.0}, 0.0501)
    assert [item["growth"] for item in compared] == pytest.approx([0.05, 0.1])
    assert faults == ["`a` at batch 2: P50 2.2 ms (measured) is +10.0% of the baseline's 2 ms"]
    with pytest.raises(InputError, match="the baseline has none of these models"):
        grown(results, {("b", 1): 1.0}, 0.05)
    with pytest.raises(UsageError, match="which has one latency"):
        grown(results, {None: 1.0}, 0.05)


def test_percentages() -> None:
    """A number and its sign, nothing else."""
    assert [read_percent(text) for text in ("5%", "0%", "12.5%")] == [0.05, 0.0, 0.125]
    for text in ("5", "%", "-1%", "5%%", "five%", "nan%", "inf%"):
        with pytest.raises(UsageError, match="--fail-above cannot be"):
            read_percent(text)


@pytest.mark.parametrize(
    "text", ["", "[]", "3", '{"latency": {"kind": "not measured"}}', '{"results": [{}]}', '{"results": 1}']
)
def test_no_baseline(tmp_path: Path, text: str) -> None:
    """Whatever else a JSON file holds."""
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(InputError, match="holds no measured latency"):
        read_baseline(tmp_path / "b.json")

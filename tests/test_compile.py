"""Compiling from end to end: what is chosen, written, refused and said, on a small convolutional net."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import numpy as np
import onnx
import pytest

from infer_opt import ir, profiles, targets
from infer_opt.calibrate.augment import parse
from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.choice import TIE
from infer_opt.calibrate.runner import RunError, Runner
from infer_opt.calibrate.target import Artifact, Target
from infer_opt.compile import Request, compile_model, regions_of
from infer_opt.errors import InputError, UsageError
from infer_opt.passes import Change, Outcome, Pass, Pipeline
from infer_opt.report import Report, read_manifest
from infer_opt.targets.host import host_isa
from infer_opt.targets.onnxruntime import OnnxRuntimeTarget
from tests.targets.networks import Feed, Network, for_any_host, normal, optimized, profile, run, sqnr

SCHEMAS = Path(__file__).parents[1] / "docs" / "schemas"
HERE = for_any_host("x86-avx512-vnni", arch=None, isa=())  # so that latency counts on every host
T4, ARM = profile("t4"), for_any_host("arm-a78", arch="riscv64")

TEXT = """net (float[N,3,H,W] image) => (float[N,8,h,w] features, float[N,8,1,1] pooled) {
    c1 = Conv<pads=[1,1,1,1]>(image, w1, b1)  n1 = BatchNormalization(c1, scale, shift, mean, var)  r1 = Relu(n1)
    c2 = Conv<pads=[1,1,1,1], strides=[2,2]>(r1, w2)  r2 = Relu(c2)
    c3 = Conv<pads=[1,1,1,1]>(r2, w3, b3)  a3 = Add(c3, r2)  same = Identity(a3)
    features = Conv(same, w4, b4)  pooled = GlobalAveragePool(features)
}"""
CONSTANTS = {
    "w1": normal(32, 3, 3, 3, scale=0.3),
    "b1": normal(32, seed=1, scale=0.1),
    "scale": np.abs(normal(32, seed=2)) + np.float32(0.5),
    "shift": normal(32, seed=3, scale=0.1),
    "mean": normal(32, seed=4, scale=0.1),
    "var": np.abs(normal(32, seed=5)) + np.float32(0.5),
    "w2": normal(64, 32, 3, 3, seed=6, scale=0.08),
    "w3": normal(64, 64, 3, 3, seed=7, scale=0.04),
    "b3": normal(64, seed=8, scale=0.1),
    "w4": np.abs(normal(8, 64, 1, 1, seed=9, scale=0.2)),
    "b4": normal(8, seed=10, scale=2.0),
}
NETWORK = Network(TEXT, CONSTANTS)
FEED: Feed = {"image": normal(2, 3, 32, 32, seed=99)}


@dataclass(frozen=True)
class Work:
    """A folder with the net and samples for it."""

    folder: Path

    @property
    def model(self) -> Path:
        """The net's file."""
        return self.folder / "net.onnx"

    @property
    def calib(self) -> str:
        """16 samples."""
        return str(self.folder / "calib.npz")

    @property
    def out(self) -> Path:
        """Where artifacts go."""
        return self.folder / "out"

    def request(self, **options: Any) -> Request:
        """A request for this host, with the samples unless `calib` says otherwise."""
        facts = {"model": self.model, "profile": HERE, "out": self.out, "calib": self.calib} | options
        return Request(**facts)

    def compile(self, **options: Any) -> Report:
        """Compile."""
        return compile_model(self.request(**options))

    def refused(self, **options: Any) -> tuple[str, str | None]:
        """Message and hint of a compile that fails; it leaves everything as it was."""
        before = snapshot(self.folder)
        with pytest.raises(InputError) as caught:
            self.compile(**options)
        assert snapshot(self.folder) == before
        return caught.value.message, caught.value.hint

    def artifact(self) -> onnx.ModelProto:
        """The model that was written."""
        return onnx.load(self.out / "model.onnx")

    def operators(self) -> list[str]:
        """Operators of the artifact in the order of the file."""
        return [node.op_type for node in self.artifact().graph.node]


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file in a folder and below."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """The net, with metadata, and 16 samples."""
    model = NETWORK.proto()
    onnx.helper.set_model_props(model, {"classes": "cat,dog", "author": "someone"})
    onnx.save(model, tmp_path / "net.onnx")
    np.savez(tmp_path / "calib.npz", image=normal(16, 1, 3, 32, 32, seed=20))
    return Work(tmp_path)


def saved(network: Network, work: Work, **samples: np.ndarray) -> dict[str, Any]:
    """Options for another net and its samples."""
    path = network.save(work.folder, "other.onnx")
    if not samples:
        return {"model": path, "calib": None}
    np.savez(work.folder / "other.npz", **samples)
    return {"model": path, "calib": str(work.folder / "other.npz")}


def closeness(work: Work, feed: Feed = FEED, network: Network = NETWORK) -> float:
    """SQNR of the artifact's worst output against the net's."""
    expected, got = network.run(feed), run(work.out / "model.onnx", feed)
    return min(sqnr(expected[name], got[name]) for name in expected)


def test_auto_takes_the_fastest_that_is_right_enough(work: Work) -> None:
    """Of FP32, INT8, mixes and the original as it came; its numbers are those of the report."""
    report = work.compile()
    names = [item.name for item in report.candidates]
    assert names[:2] == ["fp32", "int8"]
    assert all(name.startswith("mixed") for name in names[2:-1])
    assert names[-1] == "original"
    assert all(item.failed is None for item in report.candidates)
    assert [item.refused for item in report.candidates if item.name in {"fp32", "original"}] == [None, None]
    assert sum(item.refused is None for item in report.candidates[2:-1]) in {1, 2, 3}
    speedups = {item.name: item.latency.ratio for item in report.candidates if item.latency}
    assert speedups[report.chosen] * TIE >= max(speedups.values())
    assert f"{report.chosen} is fastest of what is right enough: {report.speedup:.2f}x the original" in report.why
    assert closeness(work) > (100 if report.chosen in {"fp32", "original"} else 30)
    assert list(report.warnings) == report.samples["audit"]["warnings"]
    assert (report.budget_faults, report.unchecked) == ((), ())
    assert report.checked == "run"
    assert report.speedup is not None
    assert report.artifact_bytes == (work.out / "model.onnx").stat().st_size
    assert report.original_bytes == work.model.stat().st_size
    if "avx512_vnni" in host_isa():
        assert report.chosen not in {"fp32", "original"}
        assert report.speedup > 1


def test_a_stated_limit_lets_mixes_compete(work: Work) -> None:
    """Between all in float and all in INT8, by the limit that each keeps; the plan tells what each layer would cost."""
    report = work.compile(budget=Budget(min_sqnr=38))
    first, second, *mixed, last = (item.name for item in report.candidates)
    assert (first, second, last) == ("fp32", "int8", "original")
    assert mixed
    assert set(mixed) <= {point.name for point in report.front if point.weakest >= 38}, "the others are too noisy"
    errors = {item.name: min(error.sqnr for error in item.errors) for item in report.candidates}
    assert errors["int8"] < min(errors[name] for name in mixed)
    assert "sensitivity" in report.stages
    assert report.budget_faults == ()


PRODUCTS = Network(
    """net (float[1,32,64] x) => (float[] y) {
        [one] a = MatMul(x, w1) [act] b = Relu(a) [soft] c = LayerNormalization<axis=-1>(b, gamma)
        [two] d = MatMul(c, w2) [sum] e = Add(d, x) [three] y = MatMul(e, w3) }""",
    {
        "w1": normal(64, 512, scale=0.2),
        "gamma": np.ones(512, np.float32),
        "w2": normal(512, 64, seed=1, scale=0.1),
        "w3": normal(64, 256, seed=2, scale=0.1),
    },
)


def test_ranges_found_at_run_time_compete(work: Work) -> None:
    """As a candidate of its own, refused and timed like the others; mixes may hold both kinds of INT8."""
    report = work.compile(**saved(PRODUCTS, work, x=normal(16, 1, 32, 64, seed=20)), budget=Budget(min_sqnr=25))
    names = [item.name for item in report.candidates]
    assert names[:3] == ["fp32", "int8", "int8-dynamic"]
    dynamic = report.candidates[2]
    assert (dynamic.refused, dynamic.failed) == (None, None)
    assert dynamic.latency is not None
    assert 25 < min(error.sqnr for error in dynamic.errors) < 60
    assert dynamic.bytes < report.original_bytes / 3
    read = json.loads((work.out / "report.json").read_text())
    jsonschema.validate(read, json.loads((SCHEMAS / "report.schema.json").read_text()))
    assert {region["precision"] for region in read["regions"]} <= {"fp32", "int8", "int8-dynamic"}


def test_an_order_of_int8_means_the_ranges_of_the_samples(work: Work) -> None:
    """By `--precision` and by `--pipeline`."""
    options = saved(PRODUCTS, work, x=normal(16, 1, 32, 64, seed=20))
    for order in ({"precision": "int8"}, {"pipeline": Pipeline.parse("simplify,quantize")}):
        report = work.compile(**options, **order, force=True)
        assert [item.name for item in report.candidates] == ["int8"]
        assert "DynamicQuantizeLinear" not in work.operators()
        assert {choice.precision for choice in report.plan.choices.values()} == {"fp32", "int8"}


def test_what_only_ranges_at_run_time_can_lower_is_tried(work: Work) -> None:
    """An LSTM has no other INT8; an order of INT8 is refused for it."""
    cell = Network(
        "net (float[8,1,16] x) => (float[] y) { y, h, c = LSTM<hidden_size=64>(x, w, r) }",
        {"w": normal(1, 256, 16, scale=0.2), "r": normal(1, 256, 64, seed=1, scale=0.2)},
    )
    options = saved(cell, work, x=normal(16, 8, 1, 16, seed=20))
    report = work.compile(**options)
    assert "int8-dynamic" in [item.name for item in report.candidates]
    message, _ = work.refused(**options, precision="int8", force=True)
    assert "can run at int8" in message


def test_the_folder_holds_model_manifest_and_report(work: Work) -> None:
    """Nothing else, there or beside it; both texts follow their published schemas."""
    report = work.compile()
    files = ["latency.json", "manifest.json", "model.onnx", "report.html", "report.json"]
    assert sorted(path.name for path in work.out.iterdir()) == files
    assert sorted(path.name for path in work.folder.iterdir()) == ["calib.npz", "net.onnx", "out"]
    for name in ("manifest", "report"):
        schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
        jsonschema.validate(json.loads((work.out / f"{name}.json").read_text(encoding="utf-8")), schema)
    assert json.loads((work.out / "report.json").read_text(encoding="utf-8")) == json.loads(json.dumps(report.table()))


def test_the_manifest_tells_what_the_artifact_is_made_of(work: Work) -> None:
    """Source, samples, pipeline and interface; the files have the hashes it says."""
    work.compile(precision="int8", threads=2)
    manifest = read_manifest(work.out)
    assert manifest["source"] == {"path": "net.onnx", "sha256": ir.file_sha256(work.model)}
    assert manifest["calib"] == {
        "path": work.calib,
        "sha256": ir.file_sha256(Path(work.calib)),
        "samples": 12,
        "augment": [],
    }
    assert manifest["pipeline"] == "simplify,fuse{without=GroupNormalization+PRelu,also=MatMul},quantize"
    assert manifest["run"] == {"threads": 2, "arena": True}
    assert manifest["profile"]["name"] == "x86-avx512-vnni"
    assert manifest["checked"] == "run"
    assert [port["name"] for port in manifest["inputs"]] == ["image"]
    assert manifest["inputs"][0]["shape"] == ["N", 3, "H", "W"]
    assert manifest["inputs"][0]["layout"] == "NCHW"
    assert [port["name"] for port in manifest["outputs"]] == ["features", "pooled"]


def test_fp32_is_graph_passes_only(work: Work) -> None:
    """The BatchNormalization is folded and the Identity gone; the outputs stay what they were."""
    report = work.compile(precision="fp32")
    assert (report.chosen, report.why) == ("fp32", "the only candidate")
    assert work.operators() == ["Conv", "Relu", "Conv", "Relu", "Conv", "Add", "Conv", "GlobalAveragePool"]
    assert closeness(work) > 100
    assert {choice.precision for choice in report.plan.choices.values()} == {"fp32"}
    assert report.passes[-1].changes


def test_int8_by_name_is_an_order(work: Work) -> None:
    """Every region that is legal gets it, whatever it gains; onnxruntime then runs no float Conv."""
    report = work.compile(precision="int8")
    assert (report.chosen, report.why) == ("int8", "the only candidate")
    assert {choice.precision for choice in report.plan.choices.values()} == {"int8"}
    kernels = optimized(work.out / "model.onnx", work.folder)
    assert kernels.count("QLinearConv") == 4
    assert not {"Conv", "FusedConv", "Relu", "Add"} & set(kernels)
    assert closeness(work) > 30
    assert report.artifact_bytes < 0.3 * report.original_bytes


@pytest.mark.parametrize("options", [{"precision": "int8"}, {"pipeline": Pipeline.parse("simplify,quantize")}])
def test_int8_without_samples_is_refused(work: Work, options: dict[str, Any]) -> None:
    """Ranges cannot be made up."""
    message, hint = work.refused(calib=None, **options)
    assert message == "INT8 needs samples to find its ranges"
    assert hint == "pass --calib PATH, or --precision fp32"


def test_a_pipeline_means_exactly_its_passes(work: Work) -> None:
    """Without `fuse` the BatchNormalization stays; without `quantize` no INT8 is tried."""
    report = work.compile(pipeline=Pipeline.parse("simplify"))
    assert report.chosen == "fp32"
    assert [item.text for item in report.passes] == ["legalize", "simplify"]
    assert "BatchNormalization" in work.operators()
    assert "Identity" not in work.operators()
    assert report.pipeline == "simplify"


def test_a_pipeline_that_quantizes_orders_int8_by_its_method(work: Work) -> None:
    """Its options reach the planner: min-max keeps the whole range of the input, a percentile does not."""
    scales = []
    for text in ("fuse,quantize{method=minmax}", "fuse,quantize{method=percentile,percentile=90.0}"):
        report = work.compile(pipeline=Pipeline.parse(text), force=True)
        assert (report.chosen, report.pipeline) == ("int8", text)
        scales.append(float(report.plan.activations["image"].scale))
    samples = np.load(work.calib)["image"][:12]
    assert scales[0] == pytest.approx((samples.max() - samples.min()) / 255)
    assert scales[1] < 0.6 * scales[0]


def test_without_samples_int8_is_not_tried(work: Work) -> None:
    """A warning says so; the artifact is verified on random numbers."""
    report = work.compile(calib=None)
    assert report.chosen in {"fp32", "original"}
    assert report.warnings == ("INT8 was not tried: it needs samples (--calib)",)
    assert report.samples == {
        "source": "random",
        "calibration": 0,
        "verification": 3,
        "random": True,
        "also_verified": 0,
        "changed": {},
        "augment": [],
        "audit": None,
    }
    assert read_manifest(work.out)["calib"] is None
    assert report.checked == "run"
    assert closeness(work) > 100


def test_few_samples_are_warned_of(work: Work) -> None:
    """4 samples calibrate and verify."""
    np.savez(work.folder / "few.npz", image=normal(4, 1, 3, 32, 32))
    report = work.compile(calib=str(work.folder / "few.npz"))
    assert report.warnings[0] == (
        "only 4 samples: calibration and verification share them; a few hundred typical inputs are usual"
    )
    assert not any("samples, " in warning for warning in report.warnings[1:])
    assert (report.samples["calibration"], report.samples["verification"]) == (4, 4)


def test_the_samples_are_audited(work: Work) -> None:
    """What is wrong with them is told by sample, in words and as data."""
    images = normal(40, 1, 3, 32, 32)
    images[20] = images[3]
    images[5] *= 5
    np.savez(work.folder / "bad.npz", image=images)
    report = work.compile(calib=str(work.folder / "bad.npz"), precision="int8")
    audit = report.table()["samples"]["audit"]
    assert list(report.warnings) == audit["warnings"]
    source = work.folder / "bad.npz"
    [pair] = audit["near_duplicates"]["pairs"]
    assert pair["first"] == {"index": 3, "name": f"{source} sample 3"}
    assert pair["second"] == {"index": 20, "name": f"{source} sample 20"}
    assert audit["outliers"][0]["sample"] == {"index": 5, "name": f"{source} sample 5"}
    assert any(f"sample 5 (`{source} sample 5`) alone makes " in warning for warning in report.warnings)
    assert [each["inputs"] for each in audit["departures"]] == ["clean", "noise", "blur"]


def test_changed_images_calibrate_but_do_not_verify(work: Work) -> None:
    """Each of 12 samples is followed by two forms; report and manifest tell; another seed gives other noise."""
    reports = [
        work.compile(precision="int8", augment=parse("noise,contrast"), seed=seed, force=True) for seed in (0, 0, 1)
    ]
    samples = reports[0].table()["samples"]
    assert (samples["calibration"], samples["verification"]) == (36, 4)
    assert samples["augment"] == read_manifest(work.out)["calib"]["augment"] == ["noise", "contrast"]
    assert [each["inputs"] for each in samples["audit"]["departures"]] == ["clean", "blur"]
    scales = [
        [float(each.scale) for each in report.plan.activations.values()]
        for report in (*reports, work.compile(precision="int8", force=True))
    ]
    assert scales[0] == scales[1]
    assert scales[0] != scales[2]
    assert scales[0] != scales[3]


@pytest.mark.parametrize("calib", [True, False])
def test_changes_need_images(work: Work, *, calib: bool) -> None:
    """A model of sequences has none to change, and nothing changes without samples."""
    options = saved(Network("net (float[N,6] x) => (float[N,6] y) { y = Relu(x) }"), work, x=normal(10, 1, 6))
    message, hint = work.refused(augment=parse("noise"), **(options if calib else {"calib": None}))
    if calib:
        assert message == "--augment changes images, and the model takes none; its inputs are `x`"
        assert hint == "leave --augment out, and add samples such as the device will see"
    else:
        assert message == "--augment changes calibration samples, and there are none"
        assert hint == "pass --calib PATH"


def test_random_samples_are_warned_of(work: Work) -> None:
    """They may be asked for by name."""
    report = work.compile(calib="random", precision="int8")
    assert report.warnings == ("calibrated on random numbers: ranges and errors say nothing about real inputs",)
    assert report.samples["random"]
    assert read_manifest(work.out)["calib"]["sha256"] is None


def test_samples_may_have_any_size(work: Work) -> None:
    """A folder of feeds of different heights and batches calibrates a net of dynamic shape."""
    folder = work.folder / "feeds"
    folder.mkdir()
    for index in range(9):
        np.savez(folder / f"{index}.npz", image=normal(1 + index % 2, 3, 16 + 4 * index, 32, seed=index))
    work.compile(calib=str(folder), precision="int8")
    assert closeness(work, {"image": normal(3, 3, 20, 44)}) > 30


def test_shapes_can_be_fixed(work: Work) -> None:
    """Inputs get the sizes, outputs what follows from them; names stay."""
    work.compile(shapes=(ir.InputShape.parse("image:1x3x32x32"),), precision="int8")
    manifest = read_manifest(work.out)
    assert manifest["inputs"][0]["shape"] == [1, 3, 32, 32]
    assert [port["shape"] for port in manifest["outputs"]] == [[1, 8, 16, 16], [1, 8, 1, 1]]
    assert closeness(work, {"image": FEED["image"][:1]}) > 30


def test_a_shape_for_no_input_is_a_usage_error(work: Work) -> None:
    """With the nearest name."""
    with pytest.raises(UsageError, match="no input `imgae`") as caught:
        work.compile(shapes=(ir.InputShape.parse("imgae:1x3x32x32"),))
    assert caught.value.hint == "did you mean `image`?"
    assert not work.out.exists()


def test_the_graph_can_be_dumped_after_each_pass(work: Work) -> None:
    """As text and as a model that loads, from the original on."""
    work.compile(dump_ir=work.folder / "dump", precision="fp32")
    names = sorted(path.name for path in (work.folder / "dump").iterdir())
    passes = ("01-legalize", "02-simplify", "03-fuse")
    assert names == ["00-original.txt", *(f"{name}.{kind}" for name in passes for kind in ("onnx", "txt"))]
    before, after = ((work.folder / "dump" / name).read_text(encoding="utf-8") for name in (names[0], names[-1]))
    assert "BatchNormalization" in before
    assert "BatchNormalization" not in after
    expected, got = NETWORK.run(FEED), run(work.folder / "dump" / "03-fuse.onnx", FEED)
    assert sqnr(expected["features"], got["features"]) > 100


def test_without_verification_nothing_is_run_or_claimed(work: Work) -> None:
    """Only rules were checked; INT8 is not taken unseen, but may be ordered."""
    report = work.compile(verify=False)
    assert (report.chosen, report.checked, report.latency_note) == ("fp32", "rules", "nothing was run here")
    assert report.warnings == ("INT8 was not tried: unverified, nothing tells whether it is right enough",)
    assert report.best.errors == ()
    assert report.speedup is None
    ordered = work.compile(verify=False, precision="int8", force=True)
    assert (ordered.chosen, ordered.checked) == ("int8", "rules")
    assert closeness(work) > 30


def test_a_missed_speed_up_is_a_fault_of_the_budget(work: Work) -> None:
    """The artifact is there all the same."""
    report = work.compile(budget=Budget(min_speedup=1000))
    [fault] = report.budget_faults
    assert fault.endswith("x (measured) misses --min-speedup 1000")
    assert read_manifest(work.out)["model"] == "model.onnx"


def test_a_speed_up_that_cannot_be_measured_is_a_fault(work: Work) -> None:
    """No silence about a limit that nobody checked."""
    report = work.compile(budget=Budget(min_speedup=1), profile=T4)
    assert report.budget_faults == ("--min-speedup cannot be checked: latency was not measured: the t4 is a GPU",)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"verify": False, "budget": Budget(min_sqnr=40)},
            "--min-sqnr cannot be checked: no float output was compared",
        ),
        (
            {"budget": Budget(max_drop=0.01)},
            "--max-drop cannot be checked: no output of classes, shares or vectors was compared",
        ),
    ],
)
def test_an_error_budget_that_cannot_be_checked_is_a_fault(work: Work, options: dict[str, Any], fault: str) -> None:
    """Nothing was run, or no output is of the kind that the limit speaks of."""
    assert work.compile(**options).budget_faults == (fault,)


def test_a_stated_error_budget_refuses_int8_but_not_an_order(work: Work) -> None:
    """Nothing quantized keeps 90 dB: `auto` stays with float, `int8` is made and misses."""
    strict = Budget(min_sqnr=90)
    report = work.compile(budget=strict)
    assert report.chosen in {"fp32", "original"}
    assert report.budget_faults == ()
    assert "int8 was refused: output `features` keeps" in report.why
    ordered = work.compile(budget=strict, precision="int8", force=True)
    assert ordered.chosen == "int8"
    assert len(ordered.budget_faults) == 2
    assert all(fault.endswith("of --min-sqnr 90") for fault in ordered.budget_faults)


def test_a_stated_error_budget_refuses_float_too_but_never_the_original(work: Work) -> None:
    """Folding a BatchNormalization moves the last bits: 190 dB are kept by the model as it came alone."""
    report = work.compile(budget=Budget(min_sqnr=190), calib=None)
    assert report.chosen == "original"
    assert "fp32 was refused: output `features` keeps 1" in report.why
    assert report.budget_faults == ()
    assert [item.refused is None for item in report.candidates] == [False, True]
    beyond = work.compile(budget=Budget(min_sqnr=300), calib=None, force=True)  # not even an exact output keeps that
    assert beyond.chosen == "original"
    assert [item.refused is None for item in beyond.candidates] == [False, True]
    assert beyond.budget_faults[0] == "output `features` keeps 200.0 dB of --min-sqnr 300"
    ordered = work.compile(budget=Budget(min_sqnr=190), precision="fp32", force=True)
    assert ordered.chosen == "fp32"
    assert ordered.budget_faults[0].endswith("of --min-sqnr 190")


def test_without_a_stated_limit_float_is_not_refused(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """What graph passes may change is the business of their own check, not of the defaults for INT8."""
    monkeypatch.setattr("infer_opt.calibrate.metrics.numbers._LEAST_DB", 1000.0)
    report = work.compile(calib=None)
    assert [item.refused for item in report.candidates] == [None, None]


def test_the_report_names_the_passes_that_made_the_winner(work: Work) -> None:
    """None of the original as it came, no `quantize` of a float model; the manifest says the same."""
    original = work.compile(budget=Budget(min_sqnr=190))
    assert (original.chosen, original.pipeline, original.passes) == ("original", "", ())
    assert read_manifest(work.out)["pipeline"] == ""
    assert work.operators()[:3] == ["Conv", "BatchNormalization", "Relu"]
    float_one = work.compile(budget=Budget(min_sqnr=90), profile=ARM, force=True)
    assert (float_one.chosen, float_one.pipeline) == (
        "fp32",
        "simplify,fuse{without=GroupNormalization+PRelu,also=MatMul}",
    )
    assert [item.text.partition("{")[0] for item in float_one.passes] == ["legalize", "simplify", "fuse"]
    assert read_manifest(work.out)["pipeline"] == "simplify,fuse{without=GroupNormalization+PRelu,also=MatMul}"
    quantized = work.compile(profile=ARM, force=True)
    assert quantized.chosen not in {"fp32", "original"}
    assert quantized.pipeline == "simplify,fuse{without=GroupNormalization+PRelu,also=MatMul},quantize"
    assert read_manifest(work.out)["pipeline"] == quantized.pipeline


def test_an_error_that_grows_on_noisy_copies_refuses_int8(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right on held-out samples, by every other limit; a mix that bears noise wins."""
    reason = "the error of output `pooled` is "
    report = work.compile(profile=ARM)
    int8 = next(item for item in report.candidates if item.name == "int8")
    assert int8.refused is not None
    assert int8.refused.startswith(reason)
    assert int8.refused.endswith(" times as large on samples with noise: calibrated on cleaner inputs than those")
    assert min(error.sqnr for error in int8.errors) > 30
    monkeypatch.setattr("infer_opt.calibrate.drift._GROWTH", 1000.0)
    bold = work.compile(profile=ARM, force=True)
    assert next(item for item in bold.candidates if item.name == "int8").refused is None


LOUD = Network(
    "net (float[N,8] x) => (float[N,4] y) { y = MatMul(x, w) }", {"w": normal(8, 4) * (np.arange(8) > 0)[:, np.newaxis]}
)


def loud(work: Work) -> dict[str, Any]:
    """A net whose first input is a thousand times the others and weighs nothing: one scale for all loses them."""
    samples = normal(16, 1, 8)
    samples[:, :, 0] *= 1000
    return saved(LOUD, work, x=samples)


def test_no_order_covers_an_output_that_collapsed(work: Work) -> None:
    """It is a fault of the budget though none was stated; the artifact is there all the same."""
    report = work.compile(precision="int8", **loud(work))
    [fault] = report.budget_faults
    assert fault.startswith("output `y` collapsed: it keeps ")
    assert fault.endswith(" dB, under 20 dB")
    assert (work.out / "model.onnx").is_file()
    stated = work.compile(precision="int8", budget=Budget(min_sqnr=-50), force=True, **loud(work))
    assert stated.budget_faults == ()


@pytest.mark.parametrize("device", [HERE, ARM])
def test_auto_does_not_take_an_output_that_collapsed(work: Work, device: profiles.Profile) -> None:
    """Neither the fastest nor the smallest."""
    report = work.compile(profile=device, **loud(work))
    assert report.chosen in {"fp32", "original"}
    assert report.budget_faults == ()
    assert "int8 was refused: output `y` keeps " in report.why


DETECTOR = Network(
    """net (float[N,3,8,8] image) => (float[N,64,6] found) {
        f = Conv<pads=[1,1,1,1]>(image, w1)  r = Relu(f)  b = Conv(r, w2)  boxes = Mul(b, stride)
        s = Conv(r, w3)  scores = Sigmoid(s)  both = Concat<axis=1>(boxes, scores)
        flat = Reshape(both, shape)  found = Transpose<perm=[0,2,1]>(flat)
    }""",
    {
        "w1": normal(16, 3, 3, 3, scale=0.3),
        "w2": normal(4, 16, 1, 1, seed=1, scale=0.3),
        "w3": normal(2, 16, 1, 1, seed=2, scale=0.3),
        "stride": np.float32(320),
        "shape": np.array([0, 6, 64]),
    },
)


@pytest.mark.parametrize("device", [HERE, ARM])
def test_auto_does_not_take_a_detector_without_its_scores(work: Work, device: profiles.Profile) -> None:
    """Boxes and scores share one scale, behind a Reshape and a Transpose: all together they keep 32 dB."""
    report = work.compile(profile=device, **saved(DETECTOR, work, image=normal(16, 1, 3, 8, 8)))
    assert report.chosen in {"fp32", "original"}
    int8 = next(item for item in report.candidates if item.name == "int8")
    assert [(error.name, error.kind.name) for error in int8.errors] == [("found", "numbers")]
    assert int8.errors[0].sqnr > 30
    assert int8.refused is not None
    assert re.fullmatch(r"output `found` keeps -?\d+\.\d dB at axis 2, index [45], under 20 dB", int8.refused)


@dataclass(frozen=True)
class Stub:
    """A target whose artifacts run as the test says; all else is the real one's."""

    real: Target
    open: Callable[[Path], Runner | None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def run(self, folder: Path, artifact: Artifact, threads: int) -> Runner | None:
        """See `Target`."""
        quantized = folder.name not in {"fp32", "original"}
        return self.open(folder) if quantized else self.real.run(folder, artifact, threads)


@pytest.fixture
def int8_opens(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], Runner | None]], None]:
    """A function that sets how INT8 artifacts are loaded on this host."""
    create = targets.create

    def set_to(open_: Callable[[Path], Runner | None]) -> None:
        monkeypatch.setattr(targets, "create", lambda device: Stub(create(device), open_))

    return set_to


def not_here(folder: Path) -> None:
    """This host cannot run it."""
    assert (folder / "model.onnx").is_file()


def no_kernel(folder: Path) -> Runner:
    """This host should run it, and cannot."""
    raise RunError(f"`{folder.name}` needs a kernel that is missing")


def one_row_only(folder: Path) -> Runner:
    """Loads, and fails on batches of more than one."""
    model = onnx.load(folder / "model.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    return Runner(model.SerializeToString(), "`model.onnx`")


@pytest.mark.parametrize("device", [HERE, ARM])
def test_int8_that_cannot_be_run_here_is_not_taken_unseen(
    work: Work, int8_opens: Callable[..., None], device: profiles.Profile
) -> None:
    """Neither for its size nor for anything else: nothing tells whether it is right."""
    int8_opens(not_here)
    report = work.compile(profile=device)
    assert report.chosen in {"fp32", "original"}
    assert "int8 was refused: it cannot be run here, so nothing tells whether it is right enough" in report.why
    int8 = next(item for item in report.candidates if item.name == "int8")
    assert (int8.errors, int8.latency, int8.failed) == ((), None, None)
    assert report.checked == ("run" if device is HERE else "emulated")


def test_int8_that_cannot_be_run_here_may_be_ordered(work: Work, int8_opens: Callable[..., None]) -> None:
    """Unverified, and that is told: checked by rules only, no errors, no latency, no limit that was met."""
    int8_opens(not_here)
    report = work.compile(precision="int8", budget=Budget(min_sqnr=10, min_speedup=1))
    assert (report.chosen, report.checked, report.best.errors, report.speedup) == ("int8", "rules", (), None)
    assert report.table()["latency"] == {"kind": "not measured", "note": "it cannot be run here"}
    assert report.budget_faults == (
        "--min-sqnr cannot be checked: no float output was compared",
        "--min-speedup cannot be checked: latency was not measured: it cannot be run here",
    )
    assert read_manifest(work.out)["checked"] == "rules"


@pytest.mark.parametrize("device", [HERE, ARM])
def test_int8_that_does_not_load_is_left_out(
    work: Work, int8_opens: Callable[..., None], device: profiles.Profile
) -> None:
    """With the reason; the others are verified, and one of them wins."""
    int8_opens(no_kernel)
    report = work.compile(profile=device)
    assert report.chosen in {"fp32", "original"}
    assert "; int8 does not run: `int8` needs a kernel that is missing" in report.why
    table = {item["name"]: item for item in report.table()["candidates"]}
    assert table["int8"]["failed"] == "`int8` needs a kernel that is missing"
    assert table["int8"]["refused"] is None
    assert table["fp32"]["failed"] is None
    assert closeness(work) > 100


def test_an_order_that_does_not_load_is_an_error(work: Work, int8_opens: Callable[..., None]) -> None:
    """No artifact is better than one that does not run."""
    int8_opens(no_kernel)
    message, hint = work.refused(precision="int8")
    assert message == (
        "no artifact came out that runs and is right enough: int8 does not run: `int8` needs a kernel that is missing"
    )
    assert hint == "report it with the model"


def test_int8_that_fails_on_one_feed_is_left_out(work: Work, int8_opens: Callable[..., None]) -> None:
    """However right it was until then; the others are verified on every sample. An order is refused."""
    folder = work.folder / "feeds"
    folder.mkdir()
    for index in range(16):
        np.savez(folder / f"{index:02}.npz", image=normal(2 if index == 14 else 1, 3, 32, 32, seed=index))
    int8_opens(one_row_only)
    report = work.compile(profile=ARM, calib=str(folder))
    assert report.chosen == "fp32"
    fp32, *quantized = report.candidates
    assert quantized[0].name == "int8"
    for candidate in quantized:
        assert candidate.failed is not None
        assert candidate.failed.startswith(f"`model.onnx` fails on {folder / '14.npz'}: ")
        assert (candidate.refused, candidate.errors, candidate.latency) == (None, (), None)
    rows = 17  # one a sample, and two in the 14th: four held out, and twelve that calibrated
    assert [error.elements for error in fp32.errors] == [rows * 8 * 16 * 16, rows * 8]
    message, _ = work.refused(precision="int8", calib=str(folder), force=True)
    assert f"int8 does not run: `model.onnx` fails on {folder / '14.npz'}: " in message


@dataclass(frozen=True)
class Spoil(Pass):
    """A pass with a bug: it scales what the first Conv computes."""

    name: ClassVar[str] = "spoil"

    def apply(self, model: ir.Model) -> Outcome:
        """Put a Mul behind the first Conv."""
        conv = next(node for node in model.graph if node.op_type == "Conv")
        old, names = conv.outputs[0], ir.Names(model)
        factor = ir.add_initializer(model.graph, names.fresh("factor"), np.float32(1.01))
        mul = ir.make_node("Mul", [old, factor], name=names.fresh("spoiled"))
        mul.outputs[0].name = names.fresh("spoiled")
        for user, index in tuple(old.uses()):
            if user is not mul:
                user.replace_input_with(index, mul.outputs[0])
        model.graph.insert_after(conv, mul)
        return Outcome((Change("spoil", (str(conv.name),)),))


def test_a_pass_that_changes_the_outputs_is_undone(work: Work) -> None:
    """With a warning that tells by how much; the other passes keep their work."""
    report = work.compile(pipeline=Pipeline((Spoil(), *Pipeline.parse("simplify,fuse").passes)))
    [warning] = report.warnings
    assert warning.startswith("pass `spoil` was undone: output `features` changed: ")
    spoiled = next(item for item in report.passes if item.text == "spoil")
    assert spoiled.undone is not None
    assert spoiled.nodes_before == spoiled.nodes_after
    assert "Mul" not in work.operators()
    assert "BatchNormalization" not in work.operators()
    assert closeness(work) > 100


def test_without_verification_a_bad_pass_is_not_found(work: Work) -> None:
    """What --no-verify gives up."""
    report = work.compile(pipeline=Pipeline((Spoil(),)), verify=False)
    assert report.warnings == ()
    assert closeness(work) < 60


@pytest.mark.parametrize("dtype", ["float16", "double", "int64"])
def test_models_of_other_types_are_left_untouched(work: Work, dtype: str) -> None:
    """Same graph but for the opset, same bytes of weights, same results; INT8 is not even tried."""
    array = {"float16": np.float16, "double": np.float64, "int64": np.int64}[dtype]
    weight = (normal(6, 4) * 8).astype(array)
    network = Network(f"net ({dtype}[N,6] x) => ({dtype}[N,4] y) {{ y = MatMul(x, w) }}", {"w": weight})
    options = saved(network, work, x=(normal(10, 1, 6) * 8).astype(array))
    report = work.compile(**options)
    assert [item.name for item in report.candidates] == ["fp32", "original"]
    assert report.warnings == ()
    raised, _ = Pipeline.parse("legalize").run(ir.load(options["model"]))
    assert ir.fingerprint(ir.load(work.out / "model.onnx")) == ir.fingerprint(raised)
    assert read_manifest(work.out)["inputs"][0]["dtype"] == dtype


def test_an_order_that_nothing_can_carry_out_is_refused(work: Work) -> None:
    """A float model that calls itself INT8 would be a quiet downgrade."""
    network = Network("net (float16[N,6] x) => (float16[N,6] y) { y = Relu(x) }")
    options = saved(network, work, x=normal(10, 1, 6).astype(np.float16))
    message, hint = work.refused(precision="int8", **options)
    model = options["model"]
    assert message == (f"no part of `{model}` can run at int8 on `x86-avx512-vnni`: not a float operator of ONNX")
    assert hint == "pass --precision auto"


@pytest.mark.parametrize("precision", ["auto", "int8"])
def test_a_weight_that_is_no_number_is_no_bug(work: Work, precision: str) -> None:
    """A NaN in one of two matrices: that one stays float, and the outputs are the model's own."""
    weights = {"v": normal(6, 4), "w": normal(6, 4, seed=1)}
    weights["v"][2, 1] = np.nan
    network = Network(
        "net (float[N,6] x) => (float[N,4] y, float[N,4] z) { y = MatMul(x, v) z = MatMul(x, w) }", weights
    )
    report = work.compile(precision=precision, **saved(network, work, x=normal(12, 1, 6)))
    int8 = next((item for item in report.candidates if item.name == "int8"), None)
    assert int8 is not None
    assert [error.noise < np.inf for error in int8.errors] == [True, True]
    if precision == "int8":
        assert report.plan.choices["MatMul:y"].reason == "weight `v` holds NaN or infinite values"
        assert report.plan.choices["MatMul:z"].precision == "int8"


@pytest.mark.parametrize("calibrated", [True, False])
def test_an_order_of_fp16_is_written_into_the_graph(work: Work, calibrated: bool) -> None:  # noqa: FBT001
    """With samples or without, which the reasons say; two Casts at the ends and none between."""
    report = work.compile(precision="fp16", profile=T4, **({} if calibrated else {"calib": None}))
    assert (report.chosen, report.why) == ("fp16", "the only candidate")
    reason = "ranges fit (measured)" if calibrated else "weights fit, and no rule speaks against it; not measured"
    assert {choice.reason for choice in report.plan.choices.values()} == {reason}
    assert work.operators().count("Cast") == 3
    assert {tensor.data_type for tensor in work.artifact().graph.initializer} == {onnx.TensorProto.FLOAT16}
    assert all(50 < error.sqnr < 90 for error in report.best.errors)
    assert report.artifact_bytes < 0.6 * report.original_bytes


def test_an_order_of_int8_leaves_the_rest_in_fp16(work: Work) -> None:
    """Every region that is legal, cut-offs overruled; the residual Add quantizes the branch it is not fused with."""
    report = work.compile(precision="int8", profile=T4)
    assert report.chosen == "int8"
    assert {region.op_type for region in report.plan.at("int8")} == {"Conv", "Add", "GlobalAveragePool"}
    assert report.plan.choices["Conv:c1"].reason.endswith("ordered, though it has 3 channels, under 16")
    assert "DequantizeLinear" in work.operators()
    dtypes = {tensor.data_type for tensor in work.artifact().graph.initializer}
    assert dtypes == {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.INT8}  # float: of the input
    assert all(error.sqnr > 25 for error in report.best.errors)


def test_nothing_that_fp16_could_be_is_said(work: Work) -> None:
    """An order that nothing can carry out gives the model as it is, and a warning."""
    network = Network("net (float[2,4] x) => (float[2,4] y) { y = Exp(x) }")
    report = work.compile(precision="fp16", profile=T4, **saved(network, work))
    assert report.chosen == "fp32"
    assert report.warnings == ("nothing became FP16: it may overflow FP16 (not measured)",)


def test_auto_lets_fp16_compete_where_the_device_has_it(work: Work) -> None:
    """Without samples INT8 is no candidate, and the report says so."""
    report = work.compile(profile=T4, calib=None)
    assert [item.name for item in report.candidates] == ["fp32", "fp16"]
    assert report.chosen == "fp16"
    assert "INT8 was not tried: it needs samples (--calib)" in report.warnings
    report = work.compile(profile=T4, force=True)
    assert [item.name for item in report.candidates][:3] == ["fp32", "fp16", "int8"]
    assert report.why.startswith("fp16 is fastest of what is right enough: ")
    assert " us (modelled); " in report.why
    assert report.why.endswith("; latency was not measured: the t4 is a GPU")


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_the_typed_graph_has_the_same_bytes_each_time(work: Work, precision: str) -> None:
    """Same request, same artifact."""
    work.compile(precision=precision, profile=T4)
    before = (work.out / "model.onnx").read_bytes()
    work.compile(precision=precision, profile=T4, force=True)
    assert (work.out / "model.onnx").read_bytes() == before


@pytest.mark.parametrize(
    "options", [{"precision": "int8"}, {"pipeline": Pipeline.parse("simplify,quantize")}, {"precision": "fp16"}]
)
def test_a_precision_that_the_profile_does_not_have_is_refused(work: Work, options: dict[str, Any]) -> None:
    """Named by option, or by a pass."""
    message, hint = work.refused(profile=replace(HERE, precisions=("fp32",)), **options)
    wanted = options.get("precision", "int8")
    assert message == f"profile `x86-avx512-vnni` offers no {wanted}; it has fp32"
    assert hint == "pass --precision auto, or another --target"


def test_metadata_are_kept(work: Work) -> None:
    """What an application reads from the model is there in every precision."""
    for precision in ("fp32", "int8"):
        work.compile(precision=precision, force=True)
        metadata = {entry.key: entry.value for entry in work.artifact().metadata_props}
        assert (metadata["classes"], metadata["author"]) == ("cat,dog", "someone")


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_same_request_gives_the_same_bytes(work: Work, precision: str) -> None:
    """Twice, with the same seed."""
    contents = []
    for _ in range(2):
        work.compile(precision=precision, seed=7, force=True)
        contents.append((work.out / "model.onnx").read_bytes())
    assert contents[0] == contents[1]


def test_the_seed_decides_which_elements_calibrate(work: Work) -> None:
    """Of values larger than the subsample another one is drawn, and gives other ranges; the samples are the same."""
    plans = []
    for seed in (0, 0, 1):
        order = Pipeline.parse("fuse,quantize{method=percentile,percentile=99.0}")
        plans.append(work.compile(pipeline=order, seed=seed, force=True).plan.activations)
    assert plans[0] == plans[1]
    assert plans[0]["r1"] != plans[2]["r1"]  # 32,768 elements a sample


@pytest.mark.parametrize(("threads", "expected"), [(3, 3), (None, 2)])
def test_artifacts_run_with_the_threads_that_were_asked_for(
    work: Work, monkeypatch: pytest.MonkeyPatch, threads: int | None, expected: int
) -> None:
    """Every candidate's session, as onnxruntime tells it; the profile's number where the request has none.

    All are loaded to be verified, and those that are right once more, to be timed, but for the original, which runs
    already.
    """
    runners: list[Runner] = []
    run_artifact = OnnxRuntimeTarget.run

    def remember(*arguments: Any) -> Runner:
        runners.append(run_artifact(*arguments))
        return runners[-1]

    monkeypatch.setattr(OnnxRuntimeTarget, "run", remember)
    report = work.compile(threads=threads, profile=replace(HERE, threads=2))
    right = [item for item in report.candidates if item.refused is None]
    assert {"fp32", "original"} <= {item.name for item in right}  # which mixes are right depends on times here
    assert len(report.candidates) >= 3
    assert len(runners) == len(report.candidates) + len([item for item in right if item.name != "original"])
    assert {runner._session.get_session_options().intra_op_num_threads for runner in runners} == {expected}


def test_an_artifact_is_replaced_only_by_a_finished_one(work: Work) -> None:
    """Not without --force, not by a compile that fails late, and then wholly."""
    work.compile(precision="fp32")
    message, _ = work.refused(precision="int8")
    assert message == f"`{work.out}` holds an artifact already"
    bad = normal(16, 1, 3, 32, 32)
    bad[15, 0, 0, 0, 0] = np.nan
    np.savez(work.folder / "bad.npz", image=bad)
    message, _ = work.refused(precision="int8", calib=str(work.folder / "bad.npz"), force=True)
    assert message == (
        f"{work.folder / 'bad.npz'} sample 15: NaN or Inf in input `image` (1 elements) reaches output `features`"
    )
    assert work.compile(precision="int8", force=True).chosen == "int8"


def test_a_bad_sample_that_reaches_no_output_is_a_warning(work: Work) -> None:
    """A NaN that a Slice cuts off; the file, the sample and the input are named."""
    network = Network(
        "net (float[1,8] x) => (float[1,4] y) { s = Slice(x, four, eight, one) y = MatMul(s, w) }",
        {"four": np.array([4]), "eight": np.array([8]), "one": np.array([1]), "w": normal(4, 4)},
    )
    samples = normal(12, 1, 8)
    samples[3, 0, 0] = np.nan
    report = work.compile(precision="int8", **saved(network, work, x=samples))
    source = work.folder / "other.npz"
    assert report.warnings[0] == f"NaN or Inf that reaches no output: {source} sample 3: `x`"


def test_a_dry_run_writes_nothing(work: Work) -> None:
    """But tells all."""
    report = work.compile(dry_run=True, precision="int8")
    assert report.chosen == "int8"
    assert report.best.errors
    assert not work.out.exists()


def test_an_operator_that_the_device_lacks_is_refused_before_any_work(work: Work) -> None:
    """By node, without a look at the samples."""
    network = Network("net (float[2] x) => (float[2] y) { [odd] y = com.microsoft.Mystery(x) }")
    message, _ = work.refused(**saved(network, work) | {"calib": "no-such-file.npz"})
    assert message == "node `odd`: onnxruntime has no operator `com.microsoft::Mystery`"


def test_a_gpu_gets_a_script_and_no_latency(work: Work) -> None:
    """Verified here as a computation; what is left to the device is told."""
    report = work.compile(profile=T4, precision="fp32")
    assert (report.chosen, report.checked, report.latency_note) == ("fp32", "rules", "the t4 is a GPU")
    assert sorted(path.name for path in work.out.iterdir()) == [
        "build.sh",
        "manifest.json",
        "model.onnx",
        "report.html",
        "report.json",
    ]
    assert os.access(work.out / "build.sh", os.X_OK)
    assert [entry["path"] for entry in read_manifest(work.out)["files"]] == ["model.onnx", "build.sh"]
    latency = report.table()["latency"]
    assert (latency["kind"], latency["note"]) == ("modelled", "the t4 is a GPU")
    assert latency["float_ms"] == latency["artifact_ms"] > 0
    assert report.speedup is None
    assert closeness(work) > 100


@pytest.mark.parametrize("vnni", [False, True])
def test_a_cpu_that_can_do_more_is_another_cpu(work: Work, monkeypatch: pytest.MonkeyPatch, vnni: bool) -> None:  # noqa: FBT001
    """x86-avx2 is timed on AVX2; with VNNI other INT8 kernels run, and nothing is called measured."""
    flags = frozenset({"avx2", "avx512_vnni"} if vnni else {"avx2"})
    monkeypatch.setattr("infer_opt.targets.host.host_isa", lambda: flags)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    report = work.compile(profile=profile("x86-avx2"), budget=Budget(min_speedup=0.001))
    note = "this host's CPU has vnni, which the profile lacks: its INT8 kernels differ" if vnni else None
    assert (report.latency_note, report.checked) == (note, "emulated" if vnni else "run")
    assert (report.speedup is None) == vnni
    assert report.budget_faults == ((f"--min-speedup cannot be checked: latency was not measured: {note}",) * vnni)


def test_for_another_cpu_the_smallest_right_candidate_is_taken(work: Work) -> None:
    """Its arithmetic is emulated here, its latency is not."""
    report = work.compile(profile=ARM)
    right = [item for item in report.candidates if item.refused is None]
    assert (report.best.bytes, report.checked) == (min(item.bytes for item in right), "emulated")
    assert report.chosen != "fp32"
    assert report.why.startswith("smallest that is right enough; latency was not measured: the profile is for riscv64")
    assert [item.name for item in report.candidates][:2] == ["fp32", "int8"]
    assert "original" not in {item.name for item in report.candidates}


def test_an_older_opset_is_raised_without_changing_results(work: Work) -> None:
    """Opset 11 with a Clip of the older kind and axes as attributes; the artifact has what per-channel scales need."""
    network = Network(
        """net (float[N,3,8,8] x) => (float[N,4,1] y) {
            c = Conv(x, w)  r = Clip(c, low, high)  m = ReduceMean<axes=[3], keepdims=1>(r)
            g = ReduceMax<axes=[2], keepdims=1>(m)  y = Squeeze<axes=[3]>(g)
        }""",
        {"w": normal(4, 3, 3, 3), "low": np.float32(0), "high": np.float32(6)},
        opset=11,
    )
    work.compile(precision="int8", **saved(network, work, x=normal(12, 1, 3, 8, 8)))
    assert work.artifact().opset_import[0].version >= 13
    assert closeness(work, {"x": normal(1, 3, 8, 8)}, network) > 25


def test_external_weights_are_taken_into_the_artifact(work: Work) -> None:
    """It never points back at the original's files, all of which count as the original."""
    model = NETWORK.proto()
    onnx.save(model, work.model, save_as_external_data=True, location="net.weights", size_threshold=0)
    report = work.compile(precision="fp32")
    files = ["latency.json", "manifest.json", "model.onnx", "report.html", "report.json"]
    assert sorted(path.name for path in work.out.iterdir()) == files
    assert read_manifest(work.out)["source"] == {"path": "net.onnx", "sha256": ir.source_sha256(work.model)}
    weights = work.folder / "net.weights"
    assert report.original_bytes == work.model.stat().st_size + weights.stat().st_size
    weights.unlink()
    assert closeness(work) > 100
    assert report.artifact_bytes > 200_000


def test_random_inputs_that_do_not_fit_leave_the_artifact_unverified(work: Work) -> None:
    """Made-up sizes of dynamic dimensions may be impossible ones; that is told, and nothing is claimed."""
    network = Network("net (float[N,K] x) => (float[7,M] y) { [cut] y = Reshape(x, s) }", {"s": np.array([7, -1])})
    report = work.compile(**saved(network, work))
    assert report.checked == "rules"
    [warning] = report.warnings
    assert warning.startswith("nothing was verified: ")
    assert "node `cut` (Reshape)" in warning
    assert warning.endswith("; pass --calib, or --shape for dynamic inputs")


def test_a_model_that_cannot_run_at_all_is_an_error(work: Work) -> None:
    """Where all sizes are fixed, random inputs are not to blame."""
    network = Network("net (int64[64] x) => (float[64] y) { [pick] y = Gather(rows, x) }", {"rows": normal(1)})
    message, hint = work.refused(**saved(network, work))
    assert message.startswith(f"`{work.folder / 'other.onnx'}` fails on random inputs: node `pick` (Gather): ")
    assert hint == "check the model's shapes, and the sample's, against each other"


class Noting:
    """Progress that notes stages and steps."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.steps: dict[str, int] = {}

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Callable[[], None]]:
        """See `Progress`."""
        self.stages.append(name)
        self.steps[name] = 0

        def advance() -> None:
            self.steps[name] += 1
            assert self.steps[name] <= total

        yield advance


def test_progress_follows_the_straight_line(work: Work) -> None:
    """Each stage in its turn, with a step for each sample; the report has their times."""
    progress = Noting()
    report = compile_model(work.request(), progress)
    stages = ["load", "passes", "plan", "calibrate", "repair", "sensitivity", "rehearse", "emit", "verify", "time"]
    assert list(dict.fromkeys(progress.stages)) == stages
    assert (progress.steps["calibrate"], progress.steps["verify"]) == (12, 16)  # of the last one, the original
    assert (report.samples["also_verified"], report.samples["changed"]) == (12, {"noise": 4, "blur": 4})
    assert list(report.stages) == stages


def test_regions_can_be_asked_for_alone(work: Work) -> None:
    """After the profile's graph passes, in the original's names; the device's limits hold here too."""
    found = regions_of(ir.load(work.model), HERE)
    assert [region.op_type for region in found] == ["Conv", "Conv", "Conv", "Add", "Conv", "GlobalAveragePool"]
    assert set(found[0].origin) == {"Conv:c1", "BatchNormalization:n1", "Relu:r1"}
    strange = Network("net (float[2] x) => (float[2] y) { [odd] y = com.microsoft.Mystery(x) }")
    with pytest.raises(InputError, match="node `odd`"):
        regions_of(strange.load(work.folder), HERE)

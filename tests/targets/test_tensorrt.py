"""The TensorRT backend: what it refuses, and a build script that a shell takes as it was meant."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from infer_opt import ir, targets
from infer_opt.calibrate.half import half_verdicts, with_half
from infer_opt.calibrate.planner import float_plan
from infer_opt.calibrate.shape_ranges import ShapeRange
from infer_opt.calibrate.target import Artifact
from infer_opt.errors import InputError
from infer_opt.profiles import Runtime
from tests.targets.networks import Feeds, Network, int8_plan, normal, profile, sqnr, uniform_feeds

T4 = profile("t4")
CONV = Network("net (float[1,3,8,8] x) => (float[1,4,6,6] y) { c = Conv(x, w) y = Relu(c) }", {"w": normal(4, 3, 3, 3)})
DYNAMIC = Network(
    "net (float[N,3] x, float[1,3] fixed, float[N,M] z) => (float[N,3] y) { y = Add(x, fixed) q = Neg(z) }"
)
PLAIN = {"PATH": "/usr/bin:/bin"}
# A trtexec that notes what it is called with, one argument a line, and where.
NOTING = '#!/bin/sh\nfor argument in "$@"; do printf "%s\\n" "$argument"; done > arguments\npwd > place\n'


def emitted(model: ir.Model, folder: Path, **facts: object) -> Artifact:
    """The artifact of a model for a T4, some of whose facts are others."""
    target = targets.create(profile("t4", **facts))
    folder.mkdir(exist_ok=True)
    return target.emit(model, float_plan(target.regions(model)), folder)


def arguments(folder: Path, *more: str, **environment: str) -> list[str]:
    """What the script calls trtexec with."""
    tools = folder.parent / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "trtexec").write_text(NOTING, encoding="utf-8")
    (tools / "trtexec").chmod(0o755)
    search = f"{tools}:{os.environ['PATH']}"
    command = [str(folder / "build.sh"), *more]
    subprocess.run(command, check=True, env={"PATH": search, **environment}, cwd="/")
    assert Path((folder / "place").read_text(encoding="utf-8").strip()).samefile(folder)
    return (folder / "arguments").read_text(encoding="utf-8").splitlines()


def parses(folder: Path) -> bool:
    """Whether a POSIX shell can read the script."""
    return subprocess.run(["sh", "-n", str(folder / "build.sh")], check=False).returncode == 0


VERSIONS = {
    "8.5": [],
    "8.6": ["--builderOptimizationLevel=4"],
    "10.3": ["--stronglyTyped", "--builderOptimizationLevel=4"],
    "10": ["--stronglyTyped", "--builderOptimizationLevel=4"],
    "11.4.1": ["--builderOptimizationLevel=4"],
}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_script_calls_trtexec_as_the_version_wants(tmp_path: Path, version: str) -> None:
    """8.5 knows neither option; 10 has to be told of strong typing, 11 has nothing else."""
    folder = tmp_path / "artifact"
    emitted(CONV.load(tmp_path), folder, runtime=Runtime(name="TensorRT", version=version))
    assert parses(folder)
    assert arguments(folder) == [
        "--onnx=model.onnx",
        "--saveEngine=model.plan",
        "--timingCacheFile=model.cache",
        *VERSIONS[version],
        "--profilingVerbosity=detailed",
        "--exportLayerInfo=layers.json",
    ]


@pytest.mark.parametrize("runtime", [None, Runtime(name="TensorRT"), Runtime(name="TensorRT", version="JetPack")])
def test_an_unknown_version_is_taken_as_10(tmp_path: Path, runtime: Runtime | None) -> None:
    """Where the profile does not say, or not in numbers."""
    folder = tmp_path / "artifact"
    emitted(CONV.load(tmp_path), folder, runtime=runtime)
    assert "--stronglyTyped" in arguments(folder)


def test_the_script_works_from_anywhere_and_hands_options_on(tmp_path: Path) -> None:
    """It goes to its own folder, whatever that is called."""
    folder = tmp_path / "it's a $(folder) of mine"
    emitted(CONV.load(tmp_path), folder)
    assert arguments(folder, "--device=1", "--tag=a b")[-2:] == ["--device=1", "--tag=a b"]


def test_a_failing_trtexec_fails_the_script(tmp_path: Path) -> None:
    """CI sees it."""
    folder = tmp_path / "artifact"
    emitted(CONV.load(tmp_path), folder)
    done = subprocess.run([str(folder / "build.sh")], check=False, env=PLAIN, capture_output=True)
    assert done.returncode != 0


def test_dynamic_inputs_ask_for_their_shapes(tmp_path: Path) -> None:
    """By name, as an error before anything is built; given, they are passed on."""
    folder = tmp_path / "artifact"
    emitted(DYNAMIC.load(tmp_path), folder)
    assert parses(folder)
    done = subprocess.run([str(folder / "build.sh")], check=False, capture_output=True, text=True, env=PLAIN)
    assert done.returncode != 0
    assert "set SHAPES=name:1x3x224x224 for the dynamic inputs x, z" in done.stderr
    given = "--shapes=x:4x3,z:4x9"
    assert given in arguments(folder, SHAPES="x:4x3,z:4x9")
    assert "$(touch hacked)" in arguments(folder, SHAPES="$(touch hacked)")[3]
    assert not (folder / "hacked").exists()


def test_shapes_of_the_samples_are_given_to_the_builder(tmp_path: Path) -> None:
    """Smallest, usual and largest; nothing has to be set then. One that is unknown is asked for, with all others."""
    model, target = DYNAMIC.load(tmp_path), targets.create(T4)
    known = {"x": ShapeRange((1, 3), (4, 3), (8, 3)), "z": ShapeRange((1, 9), (1, 9), (1, 9))}
    folder = tmp_path / "artifact"
    folder.mkdir()
    target.emit(model, float_plan(target.regions(model)), folder, known)
    given = arguments(folder)
    assert [each for each in given if "Shapes=" in each] == [
        "--minShapes=x:1x3,z:1x9",
        "--optShapes=x:4x3,z:1x9",
        "--maxShapes=x:8x3,z:1x9",
    ]
    half = tmp_path / "half"
    half.mkdir()
    target.emit(model, float_plan(target.regions(model)), half, {"x": known["x"]})
    assert "set SHAPES=name" in (half / "build.sh").read_text(encoding="utf-8")


HOSTILE = [
    "$(touch hacked)",
    "`touch hacked`",
    '"; touch hacked; "',
    "'; touch hacked; '",
    "}; touch hacked #",
    '}"\ntouch hacked\n',
    "x\\",
    "x}${PATH}",
    "eingabe_größe",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_inputs_are_never_code(tmp_path: Path, name: str) -> None:
    """Models come from anywhere: whatever an input is called, the script does what it always does."""
    graph = helper.make_graph(
        [helper.make_node("Relu", [name], ["y"])],
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    folder = tmp_path / "artifact"
    emitted(ir.load(path), folder)
    assert parses(folder)
    done = subprocess.run(
        [str(folder / "build.sh")], check=False, capture_output=True, text=True, cwd=tmp_path, env=PLAIN
    )
    assert done.returncode != 0
    assert "set SHAPES=" in done.stderr
    assert len(arguments(folder, SHAPES="x:1x3")) == 8
    assert sorted(path.name for path in folder.iterdir()) == ["arguments", "build.sh", "model.onnx", "place"]
    assert not list(tmp_path.rglob("hacked"))

    known = {name: ShapeRange((1, 3), (4, 3), (8, 3))}
    target, ranged = targets.create(T4), tmp_path / "ranged"
    ranged.mkdir()
    model = ir.load(path)
    target.emit(model, float_plan(target.regions(model)), ranged, known)
    assert parses(ranged)
    subprocess.run([str(ranged / "build.sh")], check=False, capture_output=True, cwd=tmp_path, env=PLAIN)
    assert not (tmp_path / "hacked").exists()
    assert not (ranged / "hacked").exists()


def test_words_of_a_profile_are_never_code(tmp_path: Path) -> None:
    """A summary of several lines stays in its comment."""
    folder = tmp_path / "artifact"
    emitted(CONV.load(tmp_path), folder, summary="my board\ntouch hacked\r\ntouch hacked")
    arguments(folder)
    assert not (folder / "hacked").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            """net (float[2] x) => (float[2] y) {
                [odd] b, c, d = DynamicQuantizeLinear(x)  y = DequantizeLinear(b, c, d)
            }""",
            "node `odd`: TensorRT has no operator `DynamicQuantizeLinear`",
        ),
        (
            "net (float[2] x) => (float[2] y) { [odd] y = com.microsoft.Gelu(x) }",
            "node `odd`: TensorRT has no operator `com.microsoft::Gelu`",
        ),
    ],
)
def test_what_the_parser_refuses_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """Before any work, by node."""
    with pytest.raises(InputError) as caught:
        targets.create(T4).check(Network(text).load(tmp_path))
    assert caught.value.message == message
    assert caught.value.hint == "export without it, or name its plugin with --allow-op"


def test_the_artifact_says_what_is_left_to_the_device(tmp_path: Path) -> None:
    """Checked by rules alone; the engine is built by the script, which can be run as it is."""
    folder = tmp_path / "artifact"
    made = emitted(CONV.load(tmp_path), folder)
    assert (made.main, made.files, made.checked) == ("model.onnx", ("model.onnx", "build.sh"), "rules")
    engine, operators = made.unchecked
    assert engine == "no engine was built: run build.sh on the t4"
    assert operators.startswith("operators were checked by name against TensorRT's list, not by its parser; ")
    assert "`infer-opt doctor --install tensorrt-rtx`" in operators
    assert os.access(folder / "build.sh", os.X_OK)
    assert json.dumps(dict(made.run)) == "{}"


def test_the_same_computation_runs_here_and_its_latency_does_not_count(tmp_path: Path) -> None:
    """The ONNX file is verified in onnxruntime; a CPU says nothing of a GPU's speed."""
    folder = tmp_path / "artifact"
    made = emitted(CONV.load(tmp_path), folder)
    target = targets.create(T4)
    feed = uniform_feeds(1, {"x": (1, 3, 8, 8)}).feed[0]
    runner = target.run(folder, made, 1)
    assert runner is not None
    np.testing.assert_allclose(runner.run(feed)["y"], CONV.run(feed)["y"], rtol=1e-5)
    assert target.timed_here() == "the t4 is a GPU"


def test_regions_offer_what_the_profile_has(tmp_path: Path) -> None:
    """INT8 by the dialect and FP16 by the standard; with neither, or without a dialect, all stays as it is."""
    model = CONV.load(tmp_path)
    assert offered(model) == [("Conv:c", ("fp32", "int8", "fp16"))]
    assert offered(model, precisions=("fp32", "fp16")) == [("Conv:c", ("fp32", "fp16")), ("Relu:y", ("fp32", "fp16"))]
    for facts in ({"precisions": ("fp32",)}, {"dialect": None}):
        assert offered(model, **facts) == [("Conv:c", ("fp32",)), ("Relu:y", ("fp32",))]


def offered(model: ir.Model, **facts: object) -> list[tuple[str, tuple[str, ...]]]:
    """Regions and their precisions, for a T4 some of whose facts are others."""
    found = targets.create(profile("t4", **facts)).regions(model)
    return [(region.name, region.precisions) for region in found]


def test_what_the_check_of_half_stands_for_is_said(tmp_path: Path) -> None:
    """Beside what is left to the device; the artifact's own file is what is checked."""
    model = CONV.load(tmp_path)
    target = targets.create(T4)
    regions = target.regions(model)
    plan = with_half(float_plan(regions), half_verdicts(model, regions, None))
    folder = tmp_path / "half"
    folder.mkdir()
    made = target.emit(model, plan, folder)
    assert made.unchecked[-1] == ("FP16: rounding was checked in onnxruntime, sums of the device's kernels were not")
    assert {tensor.data_type for tensor in onnx.load(folder / made.main).graph.initializer} == {TensorProto.FLOAT16}
    feed = uniform_feeds(1, {"x": (1, 3, 8, 8)}).feed[0]
    runner = target.run(folder, made, 1)
    assert runner is not None
    assert 50 < sqnr(CONV.run(feed)["y"], runner.run(feed)["y"]) < 90


JOINED = Network(
    """net (float[1,16,8,8] x) => (float[1,16,8,8] y) {
        [a] h = Conv<pads=[1,1,1,1]>(x, w) [b] i = Conv<pads=[1,1,1,1]>(h, v)
        [j] k = Concat<axis=1>(h, i) [c] y = Conv<pads=[1,1,1,1]>(k, u) }""",
    {"w": normal(16, 16, 3, 3), "v": normal(16, 16, 3, 3, seed=1), "u": normal(16, 32, 3, 3, seed=2)},
    opset=20,
)


def test_a_concat_between_quantizers_has_scales_in_float32(tmp_path: Path) -> None:
    """As onnxruntime has it in one kernel, which takes no others; the convolutions around it have theirs in FP16."""
    model = JOINED.load(tmp_path)
    plan = int8_plan(model, T4, Feeds([{"x": normal(1, 16, 8, 8, seed=3)}]))
    typed = replace(plan, half=frozenset(region.name for region in plan.regions))
    target = targets.create(T4)
    artifact = target.emit(model, typed, tmp_path)
    written = ir.load(tmp_path / artifact.main)
    nodes = ir.nodes(written)
    scales = {name: {maker.inputs[1].dtype for maker in _makers(nodes[name])} for name in ("j", "c")}
    assert scales == {"j": {ir.DataType.FLOAT}, "c": {ir.DataType.FLOAT16}}
    onnxruntime.InferenceSession(tmp_path / artifact.main)


def _makers(node: ir.Node) -> list[ir.Node]:
    """The dequantizers in front of a node."""
    return [maker for value in node.inputs if (maker := value.producer()) and maker.op_type == "DequantizeLinear"]

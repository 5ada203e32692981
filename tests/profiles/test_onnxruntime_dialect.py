"""What the onnxruntime profiles claim, read back from the graphs that onnxruntime really runs."""

from __future__ import annotations

import platform
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from infer_opt import ir, profiles
from infer_opt.calibrate.planner import dynamic_plan
from infer_opt.profiles import Profile
from infer_opt.targets.dynamic import write_dynamic
from infer_opt.targets.qdq import write_qdq
from infer_opt.targets.regions import find_regions
from tests.profiles.qdq_model import SCALE, Case, qdq_model
from tests.targets.networks import Network, optimized

PROFILES = [
    profile
    for name in profiles.names()
    if (profile := profiles.load(name, backends={"onnxruntime", "tensorrt"})).backend == "onnxruntime"
]
INSTALLED = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])

IMAGE = ((1, 8, 6, 6),)
MATRIX = ((4, 16),)

COMPUTE = {
    "Conv": Case(IMAGE, (8, 8, 3, 3), bias=True, kernel="QLinearConv"),
    "Gemm": Case(MATRIX, (16, 8), axis=1, bias=True, kernel="QGemm"),
    "MatMul": Case(MATRIX, (16, 8), axis=1, kernel="QLinearMatMul"),
    "Add": Case(IMAGE * 2, kernel="QLinearAdd"),
    "Mul": Case(IMAGE * 2, kernel="QLinearMul"),
    "Concat": Case(IMAGE * 2, attributes={"axis": 1}, kernel="QLinearConcat"),
    "GlobalAveragePool": Case(IMAGE, kernel="QLinearGlobalAveragePool"),
    "Sigmoid": Case(IMAGE, kernel="QLinearSigmoid"),
    "LeakyRelu": Case(IMAGE, kernel="QLinearLeakyRelu"),
}

DYNAMIC = {
    "MatMul": ("MatMul(x, w)", "DynamicQuantizeMatMul"),
    "Gemm": ("Gemm(x, w, b)", "DynamicQuantizeMatMul"),
    "LSTM": ("LSTM<hidden_size=8>(x, wi, r)", "DynamicQuantizeLSTM"),
}


def ints(*values: int) -> np.ndarray:
    """The operand that shapes, axes and indices are given as."""
    return np.array(values, np.int64)


MOVING = {
    "MaxPool": Case(IMAGE, attributes={"kernel_shape": [2, 2]}),
    "ReduceMax": Case(IMAGE, operands=(ints(2, 3),)),
    "ReduceMin": Case(IMAGE, operands=(ints(2, 3),)),
    "Resize": Case(IMAGE, operands=(None, np.array([1, 1, 2, 2], np.float32)), attributes={"mode": "nearest"}),
    "Reshape": Case(IMAGE, operands=(ints(1, -1),)),
    "Flatten": Case(IMAGE),
    "Squeeze": Case(IMAGE, operands=(ints(0),)),
    "Unsqueeze": Case(IMAGE, operands=(ints(0),)),
    "Transpose": Case(IMAGE, attributes={"perm": [0, 2, 3, 1]}),
    "Slice": Case(IMAGE, operands=(ints(0), ints(4), ints(1))),
    "Split": Case(IMAGE, operands=(ints(4, 4),), attributes={"axis": 1}, outputs=2),
    "Gather": Case(IMAGE, operands=(ints(0, 2),), attributes={"axis": 1}),
    "GatherElements": Case(MATRIX, operands=(np.zeros((4, 3), np.int64),), attributes={"axis": 1}),
    "Expand": Case(IMAGE, operands=(ints(2, 8, 6, 6),)),
    "Tile": Case(IMAGE, operands=(ints(2, 1, 1, 1),)),
}


def session(
    model: onnx.ModelProto, *, level: str = "ENABLE_ALL", signed: bool = False, dump: Path | None = None
) -> onnxruntime.InferenceSession:
    """A session on `model`; with `signed`, int8 activations stay int8, as they do on Arm."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    if dump:
        options.optimized_model_filepath = str(dump)
    if signed:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def optimised(model: onnx.ModelProto, folder: Path, *, signed: bool = False) -> onnx.GraphProto:
    """The graph that onnxruntime makes of `model`."""
    dump = folder / "optimised.onnx"
    session(model, level="ENABLE_EXTENDED", signed=signed, dump=dump)
    return onnx.load(dump).graph


def kernels(graph: onnx.GraphProto) -> list[str]:
    """Op types in the graph, QuantizeLinear and DequantizeLinear left out."""
    return [node.op_type for node in graph.node if not node.op_type.endswith("tizeLinear")]


def count(graph: onnx.GraphProto, op_type: str) -> int:
    """How many nodes of the type the graph holds."""
    return sum(node.op_type == op_type for node in graph.node)


def opsets(profile: Profile) -> list[int]:
    """The ends of the profile's opsets; only the lower one where an older runtime is installed here."""
    assert profile.opset is not None
    assert profile.runtime is not None
    assert profile.runtime.version is not None
    oldest = tuple(int(part) for part in profile.runtime.version.split("."))
    return [profile.opset.min, profile.opset.max] if oldest <= INSTALLED else [profile.opset.min]


def claims(key: str) -> list[object]:
    """Every op that a profile lists under the key, at both ends of its opsets, as parameters of a test."""
    return [
        pytest.param(profile, op, opset, id=f"{profile.name}-{op}-{opset}")
        for profile in PROFILES
        for op in getattr(profile.dialect, key)
        for opset in opsets(profile)
    ]


each_profile = pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
each_host = pytest.mark.parametrize("host", ["x86", "arm"])


@each_host
@pytest.mark.parametrize(("profile", "op", "opset"), claims("compute_ops"))
def test_a_compute_op_takes_its_int8_kernel(profile: Profile, op: str, opset: int, host: str, tmp_path: Path) -> None:
    """Nothing but that kernel is left between the quantizers of the inputs and the output's dequantizer."""
    case = COMPUTE[op]
    graph = optimised(qdq_model(profile.dialect, op, case, opset=opset), tmp_path, signed=host == "arm")
    assert kernels(graph) == [case.kernel]
    assert count(graph, "QuantizeLinear") == len(case.inputs)
    assert count(graph, "DequantizeLinear") == 1


@pytest.mark.parametrize(("profile", "op", "opset"), claims("dynamic_ops"))
def test_a_dynamic_op_becomes_one_kernel(profile: Profile, op: str, opset: int, tmp_path: Path) -> None:
    """With the bias of a Gemm; nothing else is left."""
    body, kernel = DYNAMIC[op]
    half = np.float32(0.5)
    shapes = {"w": (16, 8), "b": (8,), "wi": (1, 32, 16), "r": (1, 32, 8)}
    used = {name: np.full(shape, half) for name, shape in shapes.items() if name in re.findall(r"\w+", body)}
    reads = "float[4,1,16]" if op == "LSTM" else "float[4,16]"
    network = Network(f"net ({reads} x) => (float[] y) {{ y = {body} }}", used, opset)
    model = network.load(tmp_path)
    plan = dynamic_plan(model, find_regions(model, profile.dialect, int8=True))
    data = ir.serialize(write_dynamic(write_qdq(model, plan), plan))
    assert optimized(data, tmp_path) == [kernel]


@each_host
@each_profile
@pytest.mark.parametrize("op", COMPUTE)
def test_an_activation_may_have_any_zero_point(profile: Profile, op: str, host: str, tmp_path: Path) -> None:
    """`activation_symmetric` is false: 7 is as good as the end of the type."""
    assert not profile.dialect.activation_symmetric
    model = qdq_model(profile.dialect, op, COMPUTE[op], zero_point=7)
    assert kernels(optimised(model, tmp_path, signed=host == "arm")) == [COMPUTE[op].kernel]


@each_host
@pytest.mark.parametrize(("profile", "op", "opset"), claims("same_scale_ops"))
def test_a_moving_op_runs_on_integers(profile: Profile, op: str, opset: int, host: str, tmp_path: Path) -> None:
    """The op reads what the quantizer gives and is dequantized only behind."""
    case = MOVING[op]
    graph = optimised(qdq_model(profile.dialect, op, case, opset=opset), tmp_path, signed=host == "arm")
    assert kernels(graph) == [op]
    assert count(graph, "QuantizeLinear") == 1
    assert count(graph, "DequantizeLinear") == case.outputs


@each_profile
@pytest.mark.parametrize("op", ["MaxPool", "Transpose", "Gather"])
def test_a_moving_op_needs_one_scale(profile: Profile, op: str, tmp_path: Path) -> None:
    """With another scale behind it the op falls back to float."""
    graph = optimised(qdq_model(profile.dialect, op, MOVING[op], output_scale=2 * SCALE), tmp_path)
    assert count(graph, "QuantizeLinear") == 2


@each_profile
@pytest.mark.parametrize("op", ["ConvTranspose", "Tanh", "Sub", "Div", "Erf", "HardSigmoid"])
def test_an_op_without_int8_kernel_is_not_listed(profile: Profile, op: str, tmp_path: Path) -> None:
    """Written in the same way, it stays float: the tests above would not pass for any op."""
    weighted = Case(IMAGE, (8, 8, 3, 3), axis=1)
    case = {"ConvTranspose": weighted, "Sub": COMPUTE["Add"], "Div": COMPUTE["Add"]}.get(op, Case(IMAGE))
    assert kernels(optimised(qdq_model(profile.dialect, op, case), tmp_path)) == [op]
    assert op not in profile.dialect.compute_ops


@each_host
@pytest.mark.parametrize(("profile", "op", "opset"), claims("compute_ops"))
def test_the_output_must_be_quantized_but_for_some_ops(
    profile: Profile, op: str, opset: int, host: str, tmp_path: Path
) -> None:
    """`output_q`: with a float output the op runs as float, unless it stands in `float_output_ops`."""
    assert profile.dialect.output_q
    model = qdq_model(replace(profile.dialect, output_q=False), op, COMPUTE[op], opset=opset)
    found = kernels(optimised(model, tmp_path, signed=host == "arm"))
    if op in profile.dialect.float_output_ops:
        assert found == [{"Gemm": "QGemm", "MatMul": "MatMulIntegerToFloat"}[op]]
    else:
        assert found == [op]


@each_profile
def test_a_gemm_with_float_output_may_lack_the_bias(profile: Profile, tmp_path: Path) -> None:
    """The bias is not what makes the kernel."""
    bare = replace(COMPUTE["Gemm"], bias=False)
    model = qdq_model(replace(profile.dialect, output_q=False), "Gemm", bare)
    assert kernels(optimised(model, tmp_path)) == ["QGemm"]


@each_profile
@pytest.mark.parametrize("op", ["Conv", "Gemm", "MatMul"])
@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_an_activation_vanishes_where_the_range_fits(
    profile: Profile, op: str, activation: str, tmp_path: Path
) -> None:
    """`absorb_activations`: a quantizer that starts at 0, and ends where Clip ends, does its work."""
    assert activation in profile.dialect.absorb_activations
    model = qdq_model(profile.dialect, op, COMPUTE[op], activation=activation, output_scale=6 / 255)
    assert kernels(optimised(model, tmp_path)) == [COMPUTE[op].kernel]


@each_profile
@pytest.mark.parametrize(
    ("activation", "scale", "zero_point"),
    [("Relu", SCALE, 10), ("Clip", 6.1 / 255, None), ("LeakyRelu", SCALE, None)],
)
def test_an_activation_stays_where_the_range_does_not_fit(
    profile: Profile, activation: str, scale: float, zero_point: int | None, tmp_path: Path
) -> None:
    """A range below 0 or above the end of Clip, or an op that is not listed, costs the int8 Conv."""
    model = qdq_model(
        profile.dialect,
        "Conv",
        COMPUTE["Conv"],
        activation=activation,
        output_scale=scale,
        zero_point=zero_point,
    )
    assert not any(kernel.startswith("QLinear") for kernel in kernels(optimised(model, tmp_path)))


@each_profile
def test_inputs_of_a_concat_may_have_their_own_scales(profile: Profile, tmp_path: Path) -> None:
    """`concat_shares_scale` is false: scales of 0.05 and 0.1 going into 0.2 still make an int8 kernel."""
    assert not profile.dialect.concat_shares_scale
    model = qdq_model(profile.dialect, "Concat", COMPUTE["Concat"], output_scale=4 * SCALE)
    assert kernels(optimised(model, tmp_path)) == ["QLinearConcat"]


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="compares with x86")
@pytest.mark.parametrize("op", ["Conv", "Add", "MaxPool"])
def test_activations_have_the_type_of_the_profile(op: str, tmp_path: Path) -> None:
    """On Arm the kernels read int8 as the profile says; x86 makes it uint8 while loading."""
    (arm,) = (profile for profile in PROFILES if profile.name == "arm-a78")
    model = qdq_model(arm.dialect, op, (COMPUTE | MOVING)[op])
    types = {}
    for signed in (True, False):
        graph = optimised(model, tmp_path, signed=signed)
        zero_points = {node.input[2] for node in graph.node if node.op_type == "QuantizeLinear"}
        types[signed] = {value.data_type for value in graph.initializer if value.name in zero_points}
    assert types == {True: {onnx.TensorProto.INT8}, False: {onnx.TensorProto.UINT8}}


@pytest.mark.parametrize("op", [*COMPUTE, *MOVING])
def test_the_int8_kernel_computes_what_the_graph_says(op: str) -> None:
    """Against the same graph run op by op in float: at most one step of the output apart.

    With 7-bit weights, which no CPU saturates.
    """
    (avx2,) = (profile for profile in PROFILES if profile.name == "x86-avx2")
    assert avx2.dialect.weight_bits == 7
    case = (COMPUTE | MOVING)[op]
    model = qdq_model(avx2.dialect, op, case)
    random = np.random.default_rng(1)
    feeds = {f"x{i}": random.uniform(0, 12, shape).astype(np.float32) for i, shape in enumerate(case.inputs)}
    expected = session(model, level="DISABLE_ALL").run(None, feeds)
    actual = session(model).run(None, feeds)
    assert len({float(value) for value in expected[0].flat}) > 2
    for wanted, got in zip(expected, actual, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1.01 * SCALE)

"""Where quantizers go for TensorRT: at the inputs of what it fuses, and with doubts below the cut-offs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from infer_opt import ir, targets
from infer_opt.calibrate.half import half_values, half_verdicts, with_half
from infer_opt.calibrate.plan import Plan, Region
from infer_opt.calibrate.planner import integer_plan, watched_values
from infer_opt.calibrate.ranges import MinMax
from infer_opt.calibrate.statistics import collect
from infer_opt.profiles import Cutoffs
from tests.targets.networks import Feeds, Network, normal, profile, run, sqnr

T4 = profile("t4")
V = normal(16, 16, 3, 3, scale=0.1)
U = normal(16, 16, 3, 3, seed=1, scale=0.1)


def regions(network: Network, folder: Path, **cutoffs: object) -> dict[str, Region]:
    """Regions by the first node's output, for a T4 with other cut-offs."""
    device = replace(T4, cutoffs=Cutoffs(**cutoffs)) if cutoffs else T4
    model = network.load(folder)
    outputs = {str(node.name): str(node.outputs[0].name) for node in model.graph}
    return {outputs[region.name]: region for region in targets.create(device).regions(model)}


def reads(region: Region) -> tuple[str, ...] | None:
    """What it reads in integers; None where it has no INT8."""
    scheme = region.scheme("int8")
    return None if scheme is None else scheme.reads


def net(body: str, **more: np.ndarray) -> Network:
    """Convolutions of 16 channels on x; `z` is a second input."""
    words = body.replace("(", " ").replace(")", " ").replace(",", " ").split()
    constants = {name: array for name, array in ({"v": V, "u": U} | more).items() if name in words}
    text = f"net (float[1,16,8,8] x, float[1,16,8,8] z) => (float y) {{ {body} }}"
    return Network(text.replace("Conv(", "Conv<pads=[1,1,1,1]>("), constants, opset=20)


def test_only_inputs_are_quantized_and_an_activation_belongs_to_its_conv(tmp_path: Path) -> None:
    """`output_q` is false: nothing is forced between a Conv and what follows."""
    found = regions(net("c = Conv(x, v) r = Relu(c) y = Conv(r, u)"), tmp_path)
    assert {name: reads(region) for name, region in found.items()} == {"c": ("x",), "y": ("r",)}
    assert found["c"].nodes == ("Conv:c", "Relu:r")
    assert all(region.scheme("int8").writes == () for region in found.values() if region.scheme("int8"))


RESIDUALS = {
    "the other branch is read in integers": ("c = Conv(x, v) r = Relu(c) d = Conv(r, u) y = Add(d, r)", ("r",)),
    "whichever side it stands on": ("c = Conv(x, v) r = Relu(c) d = Conv(r, u) y = Add(r, d)", ("r",)),
    "of two convolutions the later one is fused": ("c = Conv(x, v) d = Conv(x, u) y = Add(c, d)", ("c",)),
    "one that others read is not fused": ("c = Conv(x, v) y0 = Add(c, x) y = Mul(y0, c)", None),
    "one behind its activation is not fused": ("c = Conv(x, v) r = Relu(c) y = Add(r, x)", None),
    "two that no convolution made": ("c = Conv(x, v) a = Sigmoid(c) y = Add(a, c)", None),
    "itself": ("c = Conv(x, v) y = Add(c, c)", None),
}


@pytest.mark.parametrize("case", RESIDUALS)
def test_a_residual_add(tmp_path: Path, case: str) -> None:
    """Only the branch that is not fused with its Conv gets quantizers."""
    body, wanted = RESIDUALS[case]
    (add,) = [region for region in regions(net(body), tmp_path).values() if region.op_type == "Add"]
    assert reads(add) == wanted
    assert add.scheme("fp16") is not None


def test_a_bias_is_no_branch(tmp_path: Path) -> None:
    """Nor is anything that is broadcast."""
    found = regions(net("c = Conv(x, v) y = Add(c, b)", b=normal(16, 1, 1)), tmp_path)
    assert (reads(found["y"]), found["y"].reason) == (None, "it adds no second branch")


def test_a_concat_shares_one_scale_with_who_reads_it(tmp_path: Path) -> None:
    """Its inputs and what its readers quantize, also behind a MaxPool; none where nothing behind it is INT8."""
    body = """c = Conv(x, v) d = Conv(x, u) j = Concat<axis=1>(c, d)
              m = MaxPool<kernel_shape=[2,2], strides=[2,2]>(j) y = Conv(m, t)"""
    network = net(body, t=normal(16, 32, 3, 3, seed=2, scale=0.1))
    found = regions(network, tmp_path)
    assert reads(found["j"]) == ("c", "d")
    scheme = found["j"].scheme("int8")
    assert scheme is not None
    assert scheme.shares_with == ("m",)
    model = network.load(tmp_path)
    plan = int8_plan(model, seeded(3))
    assert plan.activations["c"] == plan.activations["d"] == plan.activations["m"]
    assert plan.activations["x"] != plan.activations["m"]
    found = regions(net("c = Conv(x, v) d = Conv(x, u) y = Concat<axis=1>(c, d)"), tmp_path)
    assert (reads(found["y"]), found["y"].reason) == (None, "nothing behind it reads integers")


def test_what_moves_data_has_no_quantizers_of_its_own(tmp_path: Path) -> None:
    """TensorRT moves them across; an average is computed, and has them."""
    found = regions(net("c = Conv(x, v) m = MaxPool<kernel_shape=[2,2]>(c) y = GlobalAveragePool(m)"), tmp_path)
    assert found["m"].reason == "it moves data, and the runtime moves quantizers across it by itself"
    assert reads(found["y"]) == ("m",)


DOUBTS = {
    "a Conv of few inputs": ("y = Conv(s, n)", "it has 4 channels, under 16"),
    "a grouped Conv": ("y = Conv<group=16>(x, g)", None),
    "a grouped Conv of 1x1": ("y = Conv<group=16>(x, k)", "its kernel in groups is smaller than 3"),
    "a large product": ("a = Reshape(x, long) y = MatMul(a, m)", None),
    "a matrix-vector product": ("a = Reshape(x, flat) y = MatMul(a, q)", "it multiplies 1 row, under 2"),
    "a narrow product": ("a = Reshape(x, long) y = MatMul(a, w)", "it has 3 channels, under 16"),
    "attention": ("y = MatMul(x, z)", "products of two activations (attention) gain nothing"),
}
MORE = {
    "n": normal(16, 4, 3, 3),
    "g": normal(16, 1, 3, 3),
    "k": normal(16, 1, 1, 1),
    "m": normal(16, 16),
    "q": normal(1024, 16),
    "w": normal(16, 3),
    "long": np.array([64, 16]),
    "flat": np.array([1, 1024]),
}


@pytest.mark.parametrize("case", DOUBTS)
def test_cutoffs_are_doubts_and_no_refusals(tmp_path: Path, case: str) -> None:
    """INT8 is there for an order; `auto` reads the doubt. Without cut-offs there is none."""
    body, doubt = DOUBTS[case]
    network = net(body, **MORE)
    network = replace(network, text=network.text.replace("float[1,16,8,8] x", "float[1,16,8,8] x, float[1,4,8,8] s"))
    scheme = regions(network, tmp_path)["y"].scheme("int8")
    assert scheme is not None
    assert scheme.doubt == doubt
    free = regions(network, tmp_path, rows=1)["y"].scheme("int8")
    assert free is not None
    assert free.doubt is None


def seeded(count: int) -> Feeds:
    """Samples for `net`."""
    return Feeds([{name: normal(1, 16, 8, 8, seed=2 * i + j) for j, name in enumerate("xz")} for i in range(count)])


def int8_plan(model: ir.Model, samples: Feeds, *, ordered: bool = True) -> Plan:
    """INT8 with the rest in FP16."""
    found = targets.create(T4).regions(model)
    wanted = dict.fromkeys([*watched_values(model, found), *half_values(model, found)])
    sketches = collect(model, list(wanted), samples).sketches
    plan = integer_plan(model, found, sketches, MinMax(), ordered=ordered)
    return with_half(plan, half_verdicts(model, found, sketches))


def test_without_an_order_a_doubt_leaves_a_region_in_half(tmp_path: Path) -> None:
    """And the report says why it was left alone; with an order it says what was overruled."""
    model = net("c = Conv(x, n) y = Conv(c, v)", n=normal(16, 16, 3, 3), v=normal(4, 16, 3, 3)).load(tmp_path)
    free, ordered = int8_plan(model, seeded(2), ordered=False), int8_plan(model, seeded(2))
    assert free.choices["Conv:c"].precision == "int8"
    choice = free.choices["Conv:y"]
    assert (choice.precision, choice.reason) == ("fp16", "ranges fit (measured); not INT8: it has 4 channels, under 16")
    assert ordered.choices["Conv:y"].reason == (
        "legal in the dialect, ranges finite; ordered, though it has 4 channels, under 16"
    )


def test_the_written_graph_is_what_tensorrt_takes(tmp_path: Path) -> None:
    """Signed, zero points 0, float bias, scales in the dtype of the data, no Cast before a kernel; and right."""
    body = "c = Conv(x, v, b) r = Relu(c) d = Conv(r, u) e = Add(d, r) y = Conv(e, w)"
    network = net(body, b=normal(16), w=normal(16, 16, 3, 3, seed=5, scale=0.1))
    network = replace(network, text=network.text.replace("float y", "float[1,16,8,8] y"))
    model = network.load(tmp_path)
    samples = seeded(4)
    target, plan = targets.create(T4), int8_plan(model, samples)
    folder = tmp_path / "artifact"
    folder.mkdir()
    artifact = target.emit(model, plan, folder)
    proto = onnx.load(folder / artifact.main)
    onnx.checker.check_model(proto, full_check=True)
    graph = proto.graph
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type in {"QuantizeLinear", "DequantizeLinear"}:
            assert constants[node.input[2]].dtype == np.int8
            assert not constants[node.input[2]].any()
            assert constants[node.input[1]].dtype == (np.float32 if node.input[0] == "x" else np.float16)
        if node.op_type == "Conv":
            assert [made[name].op_type for name in node.input[:2]] == ["DequantizeLinear"] * 2
            assert all(constants[name].dtype == np.float16 for name in node.input[2:])
    (add,) = [node for node in graph.node if node.op_type == "Add"]
    assert [made[name].op_type for name in add.input] == ["Conv", "DequantizeLinear"]
    assert [node.output[0] for node in graph.node if node.op_type == "Cast"] == ["y"]
    feed = samples.feed[0]
    expected = network.run(feed)["y"]
    runner = target.run(folder, artifact, 1)
    assert runner is not None
    assert sqnr(expected, runner.run(feed)["y"]) > 30
    np.testing.assert_array_equal(runner.run(feed)["y"], run(ir.serialize(target.rehearse(model, plan)), feed)["y"])

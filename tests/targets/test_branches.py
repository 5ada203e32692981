"""INT8 in the branches of an If: integer kernels in both, and outputs near the float ones whichever runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from infer_opt import ir
from infer_opt.profiles import Profile
from infer_opt.targets.float_weights import keep_float_weights
from infer_opt.targets.qdq import write_qdq
from tests.onnx_text import run as run_plainly
from tests.targets.early_exit import EARLY, EARLY_EXIT, LATE, samples, takes_early
from tests.targets.networks import (
    Feeds,
    Int8,
    Network,
    for_any_host,
    int8,
    int8_plan,
    normal,
    run,
    session_of,
    sqnr,
)

X86, ARM = for_any_host("x86-avx512-vnni"), for_any_host("arm-a78")
DEVICES = pytest.mark.parametrize(
    ("device", "config"), [(X86, {}), (ARM, {"session_qdqisint8allowed": "1"})], ids=["u8", "s8"]
)
CONV = {"w": normal(8, 8, 3, 3, scale=0.2), "b": normal(8, seed=1, scale=0.3)}
IMAGES = Feeds(
    [{"x": normal(1, 8, 9, 9, seed=seed), "p": np.array(seed % 2 == 0), "q": np.array(seed < 4)} for seed in range(8)]
)


def branching(before: str, then: str, otherwise: str, **constants: np.ndarray) -> Network:
    """A net of one image: something before, and an If on `p` whose branches make `a` and `c`."""
    return Network(
        f"""net (float[1,8,9,9] x, bool p, bool q) => (float[] y) {{ {before} [exit] y = If(p) <
            then_branch = one () => (float[] a) {{ {then} }},
            else_branch = two () => (float[] c) {{ {otherwise} }}> }}""",
        CONV | constants,
    )


def kernels(artifact: bytes, folder: Path, **config: str) -> dict[str, list[str]]:
    """Operators that onnxruntime really runs, sorted, by the name of each graph; layout changes aside."""
    session_of(artifact, folder / "optimized.onnx", **config)
    graphs = {graph.name: graph for graph in every_graph(onnx.load(folder / "optimized.onnx").graph)}
    return {name: sorted(node.op_type for node in graph.node) for name, graph in graphs.items()}


def every_graph(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """A graph and all inside it."""
    inner = [attr.g for node in graph.node for attr in node.attribute if attr.HasField("g")]
    return [graph, *(each for one in inner for each in every_graph(one))]


def nodes_of(made: Int8, op_type: str) -> dict[str, list[str]]:
    """First inputs of all nodes of an operator in what was written, by the name of each graph."""
    return {
        graph.name: [node.input[0] for node in graph.node if node.op_type == op_type]
        for graph in every_graph(made.proto.graph)
    }


def assert_close(network: Network, made: Int8, feeds: Feeds, least: float = 30.0, **config: str) -> None:
    """Every output of every sample is within so many dB of the float model's."""
    for feed in feeds:
        expected, got = network.run(feed), run(made.data, feed, **config)
        assert min(sqnr(expected[name], got[name]) for name in expected) > least


@DEVICES
def test_an_early_exit_is_quantized_in_both_branches(device: Profile, config: dict[str, str], tmp_path: Path) -> None:
    """Integer kernels alone in each of them, and as good whichever way a sample takes."""
    feeds = samples(6, 6)
    made = int8(EARLY_EXIT, device, feeds, tmp_path)
    assert {region.scope for region, _ in made.plan.lowered()} == {None, EARLY, LATE}
    assert {takes_early(feed) for feed in feeds} == {True, False}
    found = kernels(made.data, tmp_path, **config)
    assert found["early"] == ["Flatten", "MatMulIntegerToFloat", "QLinearConv", "QLinearGlobalAveragePool"]
    assert found["late"] == [
        *("Flatten", "MatMulIntegerToFloat", "QLinearAdd"),
        *("QLinearConv", "QLinearConv", "QLinearGlobalAveragePool"),
    ]
    assert found["net"].count("QLinearConv") == 1
    assert "Conv" not in found["net"]
    assert_close(EARLY_EXIT, made, feeds, **config)


def test_constants_that_branches_share_are_stored_once(tmp_path: Path) -> None:
    """Both read the trunk's weights and one matrix: four integer weights in all, none in float any more."""
    made = int8(EARLY_EXIT, X86, samples(2, 2), tmp_path)
    stored = [tensor for graph in every_graph(made.proto.graph) for tensor in graph.initializer]
    large = sorted(tensor.name for tensor in stored if np.prod(tensor.dims) > 32)
    assert large == ["k_quantized", "u_quantized", "v_quantized", "w_quantized"]


def test_a_branch_that_no_sample_takes_stays_in_float(tmp_path: Path) -> None:
    """With that for a reason, also where it only reads what was seen; it computes what it did."""
    feeds = samples(4, 0)
    made = int8(EARLY_EXIT, X86, feeds, tmp_path)
    reasons = {
        made.plan.choices[region.name].reason for region in made.plan.regions if region.scope == LATE and region.schemes
    }
    assert reasons == {f"never seen: no calibration sample takes `{LATE}`"}
    assert {region.scope for region, _ in made.plan.lowered()} == {None, EARLY}
    assert kernels(made.data, tmp_path)["late"].count("FusedConv") + kernels(made.data, tmp_path)["late"].count("Conv")
    assert not [kind for kind in kernels(made.data, tmp_path)["late"] if kind.startswith("QLinear")]
    assert_close(EARLY_EXIT, made, samples(2, 4))


def test_integers_of_the_graph_around_are_read_as_they_are(tmp_path: Path) -> None:
    """Nothing but a DequantizeLinear stands in a branch for them, and none outside where nobody reads it there."""
    network = branching("t = Conv(x, w, b)", "a = Conv(t, w, b)", "r = Conv(t, w, b) c = Neg(r)")
    made = int8(network, X86, IMAGES, tmp_path)
    assert nodes_of(made, "QuantizeLinear") == {"net": ["x", "t"], "one": ["a_float"], "two": ["r"]}
    readers = nodes_of(made, "DequantizeLinear")
    assert [names.count("t_quantized") for names in (readers["net"], readers["one"], readers["two"])] == [0, 1, 1]
    assert kernels(made.data, tmp_path)["net"] == ["If", "QLinearConv", "QuantizeLinear"]
    assert_close(network, made, IMAGES)


def test_what_only_a_branch_reads_in_integers_is_quantized_there(tmp_path: Path) -> None:
    """The float value is left to the other branch, which pays for no quantizer."""
    network = branching("t = Sin(x)", "a = Conv(t, w, b)", "c = Neg(t)")
    made = int8(network, X86, IMAGES, tmp_path)
    assert nodes_of(made, "QuantizeLinear") == {"net": [], "one": ["t", "a_float"], "two": []}
    assert kernels(made.data, tmp_path)["one"] == ["DequantizeLinear", "QLinearConv", "QuantizeLinear"]
    assert kernels(made.data, tmp_path)["two"] == ["Neg"]
    assert_close(network, made, IMAGES)


def test_a_float_operator_of_a_branch_reads_the_integers_too(tmp_path: Path) -> None:
    """Otherwise the kernel that makes them would have to keep its float output."""
    network = branching("t = Conv(x, w, b)", "a = Neg(t)", "c = Identity(t)")
    made = int8(network, X86, IMAGES, tmp_path)
    assert nodes_of(made, "QuantizeLinear")["net"] == ["x", "t"]
    assert "QLinearConv" in kernels(made.data, tmp_path)["net"]
    assert_close(network, made, IMAGES)


def test_an_if_inside_a_branch(tmp_path: Path) -> None:
    """All three ways through have integer kernels, and share the integers of the branch around."""
    nested = """m = Conv(t, w, b) [inner] a = If(q) <
        then_branch = three () => (float[] e) { e = Conv(m, w, b) },
        else_branch = four () => (float[] f) { f = Add(m, m) }>"""
    network = branching("t = Conv(x, w, b)", nested, "c = Conv(t, u, b)", u=normal(8, 8, 3, 3, seed=5, scale=0.2))
    made = int8(network, X86, IMAGES, tmp_path)
    found = kernels(made.data, tmp_path)
    assert {name for name, kinds in found.items() if "QLinearConv" in kinds} == {"net", "one", "three", "two"}
    assert "QLinearAdd" in found["four"]
    assert nodes_of(made, "QuantizeLinear")["one"] == ["m"]
    assert_close(network, made, IMAGES)


LOOP = Network(
    """net (float[1,8,9,9] x, int64 n, bool on) => (float[] y) {
        t = Conv<pads=[1,1,1,1]>(x, w, b)
        [turns] s = Loop(n, on, x) <
            body = turn (int64 i, bool go, float[1,8,9,9] h) => (bool go_on, float[1,8,9,9] h2) {
            go_on = Identity(go)  [again] g = Conv<pads=[1,1,1,1]>(h, w, b)  v = Add(g, t)  h2 = Tanh(v)
        }>
        y = Conv(s, w, b)
    }""",
    CONV,
)


def test_the_body_of_a_loop_stays_in_float(tmp_path: Path) -> None:
    """With the reason; what stands around it is quantized, and dequantized once and not in every turn."""
    feeds = Feeds([{"x": feed["x"], "n": np.array(3), "on": np.array(1, np.bool_)} for feed in IMAGES])
    made = int8(LOOP, X86, feeds, tmp_path)
    again = next(region for region in made.plan.regions if region.name == "again")
    assert again.scope == "turns/body"
    assert again.reason == "it runs in turns, inside `turns/body`, where nothing watches its values"
    assert nodes_of(made, "DequantizeLinear")["turn"] == []
    assert nodes_of(made, "QuantizeLinear") == {"net": ["x", "t", "s", "y_float"], "turn": []}
    assert_close(LOOP, made, feeds, 25.0)


def test_float_weights_of_a_branch_stay_float(tmp_path: Path) -> None:
    """Between quantizers, onnxruntime would quantize them with one scale for all channels, in a branch too."""
    uneven = normal(8, 1, 3, 3) * np.logspace(-3, 0, 8, dtype=np.float32).reshape(8, 1, 1, 1)
    even = normal(8, 8, 3, 3, seed=3) / np.logspace(-3, 0, 8, dtype=np.float32).reshape(1, 8, 1, 1)
    branch = "[kept] h = Conv<group=8>(t, d) [last] a = Conv(h, v)"
    network = branching("[trunk] t = Conv(x, w, b)", branch, "c = Neg(t)", d=uneven, v=even)
    model = network.load(tmp_path)
    inside = next(scope.graph for scope in ir.scopes(model) if scope.name == "exit/then_branch")
    inside.register_initializer(model.graph.initializers.pop("d"))
    plan = int8_plan(model, X86, IMAGES).only(["trunk", "last"])

    def worst(artifact: ir.Model) -> float:
        """How far onnxruntime's optimizations lead away from the graph as it is written."""
        data, feed = ir.serialize(artifact), IMAGES.feed[0]
        [plain] = run_plainly(data, feed)
        return sqnr(plain, run(data, feed)["y"])

    kept = keep_float_weights(write_qdq(model, plan))
    assert kernels(ir.serialize(kept), tmp_path)["one"].count("Conv") == 1
    assert worst(kept) > 35
    assert worst(write_qdq(model, plan)) < 20


def test_the_text_of_a_quantized_early_exit(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    """A trunk in integers, a branch that reads them, and one that quantizes for itself what the trunk has in float."""
    network = Network(
        """net (float[1,2,3,3] x, bool p) => (float[1,2,1,1] y) {
            t = Conv(x, w)  f = Neg(t)  y = If(p) <
                then_branch = one () => (float[1,2,1,1] a) { a = Conv(t, v) },
                else_branch = two () => (float[1,2,1,1] c) { r = Conv(f, v) c = Relu(r) }>
        }""",
        {"w": np.ones((2, 2, 3, 3), np.float32) / 4, "v": np.array([[[[1]], [[2]]], [[[4]], [[-8]]]], np.float32)},
    )
    ramp = np.arange(-6, 12, dtype=np.float32).reshape(1, 2, 3, 3)
    feeds = Feeds([{"x": ramp * sign, "p": np.array(sign > 0)} for sign in (np.float32(1), np.float32(-1))])
    model = network.load(tmp_path)
    golden("targets/early_exit.txt", ir.text(write_qdq(model, int8_plan(model, X86, feeds))))

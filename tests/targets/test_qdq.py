"""The Q/DQ writer, judged by what onnxruntime makes of its graphs: integer kernels, and outputs near the float ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from infer_opt import ir
from infer_opt.calibrate.plan import Choice, Plan, Region, Scheme
from infer_opt.calibrate.planner import float_plan
from infer_opt.calibrate.quantization import Format, from_range
from infer_opt.profiles import Profile
from infer_opt.targets.qdq import write_qdq
from tests.targets.networks import (
    Feeds,
    Int8,
    Network,
    for_any_host,
    int8,
    normal,
    optimized,
    profile,
    run,
    sqnr,
    uniform_feeds,
)

X86, ARM = for_any_host("x86-avx512-vnni"), for_any_host("arm-a78")
EIGHT_BITS = profile("x86-avx512-vnni")
SIGNED = {"session_qdqisint8allowed": "1"}
DEVICES = pytest.mark.parametrize(("device", "config"), [(X86, {}), (ARM, SIGNED)], ids=["u8", "s8"])
BORDER = {"QuantizeLinear", "DequantizeLinear"}

CONV = {"w": normal(8, 8, 3, 3, scale=0.2), "b": normal(8, seed=1, scale=0.3)}
IMAGE = {"x": (1, 8, 9, 9)}
ENDS = {"low": np.float32(-1), "high": np.float32(1), "zero": np.float32(0), "six": np.float32(6)}


def on_image(body: str, output: str = "y", **constants: np.ndarray) -> Network:
    """A net of one image."""
    return Network(f"net (float[1,8,9,9] x) => (float[] {output}) {{ {body} }}", CONV | constants)


def on_matrix(body: str, inputs: str = "float[5,16] x", **constants: np.ndarray) -> Network:
    """A net of one matrix."""
    return Network(f"net ({inputs}) => (float[] y) {{ {body} }}", constants)


MATRIX = {"x": (5, 16)}
V, U = normal(16, 8, scale=0.3), normal(8, seed=1)
NETWORKS: dict[str, tuple[Network, dict[str, tuple[int, ...]], list[str]]] = {
    "Conv": (on_image("y = Conv(x, w, b)"), IMAGE, ["QLinearConv"]),
    "Conv without bias": (on_image("y = Conv(x, w)"), IMAGE, ["QLinearConv"]),
    "Conv, Relu": (on_image("c = Conv(x, w, b) y = Relu(c)"), IMAGE, ["QLinearConv"]),
    "Conv, Clip(0, 6)": (on_image("c = Conv(x, w, b) y = Clip(c, zero, six)", **ENDS), IMAGE, ["QLinearConv"]),
    "Conv, Clip(-1, 1)": (on_image("c = Conv(x, w, b) y = Clip(c, low, high)", **ENDS), IMAGE, ["QLinearConv"]),
    "depthwise": (on_image("y = Conv<group=8>(x, d, b)", d=normal(8, 1, 3, 3)), IMAGE, ["QLinearConv"]),
    "grouped": (on_image("y = Conv<group=2>(x, d, b)", d=normal(8, 4, 3, 3)), IMAGE, ["QLinearConv"]),
    "strided and dilated": (
        on_image("y = Conv<strides=[2,2], dilations=[2,2], pads=[1,1,1,1]>(x, w, b)"),
        IMAGE,
        ["QLinearConv"],
    ),
    "1-D Conv": (
        Network(
            "net (float[1,8,40] x) => (float[] y) { c = Conv(x, w, b) y = Relu(c) }",
            {"w": normal(8, 8, 3), "b": normal(8)},
        ),
        {"x": (1, 8, 40)},
        ["QLinearConv"],
    ),
    "residual": (
        on_image("c = Conv<pads=[1,1,1,1]>(x, w, b) r = Relu(c) a = Add(r, x) y = Relu(a)"),
        IMAGE,
        ["QLinearAdd", "QLinearConv"],
    ),
    "SiLU": (
        on_image("c = Conv(x, w, b) s = Sigmoid(c) y = Mul(c, s)"),
        IMAGE,
        ["QLinearConv", "QLinearMul", "QLinearSigmoid"],
    ),
    "LeakyRelu": (
        on_image("c = Conv(x, w, b) y = LeakyRelu<alpha=0.1>(c)"),
        IMAGE,
        ["QLinearConv", "QLinearLeakyRelu"],
    ),
    "Concat": (
        on_image("c = Conv(x, w, b) d = Conv(x, w) r = Relu(d) y = Concat<axis=1>(c, r)"),
        IMAGE,
        ["QLinearConcat", "QLinearConv", "QLinearConv"],
    ),
    "MaxPool": (
        on_image("c = Conv(x, w, b) r = Relu(c) y = MaxPool<kernel_shape=[2,2]>(r)"),
        IMAGE,
        ["MaxPool", "QLinearConv"],
    ),
    "GlobalAveragePool, Gemm": (
        on_image("c = Conv(x, w, b) g = GlobalAveragePool(c) f = Flatten(g) y = Gemm(f, v)", v=normal(8, 5)),
        IMAGE,
        ["Flatten", "QGemm", "QLinearConv", "QLinearGlobalAveragePool"],
    ),
    "Add of a constant": (
        on_image("c = Conv(x, w, b) y = Add(c, k)", k=normal(1, 8, 1, 1)),
        IMAGE,
        ["QLinearAdd", "QLinearConv"],
    ),
    "Gemm": (on_matrix("y = Gemm(x, v, u)", v=V, u=U), MATRIX, ["QGemm"]),
    "Gemm transposed": (on_matrix("y = Gemm<transB=1>(x, v, u)", v=V.T.copy(), u=U), MATRIX, ["QGemm"]),
    "Gemm without bias": (on_matrix("y = Gemm<alpha=0.5>(x, v)", v=V), MATRIX, ["QGemm"]),
    "MatMul": (on_matrix("y = MatMul(x, v)", v=V), MATRIX, ["MatMulIntegerToFloat"]),
    "batched MatMul": (
        on_matrix("y = MatMul(x, v)", "float[3,5,16] x", v=normal(3, 16, 8)),
        {"x": (3, 5, 16)},
        ["MatMulIntegerToFloat"],
    ),
    "MatMul of two activations": (
        on_matrix("y = MatMul(x, z)", "float[3,5,16] x, float[3,16,8] z"),
        {"x": (3, 5, 16), "z": (3, 16, 8)},
        ["MatMulIntegerToFloat"],
    ),
    "two Gemm": (
        on_matrix("h = Gemm(x, v, u) r = Relu(h) y = Gemm(r, t)", v=V, u=U, t=normal(8, 6)),
        MATRIX,
        ["QGemm", "QGemm"],
    ),
}


@DEVICES
@pytest.mark.parametrize("case", NETWORKS)
def test_onnxruntime_runs_integer_kernels_near_the_float_net(
    tmp_path: Path, case: str, device: Profile, config: dict[str, str]
) -> None:
    """No float kernel is left between the borders, activations are gone, and 30 dB or more are kept."""
    network, shapes, kernels = NETWORKS[case]
    samples = uniform_feeds(6, shapes)
    made = int8(network, device, samples, tmp_path)
    onnx.checker.check_model(made.proto, full_check=True)
    assert [op for op in optimized(made.data, tmp_path, **config) if op not in BORDER] == kernels
    expected = np.concatenate([network.run(feed)["y"].ravel() for feed in samples.feed])
    got = np.concatenate([run(made.data, feed, **config)["y"].ravel() for feed in samples.feed])
    assert sqnr(expected, got) > 30


@pytest.mark.parametrize("device", [X86, ARM], ids=["u8", "s8"])
def test_the_artifact_computes_what_integer_arithmetic_says(tmp_path: Path, device: Profile) -> None:
    """Against a Gemm done in int64 on the stored integers, to the last bit of one float32 rounding."""
    network = on_matrix("y = Gemm(x, v, u)", v=V, u=U)
    made = int8(network, device, uniform_feeds(4, MATRIX), tmp_path)
    stored, source, weight = made.constants(), made.plan.activations["x"], made.plan.weights["Gemm:y", 1]
    x = normal(5, 16, seed=9)
    levels = source.quantize(x).astype(np.int64) - int(source.zero_point)
    sums = levels @ stored["v_quantized"].astype(np.int64) + stored["u_quantized"].astype(np.int64)
    expected = sums * (source.scale.astype(np.float64) * weight.scale.astype(np.float64))
    config = SIGNED if device is ARM else {}
    np.testing.assert_allclose(run(made.data, {"x": x}, **config)["y"], expected, rtol=1e-5, atol=1e-5)


def test_seven_bit_weights_cannot_saturate_pairs_of_products(tmp_path: Path) -> None:
    """On AVX2 two u8 x s8 products are added in 16 bits: the largest such pair fits, which 8 bits do not promise."""
    network = on_image("y = Conv(x, w, b)", w=normal(8, 8, 3, 3, scale=5))
    seven = (
        int8(network, profile("x86-avx2"), uniform_feeds(2, IMAGE), tmp_path)
        .constants()["w_quantized"]
        .astype(np.int64)
    )
    eight = int8(network, EIGHT_BITS, uniform_feeds(2, IMAGE), tmp_path).constants()["w_quantized"].astype(np.int64)
    assert 62 <= np.abs(seven).max() <= 64
    assert np.abs(eight).max() == 127
    rng = np.random.default_rng(0)
    for weights, fits in ((seven, True), (eight, False)):
        pairs = weights.reshape(8, -1, 2)
        activations = rng.integers(0, 256, (1000, 1, *pairs.shape[1:]))
        activations[0] = 255
        sums = (activations * pairs).sum(-1)
        assert bool((np.abs(sums) <= np.iinfo(np.int16).max).all()) == fits


@pytest.mark.parametrize("bits", [8, 7])
def test_noise_of_a_quantizer_is_a_twelfth_of_its_squared_step(tmp_path: Path, bits: int) -> None:
    """Within 0.5 dB of step**2 / 12 for a uniform input (W. R. Bennett, Spectra of quantized signals, 1948).

    The net does nothing but add 0 behind a quantizer, so that all noise is the quantizer's.
    """
    network = Network("net (float[64,1024] x) => (float[64,1024] y) { y = Add(x, zero) }", {"zero": np.float32(0)})
    form = Format("uint8", symmetric=False, bits=None if bits == 8 else bits)
    source = from_range(-1.0, 1.0, form)
    scheme = Scheme("int8", form, reads=("x", "zero"))
    region = Region("Add:y", ("Add:y",), ("Add:y",), "Add", schemes=(scheme,))
    plan = Plan("int8", (region,), {"Add:y": Choice("int8", "asked for")}, {"x": source, "zero": source})
    model = network.load(tmp_path)
    [feed] = uniform_feeds(1, {"x": (64, 1024)}, reach=0.99).feed
    got = run(ir.serialize(write_qdq(model, plan)), feed)["y"]
    noise = np.square(got.astype(np.float64) - feed["x"]).mean()
    step = float(source.scale)
    assert abs(10 * np.log10(noise / (step**2 / 12))) < 0.5


def file_of(made: Int8, folder: Path) -> Path:
    """The artifact on disk."""
    path = folder / "int8.onnx"
    path.write_bytes(made.data)
    return path


def test_the_file_is_about_a_quarter_and_holds_no_float_weight(tmp_path: Path) -> None:
    """Weights are there once, as bytes; what is left in float are scales."""
    network = on_image("c = Conv(x, big) y = Relu(c)", big=normal(64, 8, 9, 9))
    made = int8(network, X86, uniform_feeds(2, IMAGE), tmp_path)
    before, after = (tmp_path / "model.onnx").stat().st_size, file_of(made, tmp_path).stat().st_size
    assert after < 0.28 * before
    floats = [array.size for array in made.constants().values() if array.dtype == np.float32]
    assert max(floats) == 64


def test_constants_that_the_float_model_did_not_read_are_dropped_too(tmp_path: Path) -> None:
    """Also by the float plan: an artifact carries nothing that nobody reads."""
    model = on_image("y = Relu(x)").load(tmp_path)
    written = write_qdq(model, float_plan(()))
    assert list(written.graph.initializers) == []
    assert set(model.graph.initializers) == {"w", "b"}


def test_the_model_itself_stays_as_it_is(tmp_path: Path) -> None:
    """The writer works on a copy."""
    network = NETWORKS["residual"][0]
    model = network.load(tmp_path)
    before = ir.fingerprint(model)
    made = int8(network, X86, uniform_feeds(2, IMAGE), tmp_path)
    write_qdq(model, made.plan)
    assert ir.fingerprint(model) == before


class Walked(tuple[Region, ...]):
    """Regions that count how often somebody walks over all of them."""

    __slots__ = ()
    walks = 0

    def __iter__(self) -> Iterator[Region]:
        type(self).walks += 1
        return super().__iter__()


def test_regions_are_not_searched_for_each_weight(tmp_path: Path) -> None:
    """Ten weights take as many walks over the regions as one: the time to write is linear."""
    walks = []
    for count in (1, 10):
        chain = " ".join(f"c{index + 1} = Conv<pads=[1,1,1,1]>(c{index}, w, b)" for index in range(count))
        network = Network(f"net (float[1,8,9,9] c0) => (float[] c{count}) {{ {chain} }}", CONV)
        made = int8(network, X86, uniform_feeds(1, {"c0": (1, 8, 9, 9)}), tmp_path)
        assert len(made.plan.weights) == count
        Walked.walks = 0
        write_qdq(network.load(tmp_path), replace(made.plan, regions=Walked(made.plan.regions)))
        walks.append(Walked.walks)
    assert walks[0] == walks[1]


def test_the_interface_stays(tmp_path: Path) -> None:
    """Names, types and shapes of inputs and outputs, in order; also of an output that others read as well."""
    text = """net (float[N,8,9,9] image, float[1] unused) => (float[N,8,7,7] features, float[N,8,1,1] pooled) {
        c = Conv(image, w, b)  features = Relu(c)  pooled = GlobalAveragePool(features)
    }"""
    network = Network(text, CONV)
    samples = uniform_feeds(3, {"image": (2, 8, 9, 9), "unused": (1,)})
    made = int8(network, X86, samples, tmp_path)
    before, after = network.proto().graph, made.proto.graph
    assert list(after.input) == list(before.input)
    assert list(after.output) == list(before.output)
    assert optimized(made.data, tmp_path).count("QLinearConv") == 1
    got = run(made.data, samples.feed[0])
    for name, value in network.run(samples.feed[0]).items():
        assert sqnr(value, got[name]) > 30


def test_names_that_the_model_uses_already_do_not_clash(tmp_path: Path) -> None:
    """Values and nodes that are called what quantizers would be called."""
    text = """net (float[1,8,9,9] x, float[1] b_quantized) => (float[] y_float, float[] y) {
        [x_quantized_node] w_scale = Relu(x)
        [y_dequantized] x_quantized = Conv(x, w, b)
        [w_quantized_node] y_float = Mul(w_scale, b_quantized)
        [x_dequantized] x_zero_point = Conv(x_quantized, w)
        [w_dequantized] y = Relu(x_zero_point)
    }"""
    network = Network(text, CONV | {"w_zero_point": normal(3), "y_quantized": normal(2)})
    samples = uniform_feeds(2, {"x": (1, 8, 9, 9), "b_quantized": (1,)})
    made = int8(network, X86, samples, tmp_path)
    onnx.checker.check_model(made.proto, full_check=True)
    graph = made.proto.graph
    names = [*(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)]
    names += [name for node in graph.node for name in node.output]
    assert len(names) == len(set(names))
    assert len({node.name for node in graph.node}) == len(graph.node)
    got = run(made.data, samples.feed[0])
    for name, value in network.run(samples.feed[0]).items():
        assert sqnr(value, got[name]) > 30


def weights_stored(made: Int8) -> list[str]:
    """Names of the integer weights."""
    return sorted(name for name, array in made.constants().items() if array.dtype == np.int8 and array.ndim > 1)


def test_a_weight_of_two_nodes_is_stored_once(tmp_path: Path) -> None:
    """Where both read it alike."""
    network = on_matrix("a = MatMul(x, v) b = MatMul(x, v) y = Sub(a, b)", v=V)
    made = int8(network, X86, uniform_feeds(2, MATRIX), tmp_path)
    assert weights_stored(made) == ["v_quantized"]
    assert optimized(made.data, tmp_path).count("MatMulIntegerToFloat") >= 1


def test_a_weight_read_along_two_axes_is_stored_for_each(tmp_path: Path) -> None:
    """Each copy with the scales of its own output channels."""
    weight = normal(16, 16) * np.geomspace(0.01, 1, 16, dtype=np.float32)
    network = on_matrix("a = Gemm(x, s) y = Gemm<transB=1>(a, s)", s=weight)
    samples = uniform_feeds(4, MATRIX)
    made = int8(network, X86, samples, tmp_path)
    assert weights_stored(made) == ["s_quantized", "s_quantized_1"]
    feed = samples.feed[0]
    assert sqnr(network.run(feed)["y"], run(made.data, feed)["y"]) > 30


def test_a_weight_that_is_an_operand_elsewhere_is_quantized_for_each_use(tmp_path: Path) -> None:
    """The same constant as weight of one node and as operand of an Add."""
    network = on_matrix("h = MatMul(x, s) p = Relu(x) y = Add(h, s)", "float[16,16] x", s=normal(16, 16))
    samples = uniform_feeds(3, {"x": (16, 16)})
    made = int8(network, X86, samples, tmp_path)
    feed = samples.feed[0]
    assert sqnr(network.run(feed)["y"], run(made.data, feed)["y"]) > 30


def test_two_readers_of_one_activation_share_its_quantizer(tmp_path: Path) -> None:
    """An input of two convolutions is quantized once."""
    network = on_image("c = Conv(x, w, b) d = Conv(x, w) y = Sub(c, d)")
    made = int8(network, X86, uniform_feeds(2, IMAGE), tmp_path)
    quantizers = [node.input[0] for node in made.proto.graph.node if node.op_type == "QuantizeLinear"]
    assert sorted(quantizers) == ["c", "d", "x"]


def test_a_float_reader_of_an_input_keeps_the_exact_values(tmp_path: Path) -> None:
    """Only integer regions read the input through its quantizer."""
    network = on_image("c = Conv(x, w, b) g = Relu(c) s = ReduceSum(g) k = Neg(x) y = Add(k, s)")
    made = int8(network, X86, uniform_feeds(2, IMAGE), tmp_path)
    [negation] = [node for node in made.proto.graph.node if node.op_type == "Neg"]
    assert list(negation.input) == ["x"]


def test_a_region_that_stays_float_between_integers_is_left_alone(tmp_path: Path) -> None:
    """Softmax reads what the Conv wrote, and the MatMul behind it is quantized anew."""
    network = Network(
        "net (float[1,8,16] x) => (float[] y) { c = MatMul(x, v) s = Softmax(c) y = MatMul(s, t) }",
        {"v": normal(16, 12), "t": normal(12, 5)},
    )
    samples = uniform_feeds(4, {"x": (1, 8, 16)})
    made = int8(network, X86, samples, tmp_path)
    kernels = [op for op in optimized(made.data, tmp_path) if op not in BORDER]
    assert kernels == ["MatMulIntegerToFloat", "MatMulIntegerToFloat", "Softmax"]
    feed = samples.feed[0]
    assert sqnr(network.run(feed)["y"], run(made.data, feed)["y"]) > 30


def test_values_that_a_subgraph_reads_are_passed_on(tmp_path: Path) -> None:
    """An If whose branches read what a Conv wrote."""
    text = """net (float[1,8,9,9] x, bool flag) => (float[1,8,7,7] y) {
        c = Conv(x, w, b)
        y = If(flag) <
            then_branch = yes () => (float[1,8,7,7] p) { p = Neg(c) },
            else_branch = no () => (float[1,8,7,7] q) { q = Identity(c) }
        >
    }"""
    network = Network(text, CONV)
    feeds = Feeds([feed | {"flag": np.array(bool(i % 2))} for i, feed in enumerate(uniform_feeds(4, IMAGE).feed)])
    made = int8(network, X86, feeds, tmp_path)
    assert "QLinearConv" in optimized(made.data, tmp_path)
    for feed in feeds.feed:
        assert sqnr(network.run(feed)["y"], run(made.data, feed)["y"]) > 30


def test_a_float_bias_stays_what_it_is(tmp_path: Path) -> None:
    """In a dialect that does not want it in integers."""
    assert X86.dialect is not None
    device = replace(X86, dialect=replace(X86.dialect, bias="float"))
    made = int8(on_image("y = Conv(x, w, b)"), device, uniform_feeds(2, IMAGE), tmp_path)
    [conv] = [node for node in made.proto.graph.node if node.op_type == "Conv"]
    assert list(conv.input) == ["x_dequantized", "w_dequantized", "b"]
    np.testing.assert_array_equal(made.constants()["b"], CONV["b"])

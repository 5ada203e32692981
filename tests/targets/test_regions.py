"""Regions: what is one kernel, what it would read and write in integers, and the words where it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infer_opt.calibrate.plan import INT8, Region, Scheme
from infer_opt.calibrate.quantization import Format
from infer_opt.passes import Pipeline
from infer_opt.profiles import Dialect
from infer_opt.targets.regions import find_regions
from tests.targets.networks import Network, normal, profile

CONV = {"w": normal(4, 4, 3, 3), "b": normal(4)}
AXES = {"zero": np.array([0]), "one": np.array([1]), "four": np.array([4])}


def dialect_of(name: str) -> Dialect:
    """The dialect of a shipped profile."""
    found = profile(name).dialect
    assert found is not None
    return found


X86, TENSORRT = dialect_of("x86-avx512-vnni"), dialect_of("t4")


def int8(region: Region) -> Scheme:
    """How a region would run at INT8."""
    scheme = region.scheme("int8")
    assert scheme is not None
    return scheme


def regions(
    folder: Path,
    body: str,
    outputs: str = "float[] y",
    *,
    inputs: str = "float[1,4,8,8] x",
    dialect: Dialect = X86,
    offered: bool = True,
    **constants: np.ndarray,
) -> dict[str, Region]:
    """Regions by the output that their main node is named after."""
    model = Network(f"net ({inputs}) => ({outputs}) {{ {body} }}", CONV | constants).load(folder)
    found = find_regions(model, dialect, int8=offered)
    return {region.name.partition(":")[2] or region.name: region for region in found}


@pytest.mark.parametrize(
    ("activation", "window"),
    [
        ("Relu(c)", (0.0, None)),
        ("Clip(c, low, high)", (0.0, 6.0)),
        ("Clip(c, low)", (0.0, None)),
        ("Clip(c, , high)", (None, 6.0)),
        ("Clip(c, minus, high)", (-1.5, 6.0)),
        ("Clip(c)", (None, None)),
    ],
)
def test_an_activation_is_absorbed_with_its_window(
    tmp_path: Path, activation: str, window: tuple[float | None, float | None]
) -> None:
    """One region of two nodes: it reads what the Conv reads and writes what the activation writes."""
    ends = {"low": np.float32(0), "high": np.float32(6), "minus": np.float32(-1.5)}
    used = {name: value for name, value in ends.items() if name in activation}
    found = regions(tmp_path, f"[conv] c = Conv(x, w, b) [act] y = {activation}", **used)
    assert list(found) == ["conv"]
    conv = found["conv"]
    assert conv.nodes == conv.origin == ("conv", "act")
    assert (conv.op_type, conv.precisions, int8(conv).reads, int8(conv).writes) == (
        "Conv",
        ("fp32", "int8"),
        ("x",),
        ("y",),
    )
    assert int8(conv).window == window
    assert int8(conv).activations == Format("uint8", symmetric=False)
    assert conv.reason is None


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("c = Conv(x, w, b) y = Relu(c) z = Sigmoid(c)", "float[] y, float[] z"),
        ("c = Conv(x, w, b) y = Relu(c)", "float[] y, float[] c"),
        ("c = Conv(x, w, b) y = Clip(c, low, high)", "float[] y"),
        ("c = Conv(x, w, b) t = ReduceMax<keepdims=0>(x) y = Clip(c, , t)", "float[] y"),
        ("c = Conv(x, w, b) y = Clip(x, , c)", "float[] y"),
        ("c = Conv(x, w, b) y = Sigmoid(c)", "float[] y"),
    ],
)
def test_an_activation_that_the_kernel_cannot_do_is_not_absorbed(tmp_path: Path, body: str, outputs: str) -> None:
    """Another reader or the caller wants the Conv's own output; a Clip without 0, or one by a computed end."""
    ends = {"low": np.float32(1), "high": np.float32(6)} if "low" in body else {}
    found = regions(tmp_path, body, outputs, **ends)
    assert found["c"].nodes == ("Conv:c",)
    assert int8(found["c"]).writes == ("c",)
    assert int8(found["c"]).window == (None, None)
    assert found["y"].nodes == (found["y"].name,)


def test_an_activation_behind_a_float_region_is_its_own(tmp_path: Path) -> None:
    """No node is in two regions, whatever their precision."""
    found = regions(tmp_path, "d = Div(x, x) c = Conv(x, d) y = Relu(c)")
    assert [region.nodes for region in found.values()] == [("Div:d",), ("Conv:c",), ("Relu:y",)]


def test_every_node_is_in_one_region(tmp_path: Path) -> None:
    """In the order of the graph."""
    body = "c = Conv(x, w, b) r = Relu(c) m = MaxPool<kernel_shape=[2,2]>(r) s = Softmax(m) a = Add(m, s) y = Relu(a)"
    nodes = [name for region in regions(tmp_path, body).values() for name in region.nodes]
    assert nodes == ["Conv:c", "Relu:r", "MaxPool:m", "Softmax:s", "Add:a", "Relu:y"]


MOVERS = [
    "MaxPool<kernel_shape=[2,2]>({0})",
    "Flatten({0})",
    "Transpose<perm=[0,2,3,1]>({0})",
    "Slice({0}, zero, one, one)",
    "Gather<axis=1>({0}, zero)",
    'Resize<mode="nearest">({0}, , scales)',
    "ReduceMax<axes=[2]>({0})",
]
SCALES = {"scales": np.array([1, 1, 2, 2], np.float32)}


@pytest.mark.parametrize("op", MOVERS)
def test_a_mover_follows_integers_only(tmp_path: Path, op: str) -> None:
    """Behind a Conv it copies integers; behind a float value it stays, and says why."""
    body = f"c = Conv(x, w, b) y = {op.format('c')} z = {op.format('x')}"
    found = regions(tmp_path, body, "float[] y, float[] z", **AXES, **SCALES)
    assert int8(found["y"]).moves_data
    assert (int8(found["y"]).reads, int8(found["y"]).writes, int8(found["y"]).weights) == (("c",), ("y",), ())
    assert found["z"].precisions == ("fp32",)
    assert found["z"].reason == "what it reads is not INT8"


@pytest.mark.parametrize(
    ("op", "outputs", "reason"),
    [
        ('y = Resize<mode="linear">(c, , scales)', "float[] y", "it interpolates, which gives new numbers"),
        ('y = Resize<mode="cubic">(c, , scales)', "float[] y", "it interpolates, which gives new numbers"),
        ("y, z = MaxPool<kernel_shape=[2,2]>(c)", "float[] y, int64[] z", "an output is unused, or no float32"),
        ("y, z = Split<axis=1>(c, halves)", "float[] y", "an output is unused, or no float32"),
    ],
)
def test_a_mover_that_makes_something_else_stays_float(tmp_path: Path, op: str, outputs: str, reason: str) -> None:
    """New numbers, indices, or an output that nobody quantizes because nobody reads it."""
    found = regions(tmp_path, f"c = Conv(x, w, b) {op}", outputs, **SCALES, halves=np.array([2, 2]))
    assert INT8 not in found["y"].precisions
    assert found["y"].reason == reason


def test_both_halves_of_a_split_are_written(tmp_path: Path) -> None:
    """Where both are read."""
    body = "c = Conv(x, w, b) y, z = Split<axis=1>(c, halves)"
    assert int8(regions(tmp_path, body, "float[] y, float[] z", halves=np.array([2, 2]))["y"]).writes == ("y", "z")


@pytest.mark.parametrize("op", ["Add(c, {0})", "Mul({0}, c)", "Concat<axis=1>({0}, c)"])
def test_a_follower_follows_one_integer_input(tmp_path: Path, op: str) -> None:
    """One of its inputs is enough; all of them are read quantized, a constant too."""
    found = regions(tmp_path, f"c = Conv<pads=[1,1,1,1]>(x, w, b) y = {op.format('x')}")
    assert set(int8(found["y"]).reads) == {"c", "x"}
    assert int8(found["y"]).writes == ("y",)
    constant = regions(tmp_path, f"c = Conv(x, w, b) y = {op.format('k')}", k=normal(1, 4, 6, 6))
    assert set(int8(constant["y"]).reads) == {"c", "k"}


def test_a_follower_of_floats_stays_float(tmp_path: Path) -> None:
    """Nothing is gained by quantizing only for an Add."""
    found = regions(tmp_path, "y = Add(x, x)")
    assert found["y"].reason == "nothing it reads is INT8"


def test_followers_and_movers_carry_integers_on(tmp_path: Path) -> None:
    """Conv, MaxPool, Sigmoid, Mul and GlobalAveragePool in a chain, until an operator without a kernel."""
    body = (
        "c = Conv(x, w, b) m = MaxPool<kernel_shape=[2,2]>(c) s = Sigmoid(m) p = Mul(m, s)"
        " g = GlobalAveragePool(p) t = Tanh(g) y = Flatten(t)"
    )
    found = regions(tmp_path, body)
    quantized = [name for name, region in found.items() if "int8" in region.precisions]
    assert quantized == ["c", "m", "s", "p", "g"]
    assert int8(found["s"]).fixed_range == (0.0, 1.0)
    assert found["t"].reason == "no INT8 kernel for Tanh that gains"
    assert found["y"].reason == "what it reads is not INT8"


MATRIX = "float[2,4] x"


@pytest.mark.parametrize("op", ["MatMul(x, v)", "Gemm(x, v, u)", "Gemm(x, v)"])
def test_matrix_products_write_float(tmp_path: Path, op: str) -> None:
    """Their kernels take integers and give float, so that nothing behind them follows."""
    constants = {"v": normal(4, 3), "u": normal(3)}
    found = regions(tmp_path, f"c = {op} y = Sigmoid(c)", inputs=MATRIX, **constants)
    assert found["c"].precisions == ("fp32", "int8", "int8-dynamic")
    assert (int8(found["c"]).reads, int8(found["c"]).writes) == (("x",), ())
    assert found["y"].reason == "nothing it reads is INT8"


@pytest.mark.parametrize(
    ("op", "axis"),
    [
        ("MatMul(x, v)", 1),
        ("Gemm(x, v)", 1),
        ("Gemm<transB=1>(x, t)", 0),
        ("MatMul(x3, batch)", None),
        ("MatMul(x, column)", None),
    ],
)
def test_scales_run_along_the_output_channels(tmp_path: Path, op: str, axis: int | None) -> None:
    """The axis of the weight that becomes the output's channels; one scale where there is none in common."""
    constants = {"v": normal(4, 3), "t": normal(3, 4), "batch": normal(2, 4, 3), "column": normal(4)}
    used = {name: value for name, value in constants.items() if name in op}
    found = regions(tmp_path, f"y = {op}", inputs="float[2,4] x, float[2,2,4] x3", **used)
    [site] = int8(found["y"]).weights
    assert (site.axis, site.index, site.node) == (axis, 1, found["y"].name)
    assert site.format == Format("int8", symmetric=True, narrow=True)


@pytest.mark.parametrize(("group", "axis"), [(1, 1), (2, None)])
def test_a_transposed_convolution_has_its_channels_second(tmp_path: Path, group: int, axis: int | None) -> None:
    """With groups, axis 1 counts the channels of one group only."""
    found = regions(
        tmp_path,
        f"y = ConvTranspose<group={group}>(x, v, u)",
        dialect=TENSORRT,
        v=normal(4, 2, 3, 3),
        u=normal(2 * group),
    )
    [site] = int8(found["y"]).weights
    assert site.axis == axis
    assert site.bias is None  # this dialect keeps it float


def test_a_dialect_may_want_one_scale_a_weight(tmp_path: Path) -> None:
    """And 7 bits of it."""
    dialect = replace(X86, weight_per_channel=False, weight_bits=7)
    [site] = int8(regions(tmp_path, "y = Conv(x, w, b)", dialect=dialect)["y"]).weights
    assert site.axis is None
    assert site.format.limits() == (-63, 63)


def test_two_nodes_may_read_one_weight_differently(tmp_path: Path) -> None:
    """Each along its own output channels."""
    found = regions(
        tmp_path, "y = Gemm(x, v) z = Gemm<transB=1>(x, v)", "float[] y, float[] z", inputs=MATRIX, v=normal(4, 4)
    )
    sites = [int8(found[name]).weights[0] for name in "yz"]
    assert [(site.value, site.axis) for site in sites] == [("v", 1), ("v", 0)]


def test_a_weight_from_a_constant_node_is_found_after_simplify_only(tmp_path: Path) -> None:
    """The IR treats initializers as constants; the pass that lifts Constant nodes runs before."""
    text = "net (float[2,2] x) => (float[] y) { v = Constant<value=float[2,2]{1,2,3,4}>() y = MatMul(x, v) }"
    model = Network(text).load(tmp_path)
    lifted, _ = Pipeline.parse("simplify").run(model)
    [region] = find_regions(lifted, X86, int8=True)
    assert int8(region).weights[0].value == "v"
    assert int8(region).reads == ("x",)


def test_a_product_of_two_activations_reads_both(tmp_path: Path) -> None:
    """MatMul has a kernel for it, as attention needs."""
    found = regions(tmp_path, "y = MatMul(x, z)", inputs="float[2,4] x, float[4,3] z")
    assert (int8(found["y"]).reads, int8(found["y"]).weights) == (("x", "z"), ())


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("Conv(x, z)", "its weight is not a constant"),
        ("Conv(x, w, z1)", "its bias is not one constant number a channel"),
        ("Gemm(v, m)", "its first input is a constant"),
        ("Gemm<beta=0.5>(m, v, u)", "Gemm scales its bias (beta)"),
        ("Gemm<alpha=0.5>(m, v, u)", "Gemm scales its product (alpha), but not its bias"),
        ("Gemm(m, v, row)", "its bias is not one constant number a channel"),
        ("Gemm(m, v, single)", "its bias is not one constant number a channel"),
        ("Gemm(m, v, scalar)", "its bias is not one constant number a channel"),
        ("Gemm(m, v, z1)", "its bias is not one constant number a channel"),
        ("Gemm(m, m)", "its weight is not a constant"),
        ("Softmax(x)", "no INT8 kernel for Softmax that gains"),
        ("ConvTranspose(x, w, b)", "no INT8 kernel for ConvTranspose that gains"),
    ],
)
def test_the_words_say_why_a_node_stays_float(tmp_path: Path, op: str, reason: str) -> None:
    """They are printed in reports as they stand."""
    constants = {"v": normal(4, 4), "u": normal(4), "row": normal(1, 4), "single": normal(1), "scalar": normal(4)[0]}
    used = {
        name: value
        for name, value in constants.items()
        if name in op.replace("(", " ").replace(",", " ").replace(")", " ").split()
    }
    found = regions(
        tmp_path,
        f"y = {op}",
        inputs="float[1,4,8,8] x, float[4,4,3,3] z, float[4] z1, float[4,4] m",
        **used,
    )
    assert INT8 not in found["y"].precisions
    assert found["y"].reason == reason


def test_alpha_without_a_bias_is_no_obstacle(tmp_path: Path) -> None:
    """The kernel scales the product itself."""
    found = regions(tmp_path, "y = Gemm<alpha=0.5>(x, v)", inputs=MATRIX, v=normal(4, 3))
    assert found["y"].precisions == ("fp32", "int8")


def test_a_float_bias_may_be_anything(tmp_path: Path) -> None:
    """A dialect that keeps the bias in float leaves it alone."""
    dialect = replace(X86, bias="float")
    found = regions(tmp_path, "y = Gemm(x, v, u)", inputs="float[2,4] x, float[3] u", dialect=dialect, v=normal(4, 3))
    assert found["y"].precisions == ("fp32", "int8", "int8-dynamic")
    assert int8(found["y"]).weights[0].bias is None


@pytest.mark.parametrize("dtype", ["float16", "double", "int32"])
def test_other_element_types_stay_as_they_are(tmp_path: Path, dtype: str) -> None:
    """The kernels are those of float32."""
    found = regions(tmp_path, "y = MatMul(x, x)", f"{dtype}[] y", inputs=f"{dtype}[4,4] x")
    assert found["y"].reason == "not a float operator of ONNX"


def test_a_custom_operator_stays_as_it_is(tmp_path: Path) -> None:
    """A name in another domain says nothing."""
    found = regions(tmp_path, "c = Conv(x, w, b) y = com.microsoft.Gelu(c)")
    assert found["y"].reason == "not a float operator of ONNX"


def test_a_profile_without_int8_has_float_regions_only(tmp_path: Path) -> None:
    """They are still listed, one a node."""
    found = regions(tmp_path, "c = Conv(x, w, b) y = Relu(c)", offered=False)
    assert {region.precisions for region in found.values()} == {("fp32",)}
    assert {region.reason for region in found.values()} == {"the profile offers no INT8"}
    assert list(found) == ["c", "y"]


def test_a_concat_may_have_to_share_its_scale(tmp_path: Path) -> None:
    """As the dialect says."""
    body = "c = Conv<pads=[1,1,1,1]>(x, w, b) y = Concat<axis=1>(c, x)"
    shared = replace(X86, concat_shares_scale=True)
    assert int8(regions(tmp_path, body, dialect=shared)["y"]).shares_scale
    assert not int8(regions(tmp_path, body)["y"]).shares_scale

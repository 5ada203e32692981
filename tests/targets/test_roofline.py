"""The roofline: times by published rates, bytes by precision, and what it costs to leave integers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from infer_opt import ir, targets
from infer_opt.calibrate.plan import Plan
from infer_opt.calibrate.planner import float_plan
from infer_opt.profiles import Peak, Profile
from infer_opt.targets.roofline import _LAUNCH, Roofline
from tests.targets.networks import Feeds, Network, int8_plan, normal, profile

T4 = profile("t4")
WIDE = Network(
    "net (float[1,256,64,64] x) => (float[] y) { [a] h = Conv(x, w) [b] y = Conv(h, v) }",
    {"w": normal(256, 256, 3, 3), "v": normal(256, 256, 3, 3, seed=1)},
)


def roofline(device: Profile = T4) -> Roofline:
    """Of a device whose rates are known."""
    found = Roofline.of(device)
    assert found is not None
    return found


def shapes(model: ir.Model) -> dict[str, list[int]]:
    """Of the inputs, which are fixed."""
    return {str(value.name): list(value.shape.numpy()) for value in model.graph.inputs if value.shape is not None}


def seconds(network: Network, folder: Path, how: str, device: Profile = T4) -> dict[str, float]:
    """Of every region in `float`, `half` or `int8`, and of what lies between as `other`."""
    model = network.load(folder)
    plan = _plan(model, how, device)
    times = roofline(device).times(model, plan, shapes(model))
    return {**times.regions, "other": times.other}


def _plan(model: ir.Model, how: str, device: Profile) -> Plan:
    regions = targets.create(device).regions(model)
    names = frozenset(region.name for region in regions)
    if how == "float":
        return float_plan(regions)
    if how == "half":
        return replace(float_plan(regions), half=names)
    feed = {name: normal(*sizes) for name, sizes in shapes(model).items()}
    return replace(int8_plan(model, device, Feeds([feed])), half=names)


def test_a_large_convolution_takes_what_the_peak_says(tmp_path: Path) -> None:
    """Twice 256 x 256 x 9 x 62 x 62 operations at 8.1, 65 and 130 T a second, T4's published peaks."""
    operations = 2 * 256 * 256 * 9 * 62 * 62
    for how, rate in (("float", 8.1e12), ("half", 65e12), ("int8", 130e12)):
        taken = seconds(WIDE, tmp_path, how)["a"]
        assert taken - _LAUNCH == pytest.approx(operations / rate, rel=1e-6), how


def test_a_small_one_takes_a_launch(tmp_path: Path) -> None:
    """Whatever the precision: nothing is gained where a kernel does next to nothing."""
    tiny = Network("net (float[1,16,4,4] x) => (float[] y) { [a] y = Conv(x, w) }", {"w": normal(16, 16, 1, 1)})
    taken = [seconds(tiny, tmp_path, how)["a"] for how in ("float", "half", "int8")]
    assert taken == pytest.approx([_LAUNCH] * 3, rel=0.02)


def test_a_large_copy_takes_what_the_memory_says(tmp_path: Path) -> None:
    """16 million numbers, read and written at 320 GB/s: four bytes each, or two."""
    network = Network("net (float[16,1024,1024] x) => (float[] y) { [m] y = Softmax(x) }")
    for how, width in (("float", 4), ("half", 2)):
        moved = 2 * 16 * 1024 * 1024 * width
        assert seconds(network, tmp_path, how)["m"] - _LAUNCH == pytest.approx(moved / 320e9, rel=1e-6), how


def test_tiles_that_are_not_full_gain_less(tmp_path: Path) -> None:
    """17 channels take as long as 32 in INT8."""
    found = []
    for channels in (17, 32):
        text = f"net (float[1,{channels},512,512] x) => (float[] y) {{ [a] y = Conv<pads=[2,2,2,2]>(x, w) }}"
        network = Network(text, {"w": normal(32, channels, 5, 5)})
        model = network.load(tmp_path)
        node = model.graph[0]
        work = ir.multiply_adds_by_node(model)["a"]
        assert work is not None
        found.append(2 * work / roofline().rate("int8", node))
    assert found[0] == pytest.approx(found[1])


def test_a_value_between_float_and_int8_is_turned_in_a_kernel(tmp_path: Path) -> None:
    """What no INT8 kernel makes and one reads; the value between two INT8 kernels costs nothing more."""
    assert seconds(WIDE, tmp_path, "half")["other"] == 0
    turned = _LAUNCH + 256 * 64 * 64 * 3 / 320e9  # the input: two bytes read, one written
    assert seconds(WIDE, tmp_path, "int8")["other"] == pytest.approx(turned)


def test_int8_between_kernels_moves_a_byte(tmp_path: Path) -> None:
    """A pointwise convolution that memory bounds: half the bytes of FP16, read and written."""
    network = Network(
        "net (float[1,32,512,512] x) => (float[] y) { [a] h = Conv(x, w) [b] i = Conv(h, v) [c] y = Conv(i, u) }",
        {"w": normal(32, 32, 1, 1), "v": normal(32, 32, 1, 1, seed=1), "u": normal(32, 32, 1, 1, seed=2)},
    )
    half, int8 = (seconds(network, tmp_path, how)["b"] - _LAUNCH for how in ("half", "int8"))
    assert int8 == pytest.approx(half / 2, rel=1e-3)


def test_an_activation_behind_a_convolution_has_no_kernel_of_its_own(tmp_path: Path) -> None:
    """It costs what it writes."""
    network = Network(
        "net (float[1,64,64,64] x) => (float[] y) { [a] h = Conv(x, w) [s] y = HardSwish(h) }",
        {"w": normal(64, 64, 1, 1)},
    )
    assert seconds(network, tmp_path, "half")["s"] == pytest.approx(64 * 64 * 64 * 2 / 320e9)


@pytest.mark.parametrize(
    "device",
    [
        replace(T4, bandwidth_gbs=None),
        replace(T4, peak=Peak(fp32_gflops=8100, fp16_tflops=65)),
        replace(T4, peak=Peak()),
    ],
    ids=["no bandwidth", "no INT8 rate", "no rate"],
)
def test_no_model_without_the_facts(device: Profile) -> None:
    """Nothing is invented."""
    assert Roofline.of(device) is None


def test_fp32_is_needed_whatever_is_offered() -> None:
    """A profile may offer FP16 alone; what cannot be FP16 runs in FP32 all the same."""
    device = replace(T4, precisions=("fp16",))
    assert "8.1 TFLOPS fp32" in roofline(device).basis
    assert Roofline.of(replace(device, peak=Peak(fp16_tflops=65))) is None


def test_a_rate_that_no_precision_needs_may_be_missing() -> None:
    """A device without INT8 needs no INT8 rate."""
    device = replace(T4, precisions=("fp32", "fp16"), peak=Peak(fp32_gflops=8100, fp16_tflops=65))
    assert (
        roofline(device).basis
        == "modelled: a roofline of the device's peaks, 8.1 TFLOPS fp32, 65 TFLOPS fp16, 320 GB/s"
    )

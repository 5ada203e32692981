"""Reasons: why a region stayed at higher precision, in words, by the names of the original's nodes."""

from __future__ import annotations

import pytest

from infer_opt.calibrate.choice import Judged
from infer_opt.calibrate.explaining import explained, lost, price
from infer_opt.calibrate.grouping import Alternative, Group
from infer_opt.calibrate.kernel_times import RegionTimes
from infer_opt.calibrate.plan import Choice, Plan, Region, Scheme
from infer_opt.calibrate.quantization import Format
from infer_opt.calibrate.sensing import Sensed
from infer_opt.calibrate.sensitivity import Noise, Sensitivity
from infer_opt.calibrate.timing import Latency

INT8 = Scheme("int8", Format("uint8", symmetric=False))
CONV = Region("conv", ("conv", "relu"), ("conv_17", "relu_17"), "Conv", schemes=(INT8,))
ADD = Region("add", ("add",), ("add_3",), "Add", schemes=(INT8,))
SOFT = Region("soft", ("soft",), ("soft_9",), "Softmax", reason="no INT8 kernel")
REGIONS = (CONV, ADD, SOFT)
INTEGERS = Plan(
    "int8",
    REGIONS,
    {"conv": Choice("int8", "legal"), "add": Choice("int8", "legal"), "soft": Choice("fp32", "no INT8 kernel")},
)
GROUP = Group(("conv", "add"))
SENSITIVITY = Sensitivity(
    {"boxes": 1e6, "scores": 10.0}, (Noise(Alternative(GROUP, "int8", GROUP.regions), {"boxes": 1.0, "scores": 0.1}),)
)
TIMES = (RegionTimes({"conv": 9e-5, "add": 1e-5}, 0.0), RegionTimes({"conv": 3e-5, "add": 1e-5}, 0.0))


def sensed(times: tuple[RegionTimes, RegionTimes] | None = TIMES) -> Sensed:
    """One group of two kernels: 60 dB of boxes, 20 dB of scores, 60 us of 100."""
    before, after = times or (None, None)
    lowered = {} if after is None else {"int8": after}
    return Sensed({"int8": INTEGERS}, SENSITIVITY, 8, before, lowered, None if times else "another CPU", {})


def test_the_price_names_the_weakest_part_the_original_node_and_the_time() -> None:
    """Of the group as a whole; a loss of time is told as one; without times there is none."""
    words = "INT8 alone leaves 20.0 dB at `scores` (`conv_17` and what follows it, 2 kernels)"
    assert price(sensed(), GROUP) == f"{words} and saves 60 of 100 us (measured)"
    assert price(sensed((TIMES[1], TIMES[0])), GROUP) == f"{words} and adds 60 to 40 us (measured)"
    assert price(sensed(None), GROUP) == words


@pytest.mark.parametrize(
    ("refused", "failed", "milliseconds", "words"),
    [
        (None, None, 3.0, "INT8 wherever it is legal takes 3 ms, fp32 2 ms (measured, P50)"),
        ("too far off", None, 1.0, "INT8 wherever it is legal was refused: too far off"),
        (None, "no kernel", None, "INT8 wherever it is legal does not run: no kernel"),
        (None, None, None, None),
    ],
    ids=["slower", "refused", "does not run", "not timed"],
)
def test_why_int8_lost(refused: str | None, failed: str | None, milliseconds: float | None, words: str | None) -> None:
    """By the first that holds: it does not run, it is wrong, it is slower."""
    latency = None if milliseconds is None else Latency(milliseconds, 9, 9, 15)
    integers = Judged("int8", 1, (), latency, refused, failed)
    assert lost(integers, Judged("fp32", 1, (), Latency(2.0, 9, 9, 15), None)) == words


def test_a_float_plan_says_of_each_region_why() -> None:
    """What INT8 was tried for: why it lost as a whole, and the price; of the others why it was not legal."""
    plan = Plan("fp32", REGIONS, dict.fromkeys(("conv", "add", "soft"), Choice("fp32", "as in the original")))
    found = explained(plan, INTEGERS, "it was slower", sensed())
    assert {choice.precision for choice in found.choices.values()} == {"fp32"}
    assert found.choices["conv"].reason == f"it was slower; {price(sensed(), GROUP)}"
    assert found.choices["add"].reason == found.choices["conv"].reason
    assert found.choices["soft"].reason == "no INT8 kernel"
    assert explained(plan, INTEGERS, None, None).choices["conv"].reason == "as in the original"


def test_the_original_meets_the_optimised_graph_in_its_own_nodes() -> None:
    """Kernels of the model as it came have other names, and nodes that were fused away."""
    alone = Region("relu_17", ("relu_17",), ("relu_17",), "Relu")
    fresh = Region("shape_1", ("shape_1",), ("shape_1",), "Shape")
    choices = dict.fromkeys(("relu_17", "shape_1"), Choice("fp32", "as in the original"))
    found = explained(Plan("original", (alone, fresh), choices), INTEGERS, "it was slower", None)
    assert found.choices["relu_17"].reason == "it was slower"
    assert found.choices["shape_1"].reason == "as in the original"

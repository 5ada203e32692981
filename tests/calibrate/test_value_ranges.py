"""Ranges of activations for people: what was seen, and what the levels hold."""

from __future__ import annotations

import numpy as np
import pytest

from infer_opt.calibrate.plan import Plan
from infer_opt.calibrate.quantization import Format, from_range
from infer_opt.calibrate.sketch import Sketch
from infer_opt.calibrate.value_ranges import value_ranges


def sketch(*values: float) -> Sketch:
    """Of one sample with these elements."""
    found = Sketch()
    if values:
        found.observe(np.array(values, np.float32), min(values), max(values))
    return found


def test_the_widest_comes_first_with_what_its_levels_hold() -> None:
    """The range of a uint8 with scale 4/255 and the zero point of -1; values that nothing watched are left out."""
    form = Format("uint8", symmetric=False)
    activations = {name: from_range(-1.0, 3.0, form) for name in ("narrow", "wide", "unwatched", "unseen")}
    plan = Plan("int8", (), {}, activations)
    found = value_ranges(plan, {"narrow": sketch(-1.0, 2.5), "wide": sketch(-2.0, 8.0), "unseen": sketch()})
    assert [(each.value, each.minimum, each.maximum) for each in found] == [("wide", -2.0, 8.0), ("narrow", -1.0, 2.5)]
    assert (found[0].low, found[0].high) == pytest.approx((-1.0, 3.0), abs=4 / 255)
    assert found[0].high - found[0].low == pytest.approx(4.0)

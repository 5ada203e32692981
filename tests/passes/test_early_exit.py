"""A network that leaves early where it is sure: both branches are simplified, and equal whichever runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.passes import Pipeline
from tests.onnx_text import load, run

# The trunk's mean decides; each branch has layers of its own, written as an exporter of opset 11 does.
NETWORK = """<ir_version: 8, opset_import: ["": 11]>
m (float[N,2,4,4] x) => (float[N,3] y)
<float[2,2,1,1] w = {1, 2, 3, 4}, float[2] s = {1, 2}, float[3,2] v = {1, -2, 3, -4, 5, -6},
 float[2,3] k = {1, 0, 2, 3, 1, 1}, float limit = {0}, float half = {0.5}, float three = {3}, float six = {6}>
{
  c = Conv(x, w)
  r = BatchNormalization<epsilon = 0.0>(c, s, s, s, s)
  mean = ReduceMean<keepdims = 0>(x)
  sure = Greater(mean, limit)
  y = If(sure) <
    then_branch = early () => (float[N,3] a) {
      pooled = GlobalAveragePool(r)
      flat = Flatten(pooled)
      scores = MatMul(flat, k)
      a = Mul(scores, half)
    },
    else_branch = late () => (float[N,3] b) {
      deep = Conv(r, w)
      scaled = Mul(deep, half)
      same = Identity(scaled)
      moved = Add(same, three)
      zero = Sub(half, half)
      gate = Clip(moved, zero, six)
      opened = Mul(same, gate)
      active = Div(opened, six)
      space = ReduceMean<axes = [2, 3]>(active)
      once = Squeeze<axes = [3]>(space)
      twice = Squeeze<axes = [2]>(once)
      b = Gemm<transB = 1>(twice, v)
    }
  >
}"""
EARLY = ["GlobalAveragePool", "Flatten", "MatMul"]
LATE = ["Conv", "HardSwish", "ReduceMean", "Reshape", "Gemm"]


def test_both_branches_are_simplified_and_fused(tmp_path: Path) -> None:
    """Each has the operators that it would have as a model of its own."""
    after, _ = Pipeline.parse("legalize,simplify,fuse").run(load(NETWORK, tmp_path))
    branches = {graph.name: [node.op_type for node in graph] for graph in after.graphs() if graph is not after.graph}
    assert branches == {"early": EARLY, "late": LATE}
    assert [node.op_type for node in after.graph] == ["Conv", "ReduceMean", "Greater", "If"]


@pytest.mark.parametrize("sign", [1, -1], ids=["early", "late"])
def test_outputs_stay_whichever_branch_runs(sign: int, tmp_path: Path) -> None:
    """Images that are sure leave early, the others late: as before, and as computed by hand."""
    before = load(NETWORK, tmp_path)
    after, _ = Pipeline.parse("legalize,simplify,fuse").run(before)
    image = sign * np.abs(np.random.default_rng(0).normal(0, 1, (3, 2, 4, 4))).astype(np.float32)
    [expected], [actual] = run(ir.serialize(before), {"x": image}), run(ir.serialize(after), {"x": image})
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    by_hand = exit_of(image, early=sign > 0)
    np.testing.assert_allclose(expected, by_hand, rtol=1e-4, atol=1e-5 * np.abs(by_hand).max())


def exit_of(image: np.ndarray, *, early: bool) -> np.ndarray:
    """What one branch gives, in float64."""
    weight, scale = np.array([[1, 2], [3, 4]]), np.array([1, 2]).reshape(2, 1, 1)
    trunk = (np.einsum("oi,nihw->nohw", weight, image.astype(np.float64)) - scale) / np.sqrt(scale) * scale + scale
    if early:
        return trunk.mean((2, 3)) @ np.array([[1, 0, 2], [3, 1, 1]]) * 0.5
    deep = np.einsum("oi,nihw->nohw", weight, trunk) * 0.5
    active = deep * np.clip(deep + 3, 0, 6) / 6
    return active.mean((2, 3)) @ np.array([[1, -2], [3, -4], [5, -6]]).T

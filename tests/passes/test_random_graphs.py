"""The whole pipeline on random graphs: what they compute stays, whatever they are made of."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings

from infer_opt import ir
from infer_opt.passes import Pipeline
from tests.onnx_text import load, run
from tests.passes.random_graphs import feed, models, rounds

PIPELINE = Pipeline.parse("legalize,simplify,fuse{also=Attention+com.microsoft::MultiHeadAttention}")
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@given(models())
@settings(UNHURRIED, max_examples=500, derandomize=True)
def test_outputs_stay(model: onnx.ModelProto) -> None:
    """Within 1e-6 of the largest output: the numbers are such that float32 hardly ever has to round.

    Where a formula rounds, within 1e-5 of the largest number on the way: what follows may subtract large numbers.
    """
    with TemporaryDirectory() as folder:
        before = load(model, Path(folder))
        after, _ = PIPELINE.run(before)
    for seed in range(2):
        values = feed(model, seed)
        bound = 1e-5 * largest(run(inside_out(model), values)) if rounds(model) else 0.0
        for expected, actual in zip(run(ir.serialize(before), values), run(ir.serialize(after), values), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=0, atol=max(bound, 1e-6 * largest([expected])))


def largest(arrays: list[np.ndarray]) -> float:
    """The largest finite number of float arrays, and 1 at least."""
    floats = [array[np.isfinite(array)] for array in arrays if array.dtype.kind == "f"]
    return max(float(np.abs(array).max(initial=1)) for array in floats)


def inside_out(model: onnx.ModelProto) -> bytes:
    """The model with every value of its main graph as an output."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    listed = {value.name for value in copy.graph.output}
    made = [name for node in copy.graph.node for name in node.output if name not in listed]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    return copy.SerializeToString()


@given(models())
@settings(UNHURRIED, max_examples=100, derandomize=True)
def test_the_interface_stays_and_the_graph_settles(model: onnx.ModelProto) -> None:
    """Inputs and outputs are the same, onnx's checker agrees, and a second run changes nothing."""
    with TemporaryDirectory() as folder:
        before = load(model, Path(folder))
    after, _ = PIPELINE.run(before)
    assert ir.interface(after) == ir.interface(before)
    onnx.checker.check_model(ir.serialize(after), full_check=True)
    again, steps = PIPELINE.run(after)
    assert [step.outcome.changes for step in steps] == [()] * len(steps)
    assert ir.text(again) == ir.text(after)

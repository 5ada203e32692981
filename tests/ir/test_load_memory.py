"""A model much larger than what loading it takes: its weights stay on disk until somebody reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from onnx import TensorProto
from onnx.external_data_helper import set_external_data

from infer_opt.cli.resident import resident_bytes
from tests.onnx_text import parse

WEIGHT_BYTES = 200 << 20
MOST_GROWTH = 40 << 20

MEASURE = """
import sys
from infer_opt import ir
from infer_opt.cli.resident import resident_bytes
from infer_opt.passes import Pipeline

ir.load(sys.argv[2])  # whatever the first load brings into memory for good is not this model's
pipeline = Pipeline.parse("legalize,simplify")
before = resident_bytes("VmHWM")
model = ir.load(sys.argv[1])
pipeline.run(model)
print(resident_bytes("VmHWM") - before, ir.initializer_bytes(model))
"""


@pytest.mark.skipif(resident_bytes("VmHWM") is None, reason="peak memory is read from Linux's /proc")
def test_weights_are_not_read_into_memory(tmp_path: Path) -> None:
    """Loading and simplifying 200 MiB of external weights grows the process by less than 40 MiB."""
    proto = parse("m (float[N,1024] x) => (float[N,51200] y) { y = MatMul(x, w) }")
    weight = TensorProto(name="w", dims=[1024, 51200], data_type=TensorProto.FLOAT, raw_data=b"x")
    set_external_data(weight, "weights.bin", offset=0, length=WEIGHT_BYTES)
    weight.ClearField("raw_data")
    proto.graph.initializer.append(weight)
    large, small = tmp_path / "large.onnx", tmp_path / "small.onnx"
    large.write_bytes(proto.SerializeToString())
    small.write_bytes(parse("m (float[2] x) => (float[2] y) { y = Relu(x) }").SerializeToString())
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(WEIGHT_BYTES)  # a hole: no disk is taken
    command = [sys.executable, "-c", MEASURE, str(large), str(small)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    growth, weights = map(int, done.stdout.split())
    assert weights == WEIGHT_BYTES
    assert growth < MOST_GROWTH

"""A small network with samples, compiled once, and the command line in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from infer_opt.cli.main import run
from tests.hosts import target_here

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
KIT = {"net.onnx", "fixed.onnx", "calib.npz", "compiled"}


@dataclass(frozen=True)
class Ran:
    """What one command line did: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What stdout holds: the one JSON document that it has to be."""
        return json.loads(self.out)


def save_net(path: Path, batch: int | str = "n") -> None:
    """Conv, Relu, MaxPool, Flatten, Gemm: 3x8x8 images to five class scores."""
    random = np.random.default_rng(0)
    weights = {"w": (8, 3, 3, 3), "b": (8,), "head": (128, 5), "c": (5,)}
    initializers = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 4, name)
        for name, shape in weights.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["v"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["v"], ["r"], "relu"),
        helper.make_node("MaxPool", ["r"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "head", "c"], ["scores"], "head_gemm"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, 5])
    graph = helper.make_graph(nodes, "net", [x], [scores], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with net.onnx, fixed.onnx (batch 1), calib.npz of 32 samples, and compiled/: net.onnx in INT8."""
    folder = tmp_path_factory.mktemp("kit")
    save_net(folder / "net.onnx")
    save_net(folder / "fixed.onnx", batch=1)
    samples = np.random.default_rng(1).standard_normal((32, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "calib.npz", x=samples)
    options = ["--target", target_here(), "--calib", str(folder / "calib.npz"), "--precision", "int8"]
    assert run(["compile", str(folder / "net.onnx"), *options, "--out", str(folder / "compiled")]) == 0
    return folder


@pytest.fixture
def loud(tmp_path: Path) -> tuple[str, str]:
    """A model that INT8 ruins, and its samples: one input is a thousand times the others and weighs nothing."""
    random = np.random.default_rng(0)
    weight = random.standard_normal((8, 4)).astype(np.float32)
    weight[0] = 0
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    graph = helper.make_graph([node], "loud", [x], [y], [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "loud.onnx")
    samples = random.standard_normal((16, 8)).astype(np.float32)
    samples[:, 0] *= 1000
    np.savez(tmp_path / "loud.npz", x=samples[:, np.newaxis])
    return "loud.onnx", "loud.npz"


@pytest.fixture
def infer_opt(kit: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command line; a word that names a file of the kit becomes its path."""

    def call(*words: str | Path) -> Ran:
        arguments = [str(kit / word) if word in KIT else str(word) for word in words]
        capfd.readouterr()
        code = run(arguments)
        streams = capfd.readouterr()
        return Ran(code, streams.out, streams.err)

    return call


@pytest.fixture
def fits() -> Callable[[str, object], None]:
    """A function that holds a document to a schema of docs/schemas/."""

    def check(name: str, document: object) -> None:
        schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)

    return check


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a command writes by default falls here; a colour setting of the caller's is not the test's."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        os.environ.pop(name, None)

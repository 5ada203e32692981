"""Small networks as ONNX text, the samples they are fed, and what onnxruntime makes of an artifact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from infer_opt import ir, profiles
from infer_opt.calibrate.plan import Plan
from infer_opt.calibrate.planner import integer_plan, watched_values
from infer_opt.calibrate.ranges import MinMax, RangeMethod
from infer_opt.calibrate.sample_set import Feed, SampleSet
from infer_opt.calibrate.statistics import collect
from infer_opt.profiles import Profile
from infer_opt.targets.qdq import write_qdq
from infer_opt.targets.regions import find_regions

BACKENDS = {"onnxruntime", "tensorrt"}


@dataclass(frozen=True)
class Feeds(SampleSet):
    """Samples that are in memory already."""

    feed: Sequence[Feed]
    source: str = "memory"

    def __len__(self) -> int:
        return len(self.feed)

    def describe(self, index: int) -> str:
        """As a stacked file names its samples."""
        return f"{self.source} sample {index}"

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        return iter(self.feed[start:stop])

    def _digest(self) -> str | None:
        return None


@dataclass(frozen=True)
class Lazy(SampleSet):
    """Samples that are made when they are asked for."""

    make: Callable[[int], Feed]
    count: int
    source: str = "lazy"

    def __len__(self) -> int:
        return self.count

    def describe(self, index: int) -> str:
        """As a stacked file names its samples."""
        return f"{self.source} sample {index}"

    def _read(self, start: int, stop: int) -> Iterator[Feed]:
        return map(self.make, range(start, stop))

    def _digest(self) -> str | None:
        return None


@dataclass(frozen=True)
class Network:
    """A graph as ONNX text, such as `net (float[1,3,8,8] x) => (float[1,4,8,8] y) { y = Relu(x) }`."""

    text: str
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    opset: int = 17

    def proto(self) -> onnx.ModelProto:
        """The model, with the constants as initializers; shapes of outputs are inferred where the text has none."""
        domains = ', "com.microsoft": 1' if "com.microsoft." in self.text else ""
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {self.opset}{domains}]> {self.text}')
        model.graph.initializer.extend(
            numpy_helper.from_array(np.asarray(array), name) for name, array in self.constants.items()
        )
        inferred = onnx.shape_inference.infer_shapes(model)
        for value, found in zip(model.graph.output, inferred.graph.output, strict=True):
            value.CopyFrom(found)
        return model

    def load(self, folder: Path) -> ir.Model:
        """The model as the compiler sees it."""
        return ir.load(self.save(folder))

    def save(self, folder: Path, name: str = "model.onnx") -> Path:
        """The model's file."""
        path = folder / name
        onnx.save(self.proto(), path)
        return path

    def run(self, feed: Feed) -> Feed:
        """All outputs by name, from onnxruntime."""
        return run(self.proto().SerializeToString(), feed)

    def every_value(self, feed: Feed) -> Feed:
        """Inputs, outputs and all values between, by name."""
        model = self.proto()
        known = {value.name for value in model.graph.output}
        names = (name for node in model.graph.node for name in node.output if name and name not in known)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        return feed | run(model.SerializeToString(), feed)


@dataclass(frozen=True)
class Int8:
    """A network compiled to INT8: the plan, and the bytes of what was written."""

    plan: Plan
    data: bytes

    @property
    def proto(self) -> onnx.ModelProto:
        """The artifact as protobuf."""
        return onnx.load_from_string(self.data)

    def constants(self) -> dict[str, np.ndarray]:
        """The artifact's initializers by name."""
        return {tensor.name: numpy_helper.to_array(tensor) for tensor in self.proto.graph.initializer}


def int8(
    network: Network, device: Profile, samples: SampleSet, folder: Path, method: RangeMethod | None = None
) -> Int8:
    """All regions that the dialect allows, ranges by `method` (min-max unless given)."""
    model = network.load(folder)
    plan = int8_plan(model, device, samples, method)
    return Int8(plan, ir.serialize(write_qdq(model, plan)))


def int8_plan(model: ir.Model, device: Profile, samples: SampleSet, method: RangeMethod | None = None) -> Plan:
    """The plan of `int8`."""
    assert device.dialect is not None
    regions = find_regions(model, device.dialect, int8=True)
    found = collect(model, watched_values(model, regions), samples)
    return integer_plan(model, regions, found.sketches, method or MinMax(), found.never_taken)


def profile(name: str, **changes: Any) -> Profile:
    """A shipped profile, with some facts replaced."""
    return replace(profiles.load(name, backends=BACKENDS), **changes)


def for_any_host(name: str, **changes: Any) -> Profile:
    """A shipped profile with 7-bit weights: x86 hosts without VNNI saturate sums of products of 8-bit ones."""
    device = profile(name, **changes)
    assert device.dialect is not None
    return replace(device, dialect=replace(device.dialect, weight_bits=7))


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Normally distributed float32 numbers."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def uniform_feeds(count: int, shapes: Mapping[str, tuple[int, ...]], *, reach: float = 1.0) -> Feeds:
    """Float32 samples, uniform in [-reach, reach)."""
    rng = np.random.default_rng(0)
    return Feeds(
        [
            {name: rng.uniform(-reach, reach, shape).astype(np.float32) for name, shape in shapes.items()}
            for _ in range(count)
        ]
    )


def run(model: bytes | Path, feed: Feed, **config: str) -> Feed:
    """All outputs by name, from a session of its own; `config` holds session keys, `_` for `.`."""
    session = session_of(model, None, **config)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def optimized(model: bytes | Path, folder: Path, **config: str) -> list[str]:
    """Operators of the graph that onnxruntime really runs, sorted; layout changes aside."""
    path = folder / "optimized.onnx"
    session_of(model, path, **config)
    return sorted(node.op_type for node in onnx.load(path).graph.node)


def session_of(model: bytes | Path, written: Path | None, **config: str) -> onnxruntime.InferenceSession:
    """A session of one thread; its optimised graph goes to `written`."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    for key, value in config.items():
        options.add_session_config_entry(key.replace("_", "."), value)
    if written is not None:
        # Above this level stand layouts for this host's CPU, which tell nothing of the graph.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(written)
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def sqnr(reference: np.ndarray, got: np.ndarray) -> float:
    """Signal to quantization-noise ratio in dB."""
    signal = np.square(reference, dtype=np.float64).sum()
    noise = np.square(reference.astype(np.float64) - got).sum()
    return float(10.0 * math.log10(signal / noise)) if noise else math.inf

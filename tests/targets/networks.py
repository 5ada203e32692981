"""Small networks as ONNX text, the samples they are fed, and what onnxruntime makes of an artifact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

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
class Network:
    """A graph as ONNX text, such as `net (float[1,3,8,8] x) => (float[1,4,8,8] y) { y = Relu(x) }`."""

    text: str
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    opset: int = 17

    def proto(self) -> onnx.ModelProto:
        """The model, with the constants as initializers."""
        head = f'<ir_version: 8, opset_import: ["": {self.opset}, "com.microsoft": 1]>'
        model = onnx.parser.parse_model(f"{head} {self.text}")
        model.graph.initializer.extend(
            numpy_helper.from_array(np.asarray(array), name) for name, array in self.constants.items()
        )
        return model

    def load(self, folder: Path) -> ir.Model:
        """The model as the compiler sees it."""
        return ir.load(self.save(folder))

    def save(self, folder: Path, name: str = "model.onnx") -> Path:
        """The model's file."""
        path = folder / name
        onnx.save(self.proto(), path)
        return path


def profile(name: str, **changes: object) -> Profile:
    """A shipped profile, with some facts replaced."""
    return replace(profiles.load(name, backends=BACKENDS), **changes)


def random_feeds(
    count: int, *, seed: int = 0, low: float = -1.0, high: float = 1.0, **shapes: tuple[int, ...]
) -> Feeds:
    """Uniform float32 samples."""
    rng = np.random.default_rng(seed)
    return Feeds(
        [
            {name: rng.uniform(low, high, shape).astype(np.float32) for name, shape in shapes.items()}
            for _ in range(count)
        ]
    )


def int8_plan(model: ir.Model, device: Profile, samples: SampleSet, method: RangeMethod | None = None) -> Plan:
    """Regions by the profile's dialect, ranges by `method` (min-max unless given)."""
    assert device.dialect is not None
    regions = find_regions(model, device.dialect, int8=True)
    found = collect(model, watched_values(model, regions), samples)
    return integer_plan(model, regions, found.sketches, method or MinMax())


def run(model: bytes | Path, feed: Feed, **config: str) -> Feed:
    """All outputs by name, from a plain onnxruntime session; `config` holds session keys, `_` for `.`."""
    session = session_of(model, None, **config)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def optimized(model: bytes | Path, folder: Path, **config: str) -> onnx.GraphProto:
    """The graph that onnxruntime really runs, layout changes aside."""
    path = folder / "optimized.onnx"
    session_of(model, path, **config)
    return onnx.load(path).graph


def session_of(model: bytes | Path, written: Path | None, **config: str) -> onnxruntime.InferenceSession:
    """A session; its optimised graph goes to `written`."""
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
    reference, got = reference.astype(np.float64), got.astype(np.float64)
    return float(10.0 * np.log10(np.square(reference).sum() / np.square(reference - got).sum()))

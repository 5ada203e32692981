"""The TensorRT backend: a strongly typed ONNX file, and the script that builds the engine from it.

A plan file is tied to the GPU it is built on, so the last step runs on the device. FP16 and INT8 are written into the
graph: TensorRT takes its precisions from there and from nowhere else since version 11.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from infer_opt import ir
from infer_opt.calibrate.runner import Runner
from infer_opt.calibrate.target import ANY_SHAPES, Artifact
from infer_opt.targets.fusion import placed
from infer_opt.targets.qdq import write_qdq
from infer_opt.targets.regions import find_regions, float_region
from infer_opt.targets.roofline import Roofline
from infer_opt.targets.rounding import rounded
from infer_opt.targets.rtx import rtx_verdict
from infer_opt.targets.support import refuse_newer_opset, refuse_unsupported, stand_ins
from infer_opt.targets.typed import half_scheme, write_half

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from infer_opt.calibrate.plan import Plan, Region
    from infer_opt.calibrate.shape_ranges import ShapeRange
    from infer_opt.profiles import Profile

__all__ = ["BACKEND", "create"]

BACKEND = "tensorrt"
_MAIN = "model.onnx"
_DEFAULT_VERSION = (10,)  # where the profile does not say
_WITH_OPTIMIZATION_LEVEL = (8, 6)  # whose trtexec was the first with that option

_BY_NAME = (
    "operators were checked by name against TensorRT's list, not by its parser; "
    "`infer-opt doctor --install tensorrt-rtx` brings one that needs no GPU"
)

# Operators of the standard that TensorRT's ONNX parser refuses (its operator support table, version 11).
_REFUSED = frozenset(
    {"ConvInteger", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul", "Multinomial"}
    | {
        "StringNormalizer",
        "TfIdfVectorizer",
        "Unique",
        "Optional",
        "SequenceConstruct",
        "SequenceAt",
        "Adagrad",
    }
)


def create(profile: Profile) -> TensorRTTarget:
    """The backend for a profile."""
    return TensorRTTarget(profile)


@dataclass(frozen=True)
class TensorRTTarget:
    """See `calibrate.target.Target`."""

    takes_any_shape: ClassVar[bool] = False  # an engine is built for ranges

    profile: Profile

    def check(self, model: ir.Model, allowed: Collection[str] = ()) -> None:
        """Every operator has to be one of the ONNX standard, and none that TensorRT's parser refuses."""
        refuse_newer_opset(model, self.profile)
        refuse_unsupported(
            model,
            lambda node: not node.domain and ir.operator_known(node.op_type, "") and node.op_type not in _REFUSED,
            allowed,
            "TensorRT",
            "export without it, or name its plugin with --allow-op",
        )

    def regions(self, model: ir.Model) -> tuple[Region, ...]:
        """What TensorRT fuses, with INT8 by the profile's dialect and cut-offs, and FP16 where ONNX has it."""
        if self.profile.dialect is None:
            return tuple(float_region([node]) for node in model.graph)
        found = find_regions(model, self.profile.dialect, int8="int8" in self.profile.precisions)
        regions = placed(model, found, self.profile.cutoffs)
        if "fp16" not in self.profile.precisions:
            return regions
        nodes = ir.nodes(model)
        opset = model.opset_imports.get("", 0)
        return tuple(
            region if scheme is None or region.scope else replace(region, schemes=(*region.schemes, scheme))
            for region in regions
            for scheme in [half_scheme([nodes[name] for name in region.nodes], opset)]
        )

    def rehearse(self, model: ir.Model, plan: Plan) -> ir.Model:
        """The artifact's graph with FP16 rounded, not computed: see `rounding.rounded` for what that does not tell."""
        return rounded(self._typed(model, plan))

    def emit(
        self, model: ir.Model, plan: Plan, folder: Path, shapes: Mapping[str, ShapeRange] = ANY_SHAPES
    ) -> Artifact:
        """`model.onnx` and `build.sh`."""
        written = ir.save(self._typed(model, plan), folder / _MAIN)
        capability = self.profile.compute_capability
        verdict = rtx_verdict(folder / _MAIN, capability, shapes) if capability else None
        script = folder / "build.sh"
        script.write_text(self._script(model, shapes), encoding="utf-8")
        script.chmod(0o755)
        return Artifact(
            main=_MAIN,
            files=(*(path.name for path in written), script.name),
            checked="rules" if verdict is None else verdict.checked,
            unchecked=(
                f"no engine was built: run build.sh on the {self.profile.name}",
                _BY_NAME if verdict is None else verdict.words,
                *self._emulations(plan),
                *stand_ins(model),
            ),
        )

    def run(self, folder: Path, artifact: Artifact, threads: int) -> Runner:
        """The typed graph in onnxruntime, every FP16 number rounded: the same computation, not the same engine."""
        path = folder / artifact.main
        return Runner.of_model(rounded(ir.load(path)), f"`{path}`", threads=threads)

    def _typed(self, model: ir.Model, plan: Plan) -> ir.Model:
        half = {name for region in plan.regions if region.name in plan.half for name in region.nodes}
        written = write_qdq(model, plan)
        return write_half(written, half - {str(node.name) for node in written.graph if _joins_integers(node)})

    def _emulations(self, plan: Plan) -> list[str]:
        """What the numbers of the check stand for, where they are not float32."""
        kinds = [kind for kind, there in (("INT8", plan.at("int8")), ("FP16", plan.half)) if there]
        if not kinds:
            return []
        return [f"{' and '.join(kinds)}: rounding was checked in onnxruntime, sums of the device's kernels were not"]

    def timed_here(self) -> str | None:
        """Never: this host's CPU says nothing about a GPU."""
        return f"the {self.profile.name} is a GPU"

    def latency_model(self) -> Roofline | None:
        """By the profile's rates."""
        return Roofline.of(self.profile)

    def _script(self, model: ir.Model, shapes: Mapping[str, ShapeRange]) -> str:
        options = [f"--onnx={_MAIN}", "--saveEngine=model.plan", "--timingCacheFile=model.cache"]
        options += _shape_options(model, shapes)
        version = self._version()
        if version[0] == 10:
            options.append("--stronglyTyped")
        if version >= _WITH_OPTIMIZATION_LEVEL:
            options.append("--builderOptimizationLevel=4")
        options += ["--profilingVerbosity=detailed", "--exportLayerInfo=layers.json"]
        device = " ".join((self.profile.summary or self.profile.name).split())  # a comment is one line
        lines = " \\\n    ".join(option if option.startswith('"') else shlex.quote(option) for option in options)
        return (
            "#!/bin/sh\n"
            f"# Builds model.plan with TensorRT on the device ({device}).\n"
            "# Written by infer-opt; not run on the host that wrote it.\n"
            "set -eu\n"
            'cd "$(dirname "$0")"\n'
            f'trtexec {lines} "$@"\n'
        )

    def _version(self) -> tuple[int, ...]:
        runtime = self.profile.runtime
        numbers = re.findall(r"\d+", runtime.version) if runtime and runtime.version else []
        return tuple(map(int, numbers)) or _DEFAULT_VERSION


def _shape_options(model: ir.Model, shapes: Mapping[str, ShapeRange]) -> list[str]:
    """The sizes of open dimensions: those that samples have, or else what the caller of the script sets."""
    names = [port.name for port in ir.interface(model).inputs if port.is_open]
    if not names:
        return []
    if shapes.keys() >= set(names) and not any(mark in name for name in names for mark in ":,"):
        ends = (("min", "low"), ("opt", "typical"), ("max", "high"))
        return [
            f"--{option}Shapes=" + ",".join(f"{name}:{_by_x(getattr(shapes[name], end))}" for name in names)
            for option, end in ends
        ]
    # In double quotes, for the shell to put in; the names come from the model, so nothing of them may be code.
    safe = "".join(letter if letter.isalnum() or letter in "_.:/-, " else "?" for letter in ", ".join(names))
    return [f'"--shapes=${{SHAPES:?set SHAPES=name:1x3x224x224 for the dynamic inputs {safe}}}"']


def _by_x(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _joins_integers(node: ir.Node) -> bool:
    """Whether a Concat stands between quantizers: no float of it is ever seen, of whatever width.

    onnxruntime makes one kernel of it, which takes no FP16 scale; in FP32 the graph loads there too.
    """
    if node.op_type != "Concat" or node.outputs[0].is_graph_output():
        return False
    makers = [None if value is None else value.producer() for value in node.inputs]
    made = all(maker is not None and maker.op_type == "DequantizeLinear" for maker in makers)
    return made and all(user.op_type == "QuantizeLinear" for user, _ in node.outputs[0].uses())

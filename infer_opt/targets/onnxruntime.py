"""The onnxruntime backend: an ONNX file for CPUs, with Q/DQ or integer operators where the plan says INT8."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from infer_opt import ir
from infer_opt.calibrate.runner import Runner
from infer_opt.calibrate.target import ANY_SHAPES, Artifact
from infer_opt.targets.dynamic import write_dynamic
from infer_opt.targets.float_weights import keep_float_weights
from infer_opt.targets.host import unlike_host
from infer_opt.targets.qdq import write_qdq
from infer_opt.targets.regions import find_regions
from infer_opt.targets.support import refuse_newer_opset, refuse_unsupported, stand_ins

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from infer_opt.calibrate.plan import Plan, Region
    from infer_opt.calibrate.shape_ranges import ShapeRange
    from infer_opt.profiles import Profile

__all__ = ["BACKEND", "create"]

BACKEND = "onnxruntime"
_MAIN = "model.onnx"


def create(profile: Profile) -> OnnxRuntimeTarget:
    """The backend for a profile."""
    return OnnxRuntimeTarget(profile)


@dataclass(frozen=True)
class OnnxRuntimeTarget:
    """See `calibrate.target.Target`."""

    takes_any_shape: ClassVar[bool] = True

    profile: Profile

    def check(self, model: ir.Model, allowed: Collection[str] = ()) -> None:
        """Every operator has to be one that onnxruntime registers, contrib operators included."""
        refuse_newer_opset(model, self.profile)
        known = _operators()
        refuse_unsupported(
            model,
            lambda node: (node.domain or "ai.onnx", node.op_type) in known,
            allowed,
            "onnxruntime",
            "export without it, give it a function body, or pass --allow-op",
        )

    def regions(self, model: ir.Model) -> tuple[Region, ...]:
        """By the profile's dialect."""
        if self.profile.dialect is None:
            return ()
        return find_regions(model, self.profile.dialect, int8="int8" in self.profile.precisions)

    def rehearse(self, model: ir.Model, plan: Plan) -> ir.Model:
        """The artifact's graph itself."""
        return keep_float_weights(write_dynamic(write_qdq(model, plan), plan))

    def emit(
        self, model: ir.Model, plan: Plan, folder: Path, shapes: Mapping[str, ShapeRange] = ANY_SHAPES
    ) -> Artifact:
        """`model.onnx`, and `model.onnx.data` beside it where the weights exceed 1 GiB."""
        del shapes  # onnxruntime takes any
        written = ir.save(self.rehearse(model, plan), folder / _MAIN)
        here = self.timed_here()
        doubts = [] if here is None else [f"run here with other kernels than the device's: {here}"]
        doubts += stand_ins(model)
        return Artifact(
            main=_MAIN,
            files=tuple(path.name for path in written),
            checked="emulated" if doubts else "run",
            unchecked=tuple(doubts),
            run=(("threads", self.profile.threads), ("arena", True)),
        )

    def run(self, folder: Path, artifact: Artifact, threads: int) -> Runner:
        """A session on this host's CPU: the same graph, with this host's kernels."""
        signed = self.profile.dialect is not None and self.profile.dialect.activation_dtype == "int8"
        return Runner.of_file(folder / artifact.main, threads=threads, signed=signed)

    def timed_here(self) -> str | None:
        """None where this host's CPU has the INT8 kernels of the profile's."""
        return unlike_host(self.profile)

    def latency_model(self) -> None:
        """None: of CPUs no profile states rates that would tell kernels apart."""
        return


@cache
def _operators() -> frozenset[tuple[str, str]]:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    return frozenset((schema.domain or "ai.onnx", schema.name) for schema in get_all_operator_schema())

"""What a backend is to everybody else. Calibration and planning see a target only through this protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol

from infer_opt.calibrate.shape_ranges import ShapeRange

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from infer_opt import ir
    from infer_opt.calibrate.kernel_times import RegionTimes
    from infer_opt.calibrate.plan import Plan, Region
    from infer_opt.calibrate.runner import Runner

__all__ = ["ANY_SHAPES", "Artifact", "LatencyModel", "Target"]

ANY_SHAPES: Mapping[str, ShapeRange] = MappingProxyType({})
"""Nothing is known of the shapes that inputs will have."""


@dataclass(frozen=True)
class Artifact:
    """What `emit` wrote.

    Args:
        main: the file the device loads, relative to the folder.
        files: all files, relative to the folder, the main one first.
        checked: how far the host can check it: `run`, `emulated`, `built`, `parsed` or `rules`.
        unchecked: what could not be checked here, in words; empty where nothing is left open.
        run: settings a runtime should use (threads, ...).
    """

    main: str
    files: tuple[str, ...]
    checked: str
    unchecked: tuple[str, ...] = ()
    run: tuple[tuple[str, str | int | bool], ...] = ()


class LatencyModel(Protocol):
    """What a device would take, where this host cannot measure it."""

    @property
    def basis(self) -> str:
        """What the figures rest on, in words."""
        ...

    def times(self, model: ir.Model, plan: Plan, shapes: Mapping[str, Sequence[int]]) -> RegionTimes:
        """Modelled seconds of each region, and in `other` of what lies between them, for inputs of these shapes."""
        ...

    def crossing(self, value: ir.Value, elements: int) -> float:
        """Modelled seconds to turn a value that is made in float into integers.

        Args:
            elements: how many it has.
        """
        ...


class Target(Protocol):
    """A backend bound to one hardware profile.

    Attributes:
        takes_any_shape: whether an artifact runs with other shapes than those that were known when it was made.
    """

    takes_any_shape: ClassVar[bool]

    def check(self, model: ir.Model, allowed: Collection[str] = ()) -> None:
        """Before any work: raises InputError for the first node the device cannot run, with the number of others.

        Operators in `allowed` (`DOMAIN::OP`) pass: the user knows of a kernel for them.
        """
        ...

    def regions(self, model: ir.Model) -> tuple[Region, ...]:
        """The kernels the device would run, and the precisions each could run at."""
        ...

    def rehearse(self, model: ir.Model, plan: Plan) -> ir.Model:
        """A copy that onnxruntime runs and that does, on this host, the arithmetic that the artifact would do.

        The caller may do with it what it likes: it shares tensors with `model`, but no graph and no value.
        """
        ...

    def emit(
        self, model: ir.Model, plan: Plan, folder: Path, shapes: Mapping[str, ShapeRange] = ANY_SHAPES
    ) -> Artifact:
        """Write the artifact of a plan into an empty folder.

        Args:
            shapes: that inputs with open dimensions have in the samples, by name; empty where nobody knows.
        """
        ...

    def run(self, folder: Path, artifact: Artifact, threads: int) -> Runner | None:
        """The artifact loaded on this host, or None where the host cannot run it."""
        ...

    def timed_here(self) -> str | None:
        """None where this host's latency counts for the device, otherwise why it does not."""
        ...

    def latency_model(self) -> LatencyModel | None:
        """What to go by where it does not; None where too little is known of the device."""
        ...

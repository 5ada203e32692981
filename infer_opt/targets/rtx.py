"""TensorRT-RTX as a check of typed graphs: its parser and its builder need no GPU.

It is not the TensorRT of a data centre or a Jetson: what it builds does not run there, and what it says of speed says
nothing. What it refuses, those refuse too, as far as was seen; and it refuses what rules by name let pass.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_opt.calibrate.target import ANY_SHAPES
from infer_opt.targets.environments import ENVIRONMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infer_opt.calibrate.shape_ranges import ShapeRange

__all__ = ["RtxVerdict", "rtx_verdict"]

_WORKER = Path(__file__).with_name("rtx_worker.py")
_SECONDS = 600


@dataclass(frozen=True)
class RtxVerdict:
    """What TensorRT-RTX made of a graph.

    Args:
        checked: `built`, `parsed` where the sizes that were tried do not build, or `rules` where it was refused.
        words: what was seen, or what went wrong.
    """

    checked: str
    words: str


def rtx_verdict(
    model: Path, compute_capability: str, shapes: Mapping[str, ShapeRange] = ANY_SHAPES
) -> RtxVerdict | None:
    """Parse a typed graph and build it for a GPU; None where the environment is not installed.

    Args:
        compute_capability: of the GPU, such as `7.5`.
        shapes: of inputs with open dimensions; those of which nothing is known are 1.
    """
    python = ENVIRONMENTS["tensorrt-rtx"].python
    if python is None:
        return None
    known = json.dumps({name: astuple(each) for name, each in shapes.items()})
    command = [str(python), str(_WORKER), str(model), compute_capability.replace(".", ""), known]
    try:
        ran = subprocess.run(  # noqa: S603 - our own words, and a path
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return RtxVerdict("rules", f"TensorRT-RTX was still building after {_SECONDS} s, and was stopped")
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["no word"])[-1]
        return RtxVerdict("rules", f"TensorRT-RTX could not be asked: {last}")
    return _verdict(json.loads(ran.stdout.strip().splitlines()[-1]))


def _verdict(found: Mapping[str, Any]) -> RtxVerdict:
    name = f"TensorRT-RTX {found['version']}"
    if not found["parsed"]:
        return RtxVerdict("rules", f"{name} does not parse it: {'; '.join(found['errors'])}")
    types = ", ".join(f"{count} {kind}" for kind, count in found["types"].items())
    seen = f"{found['layers']} layers, strongly typed: {types}"
    errors = "; ".join(found["errors"])
    if not found["built"] and found["open"]:
        return RtxVerdict("parsed", f"{name} parsed it ({seen}), and does not build it with {found['open']}: {errors}")
    if not found["built"]:
        return RtxVerdict("rules", f"{name} does not build it for {found['capability']}: {errors}")
    size = f", with {found['open']}" if found["open"] else ""
    return RtxVerdict(
        "built", f"{name} parsed and built it for {found['capability']}{size} ({seen}): not the device's own engine"
    )

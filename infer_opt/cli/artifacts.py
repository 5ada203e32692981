"""What commands are pointed at: an ONNX file, or the folder that `compile` wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from infer_opt import ir
    from infer_opt.calibrate.runner import Runner
    from infer_opt.calibrate.sample_set import InputSpec
    from infer_opt.profiles import Profile

__all__ = ["Compiled", "onnx_file", "open_artifact"]


@dataclass(frozen=True)
class Compiled:
    """An artifact folder whose files are what the manifest says."""

    folder: Path
    manifest: Mapping[str, Any]
    profile: Profile

    @property
    def threads(self) -> int:
        """Threads it is meant to run with."""
        return int(self.manifest["run"]["threads"])

    def runner(self, threads: int) -> Runner:
        """The artifact loaded on this host.

        Raises:
            InputError: the host cannot run it.
        """
        from infer_opt import targets
        from infer_opt.calibrate.target import Artifact

        files = tuple(entry["path"] for entry in self.manifest["files"])
        artifact = Artifact(self.manifest["model"], files, self.manifest["checked"])
        runner = targets.create(self.profile).run(self.folder, artifact, threads)
        if runner is None:
            raise InputError(
                f"this host cannot run `{self.folder}`, which is for {self.profile.name}", "run it on the device"
            )
        return runner

    def input_specs(self, original: ir.Model) -> list[InputSpec]:
        """The inputs of the original, with the shapes that the artifact was compiled for."""
        from dataclasses import replace

        from infer_opt.calibrate.feeding import input_specs

        shapes = {entry["name"]: entry["shape"] for entry in self.manifest["inputs"]}
        return [
            replace(spec, shape=spec.shape if shapes.get(spec.name) is None else tuple(shapes[spec.name]))
            for spec in input_specs(original)
        ]


def open_artifact(folder: Path) -> Compiled:
    """Open an artifact folder.

    Raises:
        BrokenArtifactError: a file is missing or was changed.
        InputError: the folder is none that infer-opt wrote.
    """
    from infer_opt import report, targets
    from infer_opt.profiles import Profile
    from infer_opt.profiles.tables import faults, from_table

    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"`{folder}` {what}", "name a folder that `infer-opt compile` wrote")
    manifest = report.read_manifest(folder)
    table = manifest["profile"]
    for fault in faults(Profile, table):
        raise InputError(f"`{folder / report.MANIFEST}`: {fault.message}", "compile the model again")
    if table["backend"] not in targets.backends():
        raise InputError(f"`{folder}` is for the backend `{table['backend']}`, which is not here", "update infer-opt")
    return Compiled(folder, manifest, from_table(Profile, table))


def onnx_file(path: Path) -> Path:
    """The ONNX file at a path: the file itself, or the one inside an artifact folder.

    Raises:
        InputError: the artifact holds none; as `open_artifact` besides.
    """
    if not path.is_dir():
        return path
    main = path / str(open_artifact(path).manifest["model"])
    if main.suffix != ".onnx":
        raise InputError(f"`{main}` is no ONNX file", "name the ONNX file that was compiled")
    return main

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

__all__ = ["Compiled", "open_artifact", "onnx_file"]


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
    from infer_opt import profiles, report, targets

    if not folder.is_dir():
        raise InputError(
            f"`{folder}` is {'not a folder' if folder.exists() else 'not there'}",
            "name a folder that `infer-opt compile` wrote",
        )
    manifest = report.read_manifest(folder)
    return Compiled(folder, manifest, profiles.from_manifest(manifest.get("profile"), str(folder), targets.backends()))


def onnx_file(path: Path) -> Path:
    """The ONNX file at a path: the file itself, or the one inside an artifact folder."""
    from infer_opt import report

    if not path.is_dir():
        return path
    main = path / str(report.read_manifest(path).get("model"))
    if main.suffix != ".onnx":
        raise InputError(f"`{main}` is no ONNX file", "name the ONNX file that was compiled")
    return main

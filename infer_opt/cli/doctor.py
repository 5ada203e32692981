"""`infer-opt doctor`: what this host can do, what is missing, and the command that installs it."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infer_opt.cli.choices import Json, load_profile
from infer_opt.cli.output import facts, listing, note, write, write_json
from infer_opt.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.profiles import Profile

__all__ = ["doctor_command"]


@dataclass(frozen=True)
class Toolchain:
    """Something that builds, loads or checks artifacts.

    Args:
        module: how Python imports it, or None for a program.
        package: what its version is asked of; the name of a program where there is no module.
        install: the command that installs it, or where it comes from.
        use: what it is for.
        backend: the backend that cannot do without it on this host, or None.
    """

    name: str
    module: str | None
    package: str
    install: str
    use: str
    backend: str | None = None

    @property
    def found(self) -> bool:
        """Whether it is there, told without importing it."""
        if self.module is None:
            return shutil.which(self.package) is not None
        from importlib.util import find_spec

        return find_spec(self.module) is not None


TOOLCHAINS = (
    Toolchain(
        "onnxruntime", "onnxruntime", "onnxruntime", "pip install onnxruntime", "running and timing", "onnxruntime"
    ),
    Toolchain("jinja2", "jinja2", "jinja2", "pip install 'infer-opt[report]'", "report.html"),
    Toolchain("matplotlib", "matplotlib", "matplotlib", "pip install 'infer-opt[report]'", "report.html"),
    Toolchain("pillow", "PIL", "pillow", "pip install 'infer-opt[images]'", "folders of images as --calib"),
    Toolchain("trtexec", None, "trtexec", "install TensorRT from NVIDIA's archive", "build.sh of NVIDIA profiles"),
    Toolchain("tensorrt", "tensorrt", "tensorrt", "pip install tensorrt", "nothing in this version"),
    Toolchain("openvino", "openvino", "openvino", "pip install openvino", "nothing in this version"),
)


def doctor_command(
    target: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="Look at one profile only.")] = None,
    install: Annotated[
        str | None, typer.Option(metavar="NAME", help="Install a toolchain that has an environment of its own.")
    ] = None,
    find_links: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of wheels for --install, in place of the package index.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what this host can do, and what is missing.

    Which profiles can be timed here, which toolchains are installed, and the commands that install the others. With
    --target, exit code 1 where something is missing that the profile needs here. --install makes the environment
    of a toolchain whose packages do not go with others, in the user's cache, and prints its folder.
    """
    from infer_opt import profiles

    if install is not None:
        _install(install, find_links)
        return
    chosen = [load_profile(target)] if target else [load_profile(name) for name in profiles.names()]
    table = _table(chosen)
    if as_json:
        write_json(table)
    else:
        _print(table)
    for tool in TOOLCHAINS if target else ():
        if tool.backend == chosen[0].backend and not tool.found:
            raise InputError(f"`{target}` needs {tool.name}, which is missing", f"run `{tool.install}`")


def _install(name: str, find_links: Path | None) -> None:
    from infer_opt.errors import nearest
    from infer_opt.targets.environments import ENVIRONMENTS

    environment = ENVIRONMENTS.get(name)
    if environment is None:
        near = nearest(name, ENVIRONMENTS)
        hint = f"did you mean `{near}`?" if near else f"there are {', '.join(sorted(ENVIRONMENTS))}"
        raise UsageError(f"no toolchain with an environment of its own is named `{name}`", hint)
    if find_links is not None and not find_links.is_dir():
        raise InputError(f"`{find_links}` is no folder", "name a folder that holds the wheels")
    note(f"installing {', '.join(environment.packages)}: about {environment.megabytes} MB in {environment.folder}")
    write(str(environment.install(find_links)))


def _table(chosen: Sequence[Profile]) -> dict[str, Any]:
    from infer_opt import targets
    from infer_opt.report.versions import version, versions
    from infer_opt.targets.environments import ENVIRONMENTS

    wanted = sorted({extension for profile in chosen for extension in profile.isa})
    have = targets.host_isa()
    return {
        "schema": 1,
        "versions": versions(),
        "host": {
            "system": platform.platform(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "isa": {name: name in have for name in wanted},
        },
        "profiles": [
            {
                "name": profile.name,
                "backend": profile.backend,
                "verify": profile.verify,
                "not_timed_here": targets.create(profile).timed_here(),
            }
            for profile in chosen
        ],
        "toolchains": [
            {
                "name": tool.name,
                "found": tool.found,
                "version": version(tool.package) if tool.module else None,
                "use": tool.use,
                "install": tool.install,
            }
            for tool in TOOLCHAINS
        ]
        + [
            {
                "name": item.name,
                "found": item.python is not None,
                "version": item.packages[0].rpartition("=")[2] if item.python is not None else None,
                "use": item.use,
                "install": f"infer-opt doctor --install {item.name}  ({item.megabytes} MB)",
            }
            for item in ENVIRONMENTS.values()
        ],
    }


def _print(table: dict[str, Any]) -> None:
    host = table["host"]
    flags = ", ".join(name if there else f"no {name}" for name, there in host["isa"].items())
    versions = ", ".join(f"{name} {number}" for name, number in table["versions"].items())
    facts(
        [
            ("host", f"{host['system']}, {host['cores']} cores"),
            ("CPU", f"{host['machine']}: {flags or 'no extensions asked for'}"),
            ("versions", versions),
        ]
    )
    write("")
    rows = [
        (profile["name"], profile["backend"], f"no: {reason}" if (reason := profile["not_timed_here"]) else "yes")
        for profile in table["profiles"]
    ]
    listing(("profile", "backend", "timed on this host"), rows)
    write("")
    tools = [
        (tool["name"], _state(tool), tool["use"], "" if tool["found"] else tool["install"])
        for tool in table["toolchains"]
    ]
    listing(("toolchain", "state", "for", "to install"), tools)


def _state(tool: dict[str, Any]) -> str:
    return str(tool["version"] or "found") if tool["found"] else "missing"

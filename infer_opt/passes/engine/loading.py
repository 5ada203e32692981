"""Loading plugins: the files and modules that `--plugin` names, and those that installed packages declare.

A plugin is ordinary Python. Importing it runs it, so only plugins that a user names, or has installed, are loaded.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from pathlib import Path

from infer_opt.calibrate.user_code import load_module
from infer_opt.errors import InputError, running_user_code

__all__ = ["ENTRY_POINTS", "load_installed_plugins", "load_plugin"]

ENTRY_POINTS = "infer_opt.plugins"

_CONTRACT = "a plugin registers fusion patterns, passes and references"


def load_plugin(source: str) -> None:
    """Import a plugin: a path that ends in `.py`, or the name of a module.

    Loaded again, it registers again, under the same names.

    Raises:
        InputError: it is not there, or its code raises; file and line are named.
    """
    if source.endswith(".py"):
        load_module(source, _CONTRACT)
        return
    with running_user_code(_file_of_module(source), _CONTRACT):
        importlib.import_module(source)


def _file_of_module(name: str) -> str:
    """The file of a module, which need not have been imported; the name itself where it has none.

    Raises:
        InputError: there is no such module.
    """
    hint = "pass the path of a file that ends in .py, or a module that Python finds"
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(f"`{name}` is no name of a module", hint)
    # Looking for an inner module imports the outer ones.
    with running_user_code(name, _CONTRACT, (ModuleNotFoundError,)):
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            spec = None
    if spec is None:
        near = f"{name}.py"
        raise InputError(f"no module is called `{name}`", f"pass `{near}`" if Path(near).is_file() else hint)
    return spec.origin or name


def load_installed_plugins() -> None:
    """Import the plugins that installed packages declare in the entry-point group `infer_opt.plugins`.

    Raises:
        InputError: as `load_plugin`; the package is named.
    """
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        _load_installed(entry)


def _load_installed(entry: importlib.metadata.EntryPoint) -> None:
    try:
        load_plugin(entry.module)
    except InputError as error:
        package = entry.dist.name if entry.dist else entry.value
        raise InputError(
            f"plugin `{entry.name}` of the installed package `{package}`: {error.message}",
            f"correct the package or uninstall it: {error.hint}",
        ) from error

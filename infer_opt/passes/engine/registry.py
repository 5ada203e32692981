"""Finding passes: a module in `infer_opt/passes/` that defines a Pass is its registration."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path

from infer_opt.errors import InputError, UsageError, place_of
from infer_opt.passes.engine.base import Pass
from infer_opt.passes.engine.plugins import registered_passes

__all__ = ["available", "find"]

_FOLDER = Path(__file__).parent.parent


def available() -> dict[str, type[Pass]]:
    """All passes by name, sorted; those of plugins that were loaded among them.

    Raises:
        InputError: a plugin's pass has the name of a shipped one.
    """
    shipped, registered = _shipped(), registered_passes()
    for name in sorted(shipped.keys() & registered.keys()):
        place = place_of(registered[name].apply)
        raise InputError(f"{place}: there is a pass `{name}` that comes with infer-opt", "give it another name")
    return dict(sorted({**shipped, **registered}.items()))


@cache
def _shipped() -> dict[str, type[Pass]]:
    found: dict[str, type[Pass]] = {}
    for module_info in pkgutil.iter_modules([str(_FOLDER)]):
        if module_info.ispkg:
            continue
        module = importlib.import_module(f"infer_opt.passes.{module_info.name}")
        for _, member in inspect.getmembers(module, inspect.isclass):
            if issubclass(member, Pass) and member.__module__ == module.__name__:
                found[member.name] = member
    return found


def find(name: str) -> type[Pass]:
    """The pass of that name.

    Raises:
        UsageError: there is none; the hint names the nearest.
    """
    passes = available()
    if name in passes:
        return passes[name]
    near = difflib.get_close_matches(name, passes, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "list the passes with `infer-opt passes`"
    raise UsageError(f"no pass is called `{name}`; there are {', '.join(passes)}", hint)

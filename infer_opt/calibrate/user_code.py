"""Functions of the user's, `FILE.py:function`: how they are loaded."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from infer_opt.calibrate.feed_checks import ticked
from infer_opt.errors import InputError, nearest, running_user_code

__all__ = ["load_function", "load_module", "public_functions"]


def load_function(source: str, contract: str) -> Callable[..., Any]:
    """The function that `FILE.py:function` names; the file is executed, as a module.

    Args:
        source: path of the file, a colon, and the function's name.
        contract: what the function must do, for hints: "it yields one dict of arrays a sample".

    Raises:
        InputError: no such file or function, or an exception while the file is executed.
    """
    file, colon, name = source.rpartition(":")
    if not colon or source.endswith(".py"):
        file, name = source, ""
    if not Path(file).is_file():
        raise InputError(f"`{file}` is no file", "pass FILE.py:function with the path of a Python file")
    module = load_module(file, contract)
    function: object = getattr(module, name, None) if name else None
    if callable(function):
        return function
    functions = [item.__name__ for item in public_functions(module)]
    near = nearest(name, functions) or next(iter(functions), None)
    raise InputError(
        f"`{file}` has no function `{name}`" if name else f"`{source}` names no function",
        f"pass `{file}:{near}`; the file's functions are {ticked(functions)}"
        if near
        else f"define a function in it; {contract}",
    )


def public_functions(module: ModuleType) -> list[Callable[..., Any]]:
    """The functions that a module defines itself, in the order they are written, without those that begin with `_`."""
    own = [item for item in vars(module).values() if inspect.isfunction(item) and item.__module__ == module.__name__]
    return sorted((item for item in own if item.__name__[:1] != "_"), key=lambda item: item.__code__.co_firstlineno)


def load_module(file: str, contract: str) -> ModuleType:
    """Execute a Python file as a module.

    Raises:
        InputError: it is missing, or its code raises; file and line are named.
    """
    if not Path(file).is_file():
        raise InputError(f"`{file}` is no file", "pass the path of a Python file")
    path = Path(file).resolve()
    # Files of one name in two folders are two modules.
    name = f"_infer_opt_user_{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"`{file}` is no Python file", "name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    # As when Python runs a script: dataclasses look their module up, and imports find the files beside it.
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(path.parent))
    try:
        with running_user_code(file, contract):
            spec.loader.exec_module(module)
    finally:
        if str(path.parent) in sys.path:
            sys.path.remove(str(path.parent))
    return module

"""Functions of the user's, `FILE.py:function`: how they are loaded, and what they raise reported."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from infer_opt.calibrate.feed_checks import ticked
from infer_opt.errors import InputError, nearest

__all__ = ["load_function", "load_module", "public_functions", "running_user_code"]


def load_function(source: str, contract: str) -> Callable[..., Any]:
    """The function that `FILE.py:function` names; the file is executed, as a module.

    Args:
        source: path of the file, a colon, and the function's name.
        contract: what the function must do, for hints: "it yields one dict of arrays a sample".

    Raises:
        InputError: no such file or function, or an exception while the file is executed.
    """
    file, _, name = source.rpartition(":") if not source.endswith(".py") else (source, "", "")
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


@contextmanager
def running_user_code(file: str, contract: str) -> Iterator[None]:
    """While the user's code runs: its prints go to stderr, and what it raises becomes an InputError.

    The error names the line of `file` that the exception passed through last.
    """
    try:
        # stdout is infer-opt's data.
        with redirect_stdout(sys.stderr):
            yield
    # The code may raise anything, and `sys.exit()` in it must not end the program as if it were done.
    except (Exception, SystemExit) as error:
        line = _line_in(Path(file).resolve(), error)
        place = f"`{file}`" if line is None else f"`{file}` line {line}"
        reason = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        raise InputError(f"{place}: {reason}", f"correct the code; {contract}") from error


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
    spec = importlib.util.spec_from_file_location(f"_infer_opt_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"`{file}` is no Python file", "pass FILE.py:function")
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


def _line_in(path: Path, error: BaseException) -> int | None:
    """The line of `path` where `error` arose, the innermost; None where it did not pass through the file."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    # A StopIteration inside a generator arrives as the cause of a RuntimeError that has no line (PEP 479).
    for raised in (error, error.__cause__):
        frames = traceback.walk_tb(raised.__traceback__ if raised else None)
        lines = [line for frame, line in frames if frame.f_code.co_filename == str(path)]
        if lines:
            return lines[-1]
    return None

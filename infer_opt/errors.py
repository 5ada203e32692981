"""The two kinds of failure: what the user can mend, and bugs.

Everything the user can mend is a `UserError` (or a child) and is printed as one line with a hint, never with a
traceback. Anything else that escapes is a bug: the command line prints the traceback and leaves a reproducer.

Code of the user's that runs inside infer-opt may raise anything: `running_user_code` makes that a `UserError` too.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import CodeType

__all__ = [
    "BudgetError",
    "InputError",
    "UsageError",
    "UserError",
    "nearest",
    "pass_on_no_memory",
    "place_of",
    "printable",
    "running_user_code",
]

# How onnxruntime and protobuf say so in exceptions of other types.
_NO_MEMORY = re.compile(r"std::bad_alloc|Failed to allocate memory|Arena alloc failed")


class UserError(Exception):
    """A fault the user can mend: `message` says what and where, `hint` what to do.

    Args:
        message: one line without a full stop; names the file, and the node, tensor or option at fault.
        hint: one line that starts with a verb, or None where the message already says what to do.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(UserError):
    """The model, the data, a profile or the environment is at fault (exit code 1)."""


class UsageError(UserError):
    """The command line itself is at fault: an unknown name, an option out of place (exit code 2)."""

    exit_code = 2


class BudgetError(UserError):
    """The artifact was made but misses a stated budget, or was found broken (exit code 3)."""

    exit_code = 3


class _UserCodeError(InputError):
    """What code of the user's raised, with its place: it is not named a second time by code that called that code."""


def pass_on_no_memory(error: Exception, message: str) -> None:
    """Where a library says in an exception of its own that it got no memory: neither model nor data is at fault.

    Raises:
        MemoryError: `error` says so; with the message.
    """
    if _NO_MEMORY.search(str(error)):
        raise MemoryError(message) from error


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `name` is most likely a misspelling of, for a hint; None where nothing is near."""
    return next(iter(get_close_matches(name, list(known), n=1)), None)


@contextmanager
def running_user_code(
    source: str | Callable[..., object], contract: str, answers: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """While the user's code runs: its prints go to stderr, and what it raises becomes an InputError.

    The error names the line of the user's file that the exception passed through last.

    Args:
        source: that file, or a function of the user's that was handed over earlier.
        contract: what the code must do, for the hint: "it yields one dict of arrays a sample".
        answers: exceptions by which the code says something; they pass.
    """
    try:
        # stdout is infer-opt's data.
        with redirect_stdout(sys.stderr):
            yield
    # The code may raise anything, and `sys.exit()` in it must not end the program as if it were done.
    except (Exception, SystemExit) as error:
        if isinstance(error, (*answers, _UserCodeError)):
            raise
        file = source if isinstance(source, str) else _file_of(source)
        reason = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        message = f"{_place(file, _line_in(file, error))}: {reason}"
        raise _UserCodeError(message, f"correct the code; {contract}") from error


def place_of(function: Callable[..., object]) -> str:
    """Where a function of the user's is written, for messages: `FILE.py` line 12."""
    code = _code_of(function)
    return _place(_file_of(function), code and code.co_firstlineno)


def _place(file: str, line: int | None) -> str:
    return f"`{file}`" if line is None else f"`{file}` line {line}"


def _file_of(function: Callable[..., object]) -> str:
    """The file that a function is written in, as short as the current folder allows; its name where it has none."""
    code = _code_of(function)
    if code is None:
        return str(getattr(function, "__name__", type(function).__name__))
    path = Path(code.co_filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _code_of(function: Callable[..., object]) -> CodeType | None:
    """The code of a function: of what a decorator or a partial holds, or of an object's `__call__`."""
    inner = inspect.unwrap(function)
    inner = inner.func if isinstance(inner, partial) else inner
    found: CodeType | None = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return found


def _line_in(file: str, error: BaseException) -> int | None:
    """The line of `file` where `error` arose, the innermost; None where it did not pass through the file."""
    names = {file, str(Path(file).resolve())}
    if isinstance(error, SyntaxError) and error.filename in names:
        return error.lineno
    # A StopIteration inside a generator arrives as the cause of a RuntimeError that has no line (PEP 479).
    for raised in (error, error.__cause__):
        frames = traceback.walk_tb(raised.__traceback__ if raised else None)
        lines = [line for frame, line in frames if frame.f_code.co_filename in names]
        if lines:
            return lines[-1]
    return None


def printable(text: str) -> str:
    """`text` with control characters as escapes.

    Names come from files, and must neither move a terminal's cursor nor turn the direction of a page's text.
    """
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)

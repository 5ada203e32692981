"""How failures look: a line and a hint for what the user can mend, a traceback and a reproducer for a bug."""

from __future__ import annotations

import errno
import json
import re
import shlex
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from infer_opt.cli.output import note, write
from infer_opt.errors import InputError, UsageError, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import typer

__all__ = ["BUG", "from_environment", "from_typer", "show", "show_bug"]

BUG = 70  # EX_SOFTWARE of sysexits.h

_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_BROKEN = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG}


def show(error: UserError) -> int:
    """Print message and hint on stderr; the exit code."""
    note(f"error: {error.message}")
    if error.hint:
        note(f"hint: {error.hint}")
    return error.exit_code


def from_typer(error: typer.TyperException, command: str) -> UsageError:
    """What typer says of a command line, in our form.

    Args:
        command: `infer-opt`, with the command where one was named.
    """
    message, _, meant = error.format_message().rstrip("?").partition(" Did you mean ")
    options: Sequence[str] = getattr(error, "possibilities", None) or ()
    near = [meant] if meant else [f"'{name}'" for name in options]
    hint = f"did you mean {' or '.join(near)}?" if near else f"see '{command} --help'"
    message = message.partition(" (Possible options:")[0].strip().rstrip(".").replace("Value error, ", "")
    # Sentences become parts of one, and names stand in backticks as everywhere else.
    message = re.sub(r"(^|: )([A-Z])(?=[a-z])", lambda match: match[1] + match[2].lower(), message)
    message = re.sub(r"^(no such option:) (\S+)$", r"\1 '\2'", message)
    return UsageError(message.replace("'", "`"), hint.replace("'", "`"))


def from_environment(error: Exception) -> InputError | None:
    """The error for what the machine, not infer-opt, is at fault for; None for anything else."""
    if isinstance(error, MemoryError):
        said = " ".join(str(error).split())
        return InputError(
            f"out of memory: {said}" if said else "out of memory",
            "allow more (--max-memory) or use a machine with more, fewer samples, or fewer threads",
        )
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("infer_opt"):
        return InputError(f"the package `{error.name}` is missing", "install it, or all of infer-opt again")
    if not isinstance(error, OSError):
        return None
    where = f"`{error.filename}`" if error.filename else "a file"
    if error.errno in _FULL:
        return InputError(f"{where} cannot be written: {error.strerror}", "free some space, or pass another --out")
    if error.errno in _REFUSED | _BROKEN:
        return InputError(f"{where} cannot be used: {error.strerror}", "check its permissions and its disk")
    return None


def show_bug(error: Exception, arguments: Sequence[str], known: Mapping[str, str]) -> int:
    """Print the traceback of a bug and where its reproducer lies; the exit code.

    Args:
        known: what the command had found out, such as its pipeline, by name.
    """
    trace = "".join(traceback.format_exception(error))
    write(trace, sys.stderr)
    note(f"error: this is a bug in infer-opt: {type(error).__name__}: {error}")
    note(f"hint: report it with the folder `{_reproducer(trace, arguments, known)}`, which holds all but the model")
    return BUG


def _reproducer(trace: str, arguments: Sequence[str], known: Mapping[str, str]) -> Path:
    from infer_opt.report.versions import versions

    folder = Path(tempfile.mkdtemp(prefix="infer-opt-bug-"))
    texts = {
        "command.txt": shlex.join(["infer-opt", *arguments]),
        "versions.json": json.dumps(versions(), indent=2),
        "traceback.txt": trace.rstrip("\n"),
        **{f"{name}.txt": text for name, text in known.items()},
    }
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8", errors="surrogateescape")
    return folder

"""Read a TOML file, and find the line on which a key stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from infer_opt.profiles.problems import Problem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Key", "Table", "is_table", "line_of", "parse", "read_text"]

Key: TypeAlias = tuple[str, ...]
Table: TypeAlias = dict[str, Any]

_AT_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]")
_ASSIGNMENT = re.compile(r"\s*([^=#\[\]{},]+?)\s*=")
_KEY_PART = re.compile(r"\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+)")


def is_table(value: object) -> TypeGuard[Table]:
    """Whether `value`, as a TOML or JSON reader gives it, is a table."""
    return isinstance(value, dict)


def read_text(path: Path) -> str | Problem:
    """The text of the file at `path`, or the problem that keeps it from being read."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return Problem(str(path), None, "no such file", "give the path of a profile, a file that ends in `.toml`")
    except IsADirectoryError:
        return Problem(str(path), None, "is a folder, not a profile", "give the path of one `.toml` file")
    except OSError as error:
        return Problem(str(path), None, f"cannot be read: {error.strerror}", None)
    except UnicodeDecodeError:
        return Problem(str(path), None, "is not a profile: not UTF-8 text", "give the path of a `.toml` file")


def parse(text: str, where: str) -> Table | Problem:
    """The table that `text` holds, or the syntax error in it."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        at = _AT_LINE.search(reason)
        line = int(at[1]) if at and at[1] else None
        reason = reason[: at.start()] if at else reason
        reason = reason[:1].lower() + reason[1:]
        return Problem(where, line, f"is not TOML: {reason}", "write one `key = value` a line, texts in quotes")


def line_of(text: str, key: Key) -> int | None:
    """The line (from 1) on which `key`, or else the table it lies in, is written in `text`."""
    for length in range(len(key), 0, -1):
        wanted = ".".join(key[:length])
        table = ""
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                found = table = _dotted(header[1])
            elif assignment := _ASSIGNMENT.match(line):
                own = _dotted(assignment[1])
                found = f"{table}.{own}" if table else own
            else:
                continue
            if found == wanted:
                return number
    return None


def _dotted(text: str) -> str:
    return ".".join(part[1] or part[2] or part[3] for part in _KEY_PART.finditer(text))

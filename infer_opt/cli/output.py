"""What the commands print: answers on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, TextIO

from infer_opt.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.table import Table

__all__ = ["bytes_text", "facts", "listing", "note", "write", "write_json"]

_UNLIMITED = 100_000  # columns; what goes to a file or a pipe is never wrapped


def write(text: str, stream: TextIO | None = None) -> None:
    """Write lines to stdout, or to another stream; a reader that has gone away has read enough."""
    stream = stream or sys.stdout
    try:
        stream.write(text if text.endswith("\n") else f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        # Whatever is still buffered goes nowhere; otherwise the interpreter would complain of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_json(content: object) -> None:
    """One JSON document on stdout."""
    write(json.dumps(content, indent=2))


def note(text: str) -> None:
    """One line on stderr."""
    write(printable(text), sys.stderr)


def facts(rows: Iterable[tuple[str, str]], *, title: str = "", stream: TextIO | None = None) -> None:
    """Lines of a label and a text; a label that repeats the one above is left out."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    above = ""
    for label, text in rows:
        table.add_row("" if label == above else f"  {label}", printable(text))
        above = label
    _render(table, title, stream)


def listing(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = (), title: str = ""
) -> None:
    """A table on stdout.

    Args:
        numbers: columns to be set flush right.
    """
    from rich.table import Table

    right = set(numbers)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(header):
        table.add_column(name, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    _render(table, title, None)


def _render(table: Table, title: str, stream: TextIO | None) -> None:
    stream = stream or sys.stdout
    console = _console(stream)
    with console.capture() as captured:
        if title:
            console.print(printable(title), style="bold")
        console.print(table)
    write("\n".join(line.rstrip() for line in captured.get().splitlines()), stream)


def _console(stream: TextIO) -> Console:
    """A console that shows texts as they are; colours only on a terminal, and never where NO_COLOR is set."""
    from rich.console import Console

    terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=terminal,
        width=None if terminal else _UNLIMITED,
        markup=False,
        emoji=False,
        highlight=False,
    )


def bytes_text(size: int) -> str:
    """A size for people: `812 B`, `3.24 MB`; 1 kB is 1000 bytes."""
    number = float(size)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} B" if unit == "B" else f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"

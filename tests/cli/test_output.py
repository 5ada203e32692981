"""What is printed: nothing wrapped that goes to a file, nothing that moves a cursor, sizes people can read."""

from __future__ import annotations

import io

import pytest

from infer_opt.cli.output import bytes_text, facts
from infer_opt.errors import printable


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (3_244_000, "3.24 MB"), (999_999_999, "1e+03 MB"), (1.6e9, "1.6 GB")],
)
def test_sizes(size: int, text: str) -> None:
    """Three digits and a unit, 1000 bytes to the kilobyte."""
    assert bytes_text(int(size)) == text


def test_control_characters_are_shown() -> None:
    """Letters of any script pass, what a terminal would obey does not."""
    assert printable("a\x1b[2Jb\tc\r\n\u202e") == "a\\x1b[2Jb\\tc\\r\\n\\u202e"
    assert printable("caf\u00e9 \u6a21\u578b [1, 3]") == "caf\u00e9 \u6a21\u578b [1, 3]"


def test_files_get_long_lines() -> None:
    """A repeated label is left out, brackets are no markup, and nothing is wrapped."""
    stream = io.StringIO()
    facts([("why", "[bold]" + "word " * 60), ("why", "again"), ("size", "1")], title="t", stream=stream)
    lines = stream.getvalue().splitlines()
    assert lines == ["t", f"  why   [bold]{'word ' * 60}".rstrip(), "        again", "  size  1"]

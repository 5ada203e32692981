"""Measurements that outlive a killed run: a line a result, kept on disk under a digest of what was measured.

A run that begins again reads them and measures only the rest. What was being written when the run ended is half a
line, and counts as not measured.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["Journal", "cache_folder"]

_VARIABLE = "INFER_OPT_CACHE"
_OFF = "off"
_MOST_BYTES = 64 << 20  # of all journals; the oldest go first


def cache_folder() -> Path | None:
    """Where journals are kept: $INFER_OPT_CACHE, or infer-opt in the user's cache; None where that says `off`."""
    named = os.environ.get(_VARIABLE)
    if named is not None:
        return None if named == _OFF else Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "infer-opt"


class Journal:
    """Results by key, for one digest.

    Args:
        folder: that of all journals; None keeps nothing. A folder that cannot be written keeps nothing either: results
            are then measured anew.
        digest: of everything that the results depend on.
    """

    def __init__(self, folder: Path | None, digest: str) -> None:
        self._file = None if folder is None else folder / f"{digest}.jsonl"
        self._known = {} if self._file is None else _read(self._file)

    def get(self, key: str) -> dict[str, Any] | None:
        """The result, or None if there is none yet."""
        return self._known.get(key)

    def add(self, key: str, result: Mapping[str, Any]) -> None:
        """Keep a result; JSON-able, and read back as equal."""
        self._known[key] = dict(result)
        if self._file is None:
            return
        # Its own line, whatever the last writer left behind it.
        line = "\n" + json.dumps({"key": key, "result": result}) + "\n"
        try:
            if not self._file.exists():
                self._file.parent.mkdir(parents=True, exist_ok=True)
                _make_room(self._file.parent)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError:
            self._file = None  # a cache that cannot be written is none: the result stands all the same


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError):
        return {}
    entries = (_entry(line) for line in lines)
    return dict(filter(None, entries))


def _entry(line: str) -> tuple[str, dict[str, Any]] | None:
    """Key and result of a line; None where it was cut short, or is nothing of ours."""
    try:
        entry = json.loads(line)
        return str(entry["key"]), dict(entry["result"])
    except (ValueError, KeyError, TypeError):
        return None


def _make_room(folder: Path) -> None:
    files = sorted(folder.glob("*.jsonl"), key=lambda file: file.stat().st_mtime)
    size = sum(file.stat().st_size for file in files)
    for file in files:
        if size <= _MOST_BYTES:
            return
        size -= file.stat().st_size
        file.unlink(missing_ok=True)

"""Measurements that outlive a killed run: a line a result, kept on disk under a digest of what was measured.

A run that begins again reads them and measures only the rest. Every line carries the digest of its own text: half a
line, as a killed run leaves it, and anything else that is not as it was written count as not measured. A line is
written at once, to the end of the file, so several runs may keep the same journal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infer_opt.calibrate.digest import digest as digest_of
from infer_opt.calibrate.user_cache import user_cache

__all__ = ["Journal", "cache_folder"]

_VARIABLE = "INFER_OPT_CACHE"
_OFF = "off"
_SUM_CHARS = 16  # of a line's digest
_MOST_BYTES = 64 << 20  # of all journals; the oldest go first


def cache_folder() -> Path | None:
    """Where journals are kept: $INFER_OPT_CACHE, or the user's cache; None where that says `off`."""
    named = os.environ.get(_VARIABLE)
    if named:
        return None if named == _OFF else Path(named)
    return user_cache()


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
        text = json.dumps({"key": key, "result": result})
        # Its own line, whatever the last writer left behind it.
        line = f"\n{_sum(text)} {text}\n".encode()
        try:
            if not self._file.exists():
                self._file.parent.mkdir(parents=True, exist_ok=True)
                _make_room(self._file.parent)
            with self._file.open("ab", buffering=0) as file:  # one write, which no other run's comes between
                file.write(line)
        except OSError:
            self._file = None  # a cache that cannot be written is none: the result stands all the same


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return {}
    entries = (_entry(line) for line in lines)
    return dict(filter(None, entries))


def _entry(line: str) -> tuple[str, dict[str, Any]] | None:
    """Key and result of a line; None where it is not as it was written, or nothing of ours."""
    found, _, text = line.partition(" ")
    if found != _sum(text):
        return None
    entry = json.loads(text)
    return entry["key"], entry["result"]


def _sum(text: str) -> str:
    return digest_of(text)[:_SUM_CHARS]


def _make_room(folder: Path) -> None:
    found = [(file, _size_and_age(file)) for file in folder.glob("*.jsonl")]
    files = sorted(((file, facts) for file, facts in found if facts is not None), key=lambda each: each[1][1])
    size = sum(facts[0] for _, facts in files)
    for file, (own, _) in files:
        if size <= _MOST_BYTES:
            return
        size -= own
        file.unlink(missing_ok=True)


def _size_and_age(file: Path) -> tuple[int, float] | None:
    """Bytes, and when it was last written to; None where another run removed it just now."""
    try:
        facts = file.stat()
    except FileNotFoundError:
        return None
    return facts.st_size, facts.st_mtime

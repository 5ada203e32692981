"""A digest of data: equal for equal content, in this process and in the next."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["digest"]


def digest(*parts: object) -> str:
    """SHA-256 in hexadecimal of texts, numbers, arrays, and of sequences, mappings and dataclasses of them.

    Mappings count in their own order; arrays by dtype, shape and bytes.

    Raises:
        TypeError: something else is among them.
    """
    found = hashlib.sha256()
    _add(found, parts)
    return found.hexdigest()


def _add(found: Any, part: object) -> None:
    if part is None or isinstance(part, bool | int | float | str | bytes | Path):
        found.update(f"{type(part).__name__} {part!r};".encode())
    elif isinstance(part, np.ndarray | np.generic):
        array = np.ascontiguousarray(part)
        found.update(f"array {array.dtype.str} {array.shape};".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    elif is_dataclass(part) and not isinstance(part, type):
        found.update(f"{type(part).__name__}(".encode())
        for each in fields(part):
            found.update(f"{each.name}=".encode())
            _add(found, getattr(part, each.name))
    elif isinstance(part, Mapping):
        found.update(f"mapping {len(part)};".encode())
        for key, value in part.items():
            _add(found, (key, value))
    elif isinstance(part, Sequence | set | frozenset):
        ordered = sorted(part) if isinstance(part, set | frozenset) else part
        found.update(f"sequence {len(part)};".encode())
        for each in ordered:
            _add(found, each)
    else:
        raise TypeError(f"no digest of {type(part).__name__}")

"""Limits of a run: time and memory, read from text."""

from __future__ import annotations

import re

from infer_opt.errors import UsageError

__all__ = ["limit_memory", "seconds"]

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB|KB|MB|GB|B)", re.IGNORECASE)
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_LEAST = 256 * 2**20  # bytes: importing onnxruntime takes about as much


def seconds(option: str, text: str | None) -> float | None:
    """A duration like `90s`, `10m` or `1.5h`.

    Raises:
        UsageError: it is none, or 0.
    """
    if text is None:
        return None
    found = _TIME.fullmatch(text.strip())
    if found is None or float(found[1]) == 0.0:
        raise UsageError(f"{option} cannot be `{text}`", "give a time like `90s`, `10m` or `1h`")
    return float(found[1]) * _SECONDS[found[2]]


def limit_memory(option: str, text: str | None) -> None:
    """Let this process have so much memory and no more, so that it ends with an error and the machine goes on.

    Raises:
        UsageError: it is no size, less than the program itself needs, or cannot be limited on this system.
    """
    if text is None:
        return
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option} cannot be `{text}`", "give a size like `900MB` or `2GiB`")
    size = int(float(found[1]) * _BYTES[found[2].lower()])
    if size < _LEAST:
        raise UsageError(f"{option} cannot be `{text}`: infer-opt itself needs {_LEAST >> 20} MiB", "give more")
    try:
        import resource
    except ImportError as error:
        raise UsageError(f"{option} cannot be kept on this system", "leave it out") from error
    import numpy as np

    # OpenBLAS takes its buffers at the first product, and ends the process where it gets none: it gets them now.
    np.dot(*np.ones((2, 64, 64), np.float32))
    # Of the heap and of private mappings: weights that are mapped from their file, and code, count for nothing.
    resource.setrlimit(resource.RLIMIT_DATA, (size, resource.getrlimit(resource.RLIMIT_DATA)[1]))

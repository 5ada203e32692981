"""Memory that is free, given back to the system.

glibc keeps what a program frees, in pieces between what is still in use. Sessions of onnxruntime come and go by the
dozen here: of a model of 90 MB, each stage left 100 to 150 MB behind, and the peak was 1,354 MB instead of 960
(measured).
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

__all__ = ["give_back"]


def give_back() -> None:
    """Return free memory, where the C library knows how.

    Graphs hold themselves, so that only the collector frees them. A full look takes long in a large program: it is left
    out where it would take more than a twentieth of the time.
    """
    started = time.monotonic()
    if started >= _collected.not_before:
        gc.collect()
        ended = time.monotonic()
        _collected.not_before = ended + _PAUSE * (ended - started)
    trim = _trim()
    if trim is not None:
        trim(0)


@dataclass
class _Collected:
    not_before: float = 0.0


_PAUSE = 20.0  # times as long as a collection took
_collected = _Collected()


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
    return found

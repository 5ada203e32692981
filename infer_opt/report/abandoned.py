"""Folders that a killed run left behind: nobody holds them any more, and the next run takes them away.

SIGKILL leaves no time to clean up. A run holds a lock on its folder; the system lets go of it when the run ends,
however it ends. Whether a folder is abandoned is asked of the lock, and of no process number, which another container
gives out again.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # not a POSIX system: folders are not locked there, and what is left behind stays
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["held", "remove_abandoned"]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder for as long as this lasts, so that no other run takes it for abandoned."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks, where nothing is removed either
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove the folders in `parent` whose name begins with `prefix`, but for those that a run holds."""
    if fcntl is None:
        return
    for folder in sorted(parent.iterdir()):
        if folder.name.startswith(prefix) and not folder.is_symlink() and folder.is_dir():
            _remove(folder)


def _remove(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # gone meanwhile, or somebody else's
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)

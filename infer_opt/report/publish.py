"""The artifact folder: made beside its place, and moved there whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from infer_opt.errors import InputError
from infer_opt.report.abandoned import held, remove_abandoned
from infer_opt.report.manifest import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check_out", "publish", "staging"]


def check_out(out: Path, *, force: bool) -> None:
    """Refuse a place that must not be written to, before any work.

    Raises:
        InputError: a file is in the way, or a folder that holds something else than an artifact.
    """
    if out.name in {"", ".."}:
        raise InputError(f"`{out}` cannot be replaced as a whole", "name a folder of its own")
    present = next(parent for parent in out.absolute().parents if parent.exists())
    if not present.is_dir():
        raise InputError(f"`{present}` is not a folder", "pass another --out")
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise InputError(f"`{out}` exists and is not a folder", "pass another --out")
    if not out.exists() or not any(out.iterdir()):
        return
    if not (out / MANIFEST).is_file():
        raise InputError(
            f"`{out}` holds files that infer-opt did not write", "pass another --out, or empty it yourself"
        )
    if not force:
        raise InputError(f"`{out}` holds an artifact already", "pass --force to replace it, or another --out")


@contextmanager
def staging(out: Path) -> Iterator[Path]:
    """A new folder beside `out`, gone afterwards unless it was published; so are parents made for it.

    What killed runs left beside `out` goes first: it may fill the disk that this run needs.

    Raises:
        InputError: nothing can be written beside `out`.
    """
    missing = [parent for parent in out.absolute().parents if not parent.exists()]
    try:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(out.parent, _prefix(out))
            folder = Path(tempfile.mkdtemp(prefix=_prefix(out), dir=out.parent))
        except OSError as error:
            raise InputError(f"`{out.parent}` cannot be written to: {error.strerror}", "pass another --out") from None
        try:
            with held(folder):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        _remove_empty(missing)


def _prefix(out: Path) -> str:
    """How staging folders of `out` begin: no name that anybody else would give."""
    return f".{out.name}.infer-opt-"


def _remove_empty(parents: list[Path]) -> None:
    """Remove folders, innermost first, up to one that holds something; another compile may use them, or be quicker."""
    with suppress(OSError):
        for parent in parents:
            parent.rmdir()


def publish(folder: Path, out: Path) -> None:
    """Move a finished folder to `out`; what was there goes only once the new one is in place."""
    if not out.exists():
        folder.rename(out)
        return
    # Of another name than staging folders: where this run is killed between the renames, nobody takes it away.
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.replaced-", dir=out.parent))
    out.rename(old / "artifact")
    try:
        folder.rename(out)
    except OSError:
        (old / "artifact").rename(out)
        raise
    finally:
        shutil.rmtree(old)

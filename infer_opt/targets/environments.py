"""Python environments of their own, for vendors' tools whose packages do not go with ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infer_opt.calibrate.user_cache import user_cache
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ENVIRONMENTS", "Environment"]

_READY = "ready"  # a file, written last: what an interrupted installation left is not taken for a whole one
_LINES = 3  # of a tool's last words in a message


@dataclass(frozen=True)
class Environment:
    """One tool's environment, below the user's cache.

    Args:
        packages: what pip installs, pinned; without their dependencies, which are listed too where they are needed.
        megabytes: on disk, about.
        use: what it is for.
    """

    name: str
    packages: tuple[str, ...]
    megabytes: int
    use: str

    @property
    def folder(self) -> Path | None:
        """Where it is, or would be; None for a user without a home."""
        cache = user_cache()
        return None if cache is None else cache / "environments" / self.name

    @property
    def python(self) -> Path | None:
        """Its interpreter; None where it is not installed, or was for other packages."""
        folder = self.folder
        if folder is None:
            return None
        try:
            whole = (folder / _READY).read_text(encoding="utf-8").split() == list(self.packages)
        except OSError:
            return None
        return folder / "bin" / "python" if whole else None

    def install(self, find_links: Path | None = None) -> Path:
        """Make it, anew where it is there already.

        Args:
            find_links: folder of wheels to take the packages from, in place of the package index.

        Raises:
            InputError: there is no home to put it in, or pip fails; its last words are told.
        """
        folder = self.folder
        if folder is None:
            raise InputError(f"{self.name} has no place: this user has no home", "set XDG_CACHE_HOME to a folder")
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._run([sys.executable, "-m", "venv", str(folder)])
        where = [] if find_links is None else ["--no-index", "--find-links", str(find_links)]
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
        self._run([*pip, *where, *self.packages])
        (folder / _READY).write_text("\n".join(self.packages), encoding="utf-8")
        return folder

    def _run(self, command: Sequence[str]) -> None:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
        if ran.returncode:
            words = " ".join(" ".join((ran.stderr or ran.stdout).strip().splitlines()[-_LINES:]).split())
            raise InputError(
                f"{self.name} could not be installed: {words}",
                "see that the package index, or the folder of --find-links, has all that is named there",
            )


ENVIRONMENTS = {
    item.name: item
    for item in (
        Environment(
            "tensorrt-rtx",
            ("tensorrt-rtx-cu12-libs==1.7.1.116", "tensorrt-rtx-cu12-bindings==1.7.1.116"),
            245,
            "parsing and building of NVIDIA profiles' graphs without a GPU",
        ),
    )
}

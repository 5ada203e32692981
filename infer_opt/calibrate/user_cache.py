"""The user's cache: what is kept there can be made again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["user_cache"]


def user_cache() -> Path | None:
    """Folder `infer-opt` in the user's cache; None for a user without a home.

    Source: XDG Base Directory Specification 0.8.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the specification has relative paths ignored
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            return None
    return base / "infer-opt"

"""What the messages are made with."""

from __future__ import annotations

import pytest

from infer_opt.errors import nearest


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("imgae", ["mask", "image"], "image"),
        ("fuze", iter(["simplify", "fuse"]), "fuse"),
        ("fuse", {"fuse": 1}, "fuse"),
        ("x", ["image"], None),
        ("", ["image"], None),
        ("image", [], None),
    ],
)
def test_the_nearest_name(name: str, known: list[str], meant: str | None) -> None:
    """The likeliest of any iterable of names; None where none resembles it."""
    assert nearest(name, known) == meant

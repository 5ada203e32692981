"""Digests: equal for equal content, another for anything else."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pytest

from infer_opt.calibrate.digest import digest


@dataclass(frozen=True)
class Box:
    """Something to digest."""

    name: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Crate:
    """Another class with the same fields."""

    name: str
    sizes: tuple[int, ...]


DIFFERENT = [
    (),
    (None,),
    ("",),
    ("a", "b"),
    ("ab",),
    (("a", "b"),),
    (1,),
    (1.0,),
    (True,),
    ("1",),
    (b"1",),
    ([1, 2],),
    ([[1], 2],),
    ({"a": 1, "b": 2},),
    ({"b": 2, "a": 1},),
    ({"a": 1},),
    (np.array([1, 2], np.int32),),
    (np.array([1, 2], np.int64),),
    (np.array([[1, 2]], np.int32),),
    (np.float32(1),),
    (Box("a", (1, 2)),),
    (Box("a", (1, 3)),),
    (Crate("a", (1, 2)),),
]


def test_what_differs_has_another_digest() -> None:
    """In type, order, shape or nesting."""
    assert len({digest(*parts) for parts in DIFFERENT}) == len(DIFFERENT)


def test_equal_content_has_an_equal_digest() -> None:
    """Whatever holds it, and however an array lies in memory."""
    assert digest({"a": 1}) == digest(MappingProxyType({"a": 1}))
    assert digest([1, 2]) == digest((1, 2))
    assert digest(np.arange(6).reshape(2, 3)) == digest(np.asfortranarray(np.arange(6).reshape(2, 3)))
    assert digest({3, 1, 2}) == digest({1, 2, 3})


def test_what_has_no_content_is_refused() -> None:
    """A function has an address, which another process has not."""
    with pytest.raises(TypeError, match="no digest of function"):
        digest(digest)

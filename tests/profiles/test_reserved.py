"""Every key of a profile is used, or is said not to be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from infer_opt.profiles.schema import RESERVED, Profile
from infer_opt.profiles.tables import key_types

PACKAGE = Path(__file__).parents[2] / "infer_opt"


def reads_of(source: str) -> set[str]:
    """Keys that some code reads: `profile.KEY`, `dialect.KEY`, or from the table of a profile `table.pop("KEY")`.

    The variable has to be called after what it holds, so that another thing's `name` or `version` does not count.
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(ast.Name(owner) | ast.Attribute(_, owner), key):
                found.add(f"{owner.strip('_')}.{key}")
            case ast.Call(ast.Attribute(ast.Name("table"), "pop"), [ast.Constant(str(key)), *_]):
                found.add(f"profile.{key}")
    return found


READ = {
    key
    for file in PACKAGE.rglob("*.py")
    if not file.is_relative_to(PACKAGE / "profiles")
    for key in reads_of(file.read_text(encoding="utf-8"))
}


def is_read(key: str) -> bool:
    """Whether code outside of `profiles` reads a key, by the name of its table or as the profile's own."""
    return (key if "." in key else f"profile.{key}") in READ


@pytest.mark.parametrize("key", sorted(key_types(Profile)))
def test_every_key_is_read_or_reserved(key: str) -> None:
    """One of the two: a fact that nobody reads may not look like one that counts."""
    assert is_read(key) != (key in RESERVED)


def test_what_is_reserved_is_a_key_and_says_what_will_use_it() -> None:
    """In words that the document and the error can print."""
    assert RESERVED.keys() <= key_types(Profile).keys()
    assert all(text.startswith("not used yet: ") and len(text) > 30 for text in RESERVED.values())


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        ("request.profile.threads", {"profile.threads", "request.profile"}),
        ("self._dialect.bias", {"dialect.bias", "self._dialect"}),
        ("site.bias", {"site.bias"}),
        ('table.pop("source")', {"profile.source", "table.pop"}),
    ],
)
def test_the_reader_of_keys_finds(source: str, keys: set[str]) -> None:
    """Each form, under the name of its owner."""
    assert reads_of(source) == keys

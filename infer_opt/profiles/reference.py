"""The table of keys in docs/profiles.md, written from the dataclasses themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, cast, get_type_hints

from infer_opt.profiles.schema import RESERVED, ProfileFile
from infer_opt.profiles.tables import key_types, shown, wanted

__all__ = ["key_table"]


def key_table() -> str:
    """Every key of a profile file as a Markdown table: what it takes, its default, what it means."""
    return "\n".join(["| Key | Value | Default | Meaning |", "| --- | --- | --- | --- |", *_rows(ProfileFile, "")])


def _rows(cls: type[Any], table: str) -> Iterator[str]:
    kinds = key_types(cls)
    meanings = get_type_hints(cls, include_extras=True)
    for item in fields(cls):
        kind = kinds[item.name]
        key = f"{table}{item.name}"
        meaning = "; ".join((*meanings[item.name].__metadata__, *filter(None, [RESERVED.get(key)])))
        yield f"| `{key}` | {wanted(kind)} | {_default(item)} | {meaning} |"
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _rows(kind, f"{table}{item.name}.")


def _default(item: Field[Any]) -> str:
    default: object = item.default
    if default is MISSING:
        return "required" if item.default_factory is MISSING else ""
    if default is None or default in ("", ()):
        return ""
    values = cast("tuple[object, ...]", default) if isinstance(default, tuple) else (default,)
    return ", ".join(shown(value) for value in values)

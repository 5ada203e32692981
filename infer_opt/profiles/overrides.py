"""Facts set on the command line: `--set key=value`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import is_dataclass
from typing import Any, Literal, get_args, get_origin

from infer_opt.errors import UsageError, nearest
from infer_opt.profiles.inheritance import inherit
from infer_opt.profiles.rules import rule_faults
from infer_opt.profiles.schema import RESERVED, Profile
from infer_opt.profiles.tables import Fault, faults, key_types
from infer_opt.profiles.toml_files import Table

__all__ = ["overridden"]

_ORIGIN = "set on the command line"


def overridden(table: Table, overrides: Mapping[str, str], backends: Collection[str]) -> Table:
    """`table` with `overrides` laid over it; each is named in `source` as set on the command line.

    Args:
        table: a whole, checked profile.
        overrides: dotted key to text, read by the type of the key: `8`, `true`, `fp32,int8` for a list, and
            `null` for a fact that is to count as unknown.
        backends: known backends.

    Raises:
        UsageError: a key does not exist or a value does not fit; names the option as it was written.
    """
    over: Table = {"source": dict.fromkeys(overrides, _ORIGIN), "unknown": []}
    for key, text in overrides.items():
        kind = _settable(key, text)
        if text == "null":
            over["unknown"].append(key)
        else:
            _put(over, key, _from_text(kind, text))
    for fault in faults(Profile, over, partial=True):
        raise _refused(fault, overrides)
    merged = inherit(table, over)
    for fault in (*faults(Profile, _only_profile(merged)), *rule_faults(merged, backends)):
        raise _refused(fault, overrides)
    return merged


def _settable(key: str, text: str) -> Any:
    """The type of `key`, or a UsageError where `--set` cannot give it a value."""
    known = key_types(Profile)
    kind = known.get(key)
    option = f"`--set {key}={text}`"
    if kind is None:
        meant = nearest(key, known)
        hint = f"write `--set {meant}={text}`" if meant else "see all keys with `infer-opt profiles show NAME`"
        raise UsageError(f"{option}: unknown key `{key}`", hint)
    if key in ("source", "unknown"):
        raise UsageError(f"{option}: `{key}` follows from the other keys", f"remove `--set {key}`")
    if key in RESERVED:
        raise UsageError(f"{option}: `{key}` is {RESERVED[key]}", f"remove `--set {key}`")
    if is_dataclass(kind):
        inner = ", ".join(f"`{name}`" for name in known if name.startswith(f"{key}."))
        raise UsageError(f"{option}: `{key}` is a table", f"set one of {inner}")
    return kind


def _from_text(kind: Any, text: str) -> object:
    """`text` as a value of the type, or unchanged where it is none (the check of the type then says so)."""
    if get_origin(kind) is tuple:
        return [item.strip() for item in text.split(",") if item.strip()]
    if get_origin(kind) is Literal:
        return next((choice for choice in get_args(kind) if str(choice) == text), text)
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    return text


def _put(table: Table, key: str, value: object) -> None:
    *outer, name = key.split(".")
    for part in outer:
        table = table.setdefault(part, {})
    table[name] = value


def _only_profile(table: Table) -> Table:
    return {key: value for key, value in table.items() if key in key_types(Profile)}


def _refused(fault: Fault, overrides: Mapping[str, str]) -> UsageError:
    key = ".".join(fault.key)
    guilty = [name for name in overrides if name == key or name.startswith(f"{key}.")] or list(overrides)
    options = " ".join(f"--set {name}={overrides[name]}" for name in guilty)
    return UsageError(f"`{options}`: {fault.message}", fault.hint)

"""What must hold between the keys of one whole profile; types alone are checked by `tables`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from infer_opt.errors import nearest
from infer_opt.profiles.schema import Profile
from infer_opt.profiles.tables import Fault, flat, key_types
from infer_opt.profiles.toml_files import Table

__all__ = ["rule_faults"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(@[A-Za-z0-9._+-]+)?")


def rule_faults(table: Table, backends: Collection[str]) -> Iterator[Fault]:
    """Every rule that `table`, whose values are of the right types, breaks; a missing key breaks none."""
    yield from _name(table.get("name"))
    yield from _backend(table.get("backend"), backends)
    if table.get("precisions") == []:
        yield Fault(("precisions",), "`precisions` is empty", 'write at least `precisions = ["fp32"]`')
    yield from _opset(table.get("opset") or {})
    yield from _dialect(table.get("dialect") or {})
    yield from _origins(table)


def _name(name: str | None) -> Iterator[Fault]:
    if name is not None and not _NAME.fullmatch(name):
        hint = "use letters, digits, `.`, `_`, `+`, `-`, and one `@` before a revision"
        yield Fault(("name",), f'`name` is "{name}", which cannot be part of a folder name', hint)


def _backend(backend: str | None, backends: Collection[str]) -> Iterator[Fault]:
    if backend is None or backend in backends:
        return
    known = " or ".join(f"`{name}`" for name in sorted(backends))
    yield Fault(("backend",), f"unknown backend `{backend}`", f"use {known}")


def _opset(opset: dict[str, Any]) -> Iterator[Fault]:
    oldest, newest = opset.get("min"), opset.get("max")
    if oldest and newest and oldest > newest:
        yield Fault(("opset",), f"`opset.min` {oldest} is above `opset.max` {newest}", "swap the two")


def _dialect(dialect: dict[str, Any]) -> Iterator[Fault]:
    for op in dialect.get("compute_ops", []):
        if op in dialect.get("same_scale_ops", []):
            message = f"`{op}` stands in both `dialect.compute_ops` and `dialect.same_scale_ops`"
            yield Fault(("dialect", "compute_ops"), message, "remove it from one of the two")


def _origins(table: Table) -> Iterator[Fault]:
    known = key_types(Profile)
    values, notes = flat(table), flat(table.get("source") or {})
    unknown: list[str] = table.get("unknown") or []
    for key in unknown:
        if key not in known:
            yield _no_such_key(("unknown",), key)
        elif key in values:
            yield Fault(("unknown",), f"`{key}` is listed in `unknown` and has a value", "remove one of the two")
        elif not any(key == told or key.startswith(f"{told}.") for told in notes):
            hint = f'add `{key} = "where it was looked for"` under `[source]`'
            yield Fault(("unknown",), f"`{key}` is listed in `unknown` without a line in `source`", hint)
    for key in notes:
        if key not in known:
            yield _no_such_key(("source", key), key)


def _no_such_key(at: tuple[str, ...], key: str) -> Fault:
    meant = nearest(key, key_types(Profile))
    hint = f"write `{meant}`" if meant else "name a key of the profile, dotted where it lies in a table"
    return Fault(at, f"`{at[0]}` names `{key}`, which is no key of a profile", hint)

"""Turn a table (of TOML or JSON) into a dataclass and back, driven by the dataclass's own fields and types.

Supported types: str, bool, int and float (all numbers of a profile are positive), Literal, tuple[T, ...],
Mapping[str, str], a nested dataclass, and any of these or None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

from infer_opt.errors import nearest
from infer_opt.profiles.toml_files import Key, Table, is_table

__all__ = ["Fault", "faults", "flat", "from_table", "key_types", "shown", "to_table", "wanted"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fault:
    """One key of a table that does not fit: its path, what is wrong, and what to do."""

    key: Key
    message: str
    hint: str | None = None


def from_table(cls: type[T], table: Mapping[str, Any]) -> T:
    """An instance of the dataclass `cls` from a `table` in which `faults` finds nothing."""
    types = get_type_hints(cls)
    return cls(**{name: _value(types[name], value) for name, value in table.items() if value is not None})


def to_table(instance: Any) -> Table:
    """The dataclass `instance` as JSON-able dicts, lists and scalars; `from_table` reads it back."""
    return {item.name: _plain(getattr(instance, item.name)) for item in fields(instance)}


def faults(
    cls: type[Any],
    table: Mapping[str, Any],
    *,
    partial: bool = False,
    key: Key = (),
    root: type[Any] | None = None,
) -> Iterator[Fault]:
    """Everything in `table` that does not fit `cls`; with `partial`, missing keys are not faults.

    `key` is the path of `table` in the whole table, whose dataclass is `root`.
    """
    types, root = get_type_hints(cls), root or cls
    for name in table:
        if name not in types:
            yield _unknown_key((*key, name), list(types), root)
    for item in fields(cls):
        path, kind = (*key, item.name), _not_none(types[item.name])
        value = table.get(item.name)
        if _is_dataclass(kind) and is_table(value):
            yield from faults(kind, value, partial=partial, key=path, root=root)
        elif value is not None:
            yield from _misfits(kind, value, path)
        elif item.default is MISSING and item.default_factory is MISSING and not partial:
            yield Fault(path, f"missing `{'.'.join(path)}`", f"give it {wanted(kind)}")


def key_types(cls: type[Any]) -> dict[str, Any]:
    """Every key of `cls`, those of nested tables dotted, with its type (None taken off)."""
    found: dict[str, Any] = {}
    for name, declared in get_type_hints(cls).items():
        kind = found[name] = _not_none(declared)
        if _is_dataclass(kind):
            found |= {f"{name}.{inner}": inner_kind for inner, inner_kind in key_types(kind).items()}
    return found


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`table` with the keys of nested tables dotted."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if is_table(value):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def wanted(kind: Any) -> str:
    """What a value of the type must be, in words for an error: `a number above 0`."""
    if get_origin(kind) is Literal:
        choices = [shown(choice) for choice in get_args(kind)]
        return choices[0] if len(choices) == 1 else "one of " + ", ".join(choices)
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return "a list of texts" if item is str else f"a list, each item {wanted(item)}"
    plain = {str: "a text", bool: "true or false", int: "a whole number above 0", float: "a number above 0"}
    return plain.get(kind, "a table")


def shown(value: object) -> str:
    """`value` as TOML writes it, or what it is where that would be long."""
    if isinstance(value, bool):
        return str(value).lower()
    if is_table(value):
        return "a table"
    if _is_list(value):
        return "a list"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _plain(value: object) -> object:
    if is_dataclass(value):
        return to_table(value)
    if is_table(value):
        return dict(value)
    return list(value) if _is_tuple(value) else value


def _value(declared: Any, value: Any) -> object:
    kind = _not_none(declared)
    if _is_dataclass(kind):
        return from_table(kind, value)
    if get_origin(kind) is tuple:
        return tuple(value)
    if is_table(value):
        return flat(value)
    return float(value) if kind is float else value


def _misfits(kind: Any, value: object, key: Key) -> Iterator[Fault]:
    name = f"`{'.'.join(key)}`"
    if get_origin(kind) is tuple and _is_list(value):
        item = get_args(kind)[0]
        words = "texts" if item is str else wanted(item).removeprefix("one of ")
        for entry in value:
            if not _fits(item, entry):
                yield Fault(key, f"{name} may hold {words}, not {shown(entry)}", _meant(item, entry))
    elif get_origin(kind) is Mapping and is_table(value):
        for entry, text in flat(value).items():
            if not isinstance(text, str):
                yield Fault((*key, entry), f"`{'.'.join((*key, entry))}` must be a text, not {shown(text)}")
    elif not _fits(kind, value):
        yield Fault(key, f"{name} must be {wanted(kind)}, not {shown(value)}", _meant(kind, value))


def _fits(kind: Any, value: object) -> bool:
    if get_origin(kind) is Literal:
        return any(type(choice) is type(value) and choice == value for choice in get_args(kind))
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if isinstance(value, int | float):
        return kind in (type(value), float) and isfinite(value) and value > 0
    return isinstance(value, str) and kind is str


def _meant(kind: Any, value: object) -> str | None:
    choices = [choice for choice in get_args(kind) if isinstance(choice, str)]
    meant = nearest(value, choices) if isinstance(value, str) else None
    return f'write "{meant}"' if meant else None


def _unknown_key(key: Key, names: list[str], root: type[Any]) -> Fault:
    """A key under the header of the wrong table is TOML's commonest trap, so that is looked for first."""
    homes = [known for known in key_types(root) if known.split(".")[-1] == key[-1]]
    meant = nearest(key[-1], names)
    if homes:
        table = homes[0].rpartition(".")[0]
        hint = f"move `{key[-1]}` under `[{table}]`" if table else f"move `{key[-1]}` above the first `[table]`"
    elif meant:
        hint = f"write `{'.'.join((*key[:-1], meant))}`"
    else:
        hint = f"use one of {', '.join(names)}"
    return Fault(key, f"unknown key `{'.'.join(key)}`", hint)


def _not_none(declared: Any) -> Any:
    if get_origin(declared) in (Union, UnionType):
        return next(arg for arg in get_args(declared) if arg is not NoneType)
    return declared


def _is_dataclass(kind: Any) -> TypeGuard[type[Any]]:
    return isinstance(kind, type) and is_dataclass(kind)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)

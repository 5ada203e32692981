"""Follow `extends` from a profile's file to its bases, and lay the files over one another."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from infer_opt.errors import nearest
from infer_opt.profiles.problems import Problem
from infer_opt.profiles.tables import flat
from infer_opt.profiles.toml_files import Key, Table, is_table, line_of, parse, read_text

__all__ = ["OWN_KEYS", "Layer", "chain", "combined", "inherit", "is_path", "shipped", "without"]

_DEVICES = Path(__file__).parent / "devices"

# These say what a file itself is, so it never takes them from the one it extends.
OWN_KEYS = ("name", "summary", "extends", "abstract")


@dataclass(frozen=True, slots=True)
class Layer:
    """One file of an `extends` chain."""

    where: str
    text: str
    table: Table

    def problem(self, key: Key, message: str, hint: str | None) -> Problem:
        """A problem of this file at the line of `key`."""
        return Problem(self.where, line_of(self.text, key), message, hint)


def shipped() -> dict[str, Path]:
    """The file of every shipped profile, those that are only bases too, by name."""
    return {path.stem: path for path in sorted(_DEVICES.glob("*.toml"))}


def is_path(reference: str) -> bool:
    """Whether `reference` is written as the path of a file and not as the name of a shipped profile."""
    return reference.endswith(".toml") or "/" in reference or "\\" in reference


def chain(path: Path, where: str) -> list[Layer] | Problem:
    """The file at `path` and the files it extends, base first, or the problem that breaks the chain.

    Args:
        path: the file.
        where: what the user calls it.
    """
    layers: list[Layer] = []
    seen: list[Path] = []
    while True:
        text = read_text(path)
        table = text if isinstance(text, Problem) else parse(text, where)
        if isinstance(table, Problem):
            return table
        layers.append(Layer(where, str(text), table))
        seen.append(path.resolve())
        base = table.get("extends")
        if not isinstance(base, str):
            return layers[::-1]
        path = path.parent / base if is_path(base) else _DEVICES / f"{base}.toml"
        where = str(path) if is_path(base) else base
        if path.resolve() in seen:
            return _broken(layers, where, "goes in a circle", "end the chain at a file without `extends`")
        if not path.exists():
            return _broken(layers, where, "names a profile that does not exist", _base_hint(base))


def combined(layers: Iterable[Layer]) -> Table:
    """One table out of `layers`, base first, each laid over those before it."""
    merged: Table = {}
    for layer in layers:
        merged = inherit({key: value for key, value in merged.items() if key not in OWN_KEYS}, layer.table)
    return merged


def inherit(base: Table, over: Table) -> Table:
    """`over` laid over `base`: tables merge key by key, anything else is replaced.

    `source` and `unknown` follow the facts: where `over` states a fact or calls it unknown, what `base` says
    of it goes, value and origin alike.
    """
    stated = {key for key in flat(over) if key.partition(".")[0] not in ("source", "unknown")}
    unknown: list[str] = over.get("unknown", [])
    kept = without(base, [tuple(key.split(".")) for key in unknown])
    if "source" in base:
        kept["source"] = {key: note for key, note in flat(base["source"]).items() if key not in {*stated, *unknown}}
    merged = _merge(kept, {**over, **({"source": flat(over["source"])} if "source" in over else {})})
    still = [key for key in base.get("unknown", []) if key not in stated and key not in unknown]
    if still or unknown:
        merged["unknown"] = [*still, *unknown]
    return merged


def without(table: Table, keys: Iterable[Key]) -> Table:
    """A copy of `table` that lacks `keys`."""
    kept = deepcopy(table)
    for key in keys:
        part: Table = kept
        for name in key[:-1]:
            inner = part.get(name)
            part = inner if is_table(inner) else {}
        part.pop(key[-1], None)
    return kept


def _merge(base: Table, over: Table) -> Table:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if is_table(below) and is_table(value) else value
    return merged


def _broken(layers: list[Layer], where: str, fault: str, hint: str) -> Problem:
    steps = " -> ".join(f"`{step}`" for step in (*(layer.where for layer in layers), where))
    return layers[-1].problem(("extends",), f"`extends` {fault}: {steps}", hint)


def _base_hint(base: str) -> str:
    meant = nearest(base, shipped())
    if meant and not is_path(base):
        return f'write `extends = "{meant}"`'
    return "give a shipped name, or the path of a `.toml` relative to this file"

"""Find a profile by name or path, check it, and load it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from pathlib import Path
from types import MappingProxyType

from infer_opt.errors import UsageError, UserError, nearest
from infer_opt.profiles.inheritance import OWN_KEYS, Layer, chain, combined, is_path, shipped, without
from infer_opt.profiles.overrides import overridden
from infer_opt.profiles.problems import Problem
from infer_opt.profiles.rules import rule_faults
from infer_opt.profiles.schema import Profile, ProfileFile
from infer_opt.profiles.tables import Fault, faults, from_table
from infer_opt.profiles.toml_files import Key, Table, parse, read_text

__all__ = ["check", "load", "names"]

_NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


def names(*, abstract: bool = False) -> list[str]:
    """The shipped profiles that can be a target or, with `abstract`, those that are only bases."""
    return [name for name, path in shipped().items() if _is_abstract(path) == abstract]


def load(name_or_path: str, *, backends: Collection[str], overrides: Mapping[str, str] = _NO_OVERRIDES) -> Profile:
    """The profile of that name, or in that file.

    Args:
        name_or_path: a shipped name (`t4`), or the path of a file, which ends in `.toml`, holds a separator,
            or exists.
        backends: names of the backends that exist.
        overrides: facts to set, dotted key to text, as `--set key=value` gives them.

    Raises:
        UsageError: no shipped profile has that name, or it is only a base, or an override does not fit.
        InputError: the file, or one it extends, is at fault; `check` returns all its problems.
    """
    path, where = _locate(name_or_path)
    layers = chain(path, where)
    if isinstance(layers, Problem):
        raise layers.error()
    table, problems = _examined(layers, backends)
    if problems:
        raise problems[0].error()
    if table.get("abstract"):
        raise _not_a_target(layers[-1])
    if overrides:
        table = overridden(table, overrides, backends)
    return from_table(Profile, without(table, [("extends",), ("abstract",)]))


def check(path: str | Path, *, backends: Collection[str]) -> list[Problem]:
    """Every problem of the profile at `path` and of the files it extends; none when it is sound."""
    layers = chain(Path(path), str(path))
    return [layers] if isinstance(layers, Problem) else _examined(layers, backends)[1]


def _locate(name_or_path: str) -> tuple[Path, str]:
    if file := shipped().get(name_or_path):
        return file, name_or_path
    if is_path(name_or_path) or _is_file(name_or_path):
        return Path(name_or_path), name_or_path
    meant = nearest(name_or_path.lower(), names())
    listing = "list the shipped profiles with `infer-opt profiles list`"
    hint = f"pass `{meant}`, or {listing}" if meant else f"{listing}, or pass the path of a `.toml` file"
    raise UsageError(f"no profile is named `{name_or_path}`", hint)


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError:  # longer than the file system allows, say
        return False


def _examined(layers: list[Layer], backends: Collection[str]) -> tuple[Table, list[Problem]]:
    """The table that `layers` add up to, without what does not fit its type, and all problems found."""
    problems: list[Problem] = []
    sound: list[Layer] = []
    misfits: set[Key] = set()
    for layer in layers:
        found = list(faults(ProfileFile, layer.table, partial=True))
        problems += [layer.problem(fault.key, fault.message, fault.hint) for fault in found]
        misfits |= {fault.key for fault in found}
        sound.append(Layer(layer.where, layer.text, without(layer.table, [fault.key for fault in found])))
    table = combined(sound)
    whole = (*faults(ProfileFile, table, partial=bool(table.get("abstract"))), *rule_faults(table, backends))
    problems += [_placed(fault, layers) for fault in whole if fault.key not in misfits]
    files = [layer.where for layer in layers]
    return table, sorted(problems, key=lambda problem: (files.index(problem.where), problem.line or inf))


def _placed(fault: Fault, layers: list[Layer]) -> Problem:
    """The problem that `fault` of the whole profile is, in the last file that speaks of its key."""
    inherited = fault.key[0] not in OWN_KEYS
    speaking = [layer for layer in layers if inherited and fault.key[0] in layer.table]
    return (speaking or layers)[-1].problem(fault.key, fault.message, fault.hint)


def _is_abstract(path: Path) -> bool:
    text = read_text(path)
    table = text if isinstance(text, Problem) else parse(text, path.name)
    return not isinstance(table, Problem) and table.get("abstract") is True


def _not_a_target(layer: Layer) -> UserError:
    if layer.where in shipped():
        hint = f"pass one of {', '.join(f'`{name}`' for name in names())}"
        return UsageError(f"`{layer.where}` is only a base for other profiles", hint)
    hint = "extend it in a file of your own, or remove `abstract`"
    return layer.problem(("abstract",), "is only a base for other profiles", hint).error()

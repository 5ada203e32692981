"""Pipelines as text: `simplify,fuse,quantize{method=percentile}`. Parsing and printing are inverse."""

from __future__ import annotations

import dataclasses
import difflib
import re
import typing
from typing import TYPE_CHECKING, Any, Literal

from infer_opt.errors import UsageError
from infer_opt.passes.engine.registry import find

if TYPE_CHECKING:
    from infer_opt.passes.engine.base import Pass

__all__ = ["parse_pass", "parse_passes"]

_PASS = re.compile(r"\s*(?P<name>[A-Za-z_][\w-]*)\s*(?:\{(?P<options>[^{}]*)\})?\s*")


def parse_passes(text: str) -> tuple[Pass, ...]:
    """The passes that a pipeline text names, in order; an empty text is an empty pipeline.

    Raises:
        UsageError: the text does not parse, or names an unknown pass, option or value.
    """
    passes: list[Pass] = []
    position = 0
    while position < len(text):
        match = _PASS.match(text, position)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            _fail_at(text, position)
        passes.append(parse_pass(match["name"], match["options"]))
        position = match.end() + 1
        if position == len(text) and text:
            _fail_at(text, position - 1)
    return tuple(passes)


def _fail_at(text: str, position: int) -> typing.NoReturn:
    raise UsageError(
        f"pipeline `{text}` cannot be read at `{text[position:].strip() or 'its end'}`",
        "write it like `simplify,fuse,quantize{method=percentile}`",
    )


def parse_pass(name: str, options: str | None = None) -> Pass:
    """One pass from its name and the text between its braces."""
    kind = find(name)
    types = typing.get_type_hints(kind)
    fields = {field.name: types[field.name] for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in (options or "").split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if key not in fields:
            _unknown_option(name, key, list(fields))
        if not equals:
            raise UsageError(f"option `{key}` of pass `{name}` has no value", f"write `{name}{{{key}=...}}`")
        if key in values:
            raise UsageError(f"option `{key}` of pass `{name}` is given twice", "keep one of the two")
        values[key] = _value(f"`{key}` of pass `{name}`", value, fields[key])
    return kind(**values)


def _unknown_option(name: str, key: str, known: list[str]) -> typing.NoReturn:
    near = difflib.get_close_matches(key, known, n=1)
    options = f"; it has {', '.join(known)}" if known else "; it has none"
    hint = f"did you mean `{near[0]}`?" if near else f"see `infer-opt passes show {name}`"
    raise UsageError(f"pass `{name}` has no option `{key}`{options}", hint)


def _value(what: str, text: str, kind: Any) -> Any:
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if text in choices:
            return text
        near = difflib.get_close_matches(text, choices, n=1)
        raise UsageError(
            f"{what} cannot be `{text}`", f"use {' or '.join(choices)}" if not near else f"use `{near[0]}`"
        )
    if kind is bool:
        if text not in {"true", "false"}:
            raise UsageError(f"{what} cannot be `{text}`", "use true or false")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{what} cannot be `{text}`", f"give a number ({kind.__name__})") from None

"""`infer-opt passes`: what a pipeline can be made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from infer_opt.cli.choices import Json, Plugins, load_plugins
from infer_opt.cli.output import listing, write, write_json

if TYPE_CHECKING:
    from infer_opt.passes import Pass

__all__ = ["app"]

app = typer.Typer(help="List and show passes, as `--pipeline` takes them.")


@app.callback(invoke_without_command=True)
def _passes(context: typer.Context, plugins: Plugins = None, as_json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_passes(plugins, as_json)


@app.command("list")
def list_passes(plugins: Plugins = None, as_json: Json = False) -> None:
    """List the passes and their options, those of plugins too."""
    from infer_opt.passes.engine.registry import available

    load_plugins(plugins)
    entries = [_entry(kind) for kind in available().values()]
    if as_json:
        write_json({"schema": 1, "passes": entries})
        return
    options = [", ".join(option["name"] for option in entry["options"]) for entry in entries]
    rows = [(entry["name"], names, entry["summary"]) for entry, names in zip(entries, options, strict=True)]
    listing(("pass", "options", "what it does"), rows)


@app.command("show")
def show_pass(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A pass, as `infer-opt passes` lists it.")],
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Show what a pass does, and its options with their defaults."""
    from infer_opt.passes.engine.registry import find

    load_plugins(plugins)
    entry = _entry(find(name))
    if as_json:
        write_json({"schema": 1, "passes": [entry]})
        return
    write(f"{entry['name']}\n\n{entry['text']}\n")
    if entry["options"]:
        rows = [[str(option[key]) for key in ("name", "takes", "default", "help")] for option in entry["options"]]
        listing(("option", "takes", "default", "meaning"), rows)
    else:
        write("It has no options.")


def _entry(kind: type[Pass]) -> dict[str, Any]:
    import dataclasses
    import inspect
    import typing

    types = typing.get_type_hints(kind)
    text = inspect.cleandoc(kind.__doc__ or "")
    options = [
        {
            "name": field.name,
            "takes": _takes(types[field.name]),
            "default": field.default,
            "help": field.metadata.get("help", ""),
        }
        for field in dataclasses.fields(kind)
    ]
    summary = " ".join(text.partition("\n\n")[0].split())
    return {"name": kind.name, "stage": kind.stage, "summary": summary, "text": text, "options": options}


def _takes(kind: Any) -> str:
    import typing

    choices = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        return "|".join(map(str, choices))
    return {bool: "true|false", int: "whole number", float: "number"}.get(kind, "text")

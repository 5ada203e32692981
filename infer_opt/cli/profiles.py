"""`infer-opt profiles`: the hardware profiles that are shipped, and checks of a user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from infer_opt.cli.choices import Json, load_profile
from infer_opt.cli.output import listing, write, write_json
from infer_opt.errors import InputError, printable

__all__ = ["app"]

app = typer.Typer(help="List, show and check hardware profiles.")


@app.callback(invoke_without_command=True)
def _profiles(context: typer.Context, as_json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_profiles(as_json)


@app.command("list")
def list_profiles(as_json: Json = False) -> None:
    """List the shipped profiles."""
    from infer_opt import profiles

    found = [load_profile(name) for name in profiles.names()]
    if as_json:
        entries = [
            {"name": item.name, "summary": item.summary, "backend": item.backend, "precisions": list(item.precisions)}
            for item in found
        ]
        write_json({"schema": 1, "profiles": entries})
        return
    rows = [(item.name, item.backend, ", ".join(item.precisions), item.summary) for item in found]
    listing(("name", "backend", "precisions", "device"), rows)


@app.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A shipped profile, or the path of a profile file.")],
    as_json: Json = False,
) -> None:
    """Show every fact of a profile, and where it comes from."""
    from infer_opt import profiles

    table = profiles.to_table(load_profile(name))
    if as_json:
        write_json({"schema": 1, "profile": table})
        return
    sources: dict[str, str] = table.pop("source")
    rows = [(key, text, sources.get(key, "")) for key, text in _flat(table) if text]
    listing(("key", "value", "source"), rows)


def _flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            rows.append((prefix + key, ", ".join(map(str, value))))
        elif value is not None:
            rows.append((prefix + key, str(value).lower() if isinstance(value, bool) else str(value)))
    return rows


@app.command("check")
def check_profile(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A profile file (.toml).")], as_json: Json = False
) -> None:
    """Check a profile file, and say what is wrong and where; exit code 1 where anything is."""
    from infer_opt import profiles, targets

    problems = profiles.check(file, backends=targets.backends())
    if as_json:
        entries = [
            {"file": item.where, "line": item.line, "message": item.message, "hint": item.hint} for item in problems
        ]
        write_json({"schema": 1, "file": str(file), "problems": entries})
    for item in problems if not as_json else ():
        place = item.where if item.line is None else f"{item.where}:{item.line}"
        write(printable(f"{place}: {item.message}" + (f"; {item.hint}" if item.hint else "")))
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise InputError(f"`{file}` has {count}", "mend what is listed, and check again")
    if not as_json:
        write(printable(f"{file}: sound"))

"""The command line's entry: commands by name, streams as they should be, and what becomes of every exception."""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infer_opt import __version__
from infer_opt.cli import bench, compile, doctor, inspect, passes, profiles, sensitivity, verify  # noqa: A004 - the command's name
from infer_opt.cli.explain import EVERY_PASS
from infer_opt.cli.failures import from_environment, from_typer, show, show_bug
from infer_opt.cli.output import note, write
from infer_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["app", "main", "run"]

_PROGRAM = "infer-opt"
_USAGE = 2
_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
_OPTIONAL_VALUE = ("--explain", EVERY_PASS)

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("compile")(compile.compile_command)
app.command("inspect")(inspect.inspect_command)
app.command("sensitivity")(sensitivity.sensitivity_command)
app.command("verify")(verify.verify_command)
app.command("bench")(bench.bench_command)
app.add_typer(profiles.app, name="profiles")
app.add_typer(passes.app, name="passes")
app.command("doctor")(doctor.doctor_command)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Compile a trained ONNX model into the fastest artifact for a device that is still right.

    Exit codes: 0 done; 1 the input, data or environment is at fault; 2 usage; 3 made, but over budget, or found broken;
    70 a bug in infer-opt.
    """
    if version:
        write(f"{_PROGRAM} {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        write(context.get_help(), sys.stderr)
        raise typer.Exit(_USAGE)


def main() -> None:
    """Run the command line of this process and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Returns:
        The exit code: 0, 1, 2, 3, 70 (a bug), or 130 where the user interrupted.
    """
    _settle()
    known: dict[str, str] = {}
    try:
        code = app(_with_value(arguments), prog_name=_PROGRAM, standalone_mode=False, obj=known)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        return show(from_typer(error, context.command_path if context else _PROGRAM))
    except UserError as error:
        return show(error)
    except Exception as error:  # noqa: BLE001 - the one place that tells bugs from faults of the environment
        fault = from_environment(error)
        return show(fault) if fault else show_bug(error, arguments, known)
    if code == _INTERRUPTED:
        note("interrupted")
    return code or 0


def _settle() -> None:
    """Keep the terminal to ourselves, let paths pass through as they came, and clean up when told to stop."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    logging.getLogger().setLevel(logging.ERROR)
    if sys.stdout is None or sys.stderr is None:  # the caller closed it
        nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")
    # Like Ctrl-C, it then goes through the `finally` blocks, and no half-made folder stays behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _with_value(arguments: Sequence[str]) -> list[str]:
    """Give the option whose value may be left out its default value; typer knows no such options."""
    option, value = _OPTIONAL_VALUE
    given: list[str] = []
    for index, word in enumerate(arguments):
        following = arguments[index + 1] if index + 1 < len(arguments) else "-"
        given += [word, value] if word == option and following.startswith("-") else [word]
    return given

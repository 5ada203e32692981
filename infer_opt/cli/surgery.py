"""`--surgery FILE.py`: the model after a user's functions, in a folder that is gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infer_opt.errors import InputError

__all__ = ["operated_model"]

_CONTRACT = "a public function takes an onnx-graphsurgeon Graph, and changes it or returns another"


@contextmanager
def operated_model(model: Path, script: Path | None) -> Iterator[Path | None]:
    """The file to compile instead of `model`, or None without a script.

    Raises:
        InputError: the script is missing, has no public function, or raises; file and line are named.
    """
    if script is None:
        yield None
        return
    from infer_opt import ir
    from infer_opt.calibrate.user_code import load_module, public_functions

    ir.require_graphsurgeon()
    ir.load(model)  # a faulty model is named before any of the user's code runs
    functions = public_functions(load_module(str(script), _CONTRACT))
    if not functions:
        raise InputError(f"`{script}` has no public function", f"write one: {_CONTRACT}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / model.name
        ir.operate(model, functions, out, str(script), _CONTRACT)
        _check(out, model, script)
        yield out


def _check(out: Path, model: Path, script: Path) -> None:
    """Raises InputError where the functions left no model, by the name that the user knows."""
    from infer_opt import ir

    try:
        ir.load(out)
    except InputError as error:
        message = error.message.replace(str(out), str(model))
        raise InputError(f"after `{script}`: {message}", f"correct the code; {_CONTRACT}") from error

"""`--surgery FILE.py`: a user's functions on an onnx-graphsurgeon Graph, run on the file before it is loaded."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx

from infer_opt.errors import InputError, running_user_code
from infer_opt.ir.files import source_files
from infer_opt.ir.load import load

__all__ = ["operate", "require_graphsurgeon"]


def require_graphsurgeon() -> None:
    """Nothing, where onnx-graphsurgeon is installed.

    Raises:
        InputError: it is not.
    """
    if importlib.util.find_spec("onnx_graphsurgeon") is None:
        raise InputError("--surgery needs onnx-graphsurgeon", "install it with `pip install 'infer-opt[surgery]'`")


def operate(model: Path, functions: Sequence[Callable[[Any], Any]], out: Path, script: str, contract: str) -> None:
    """Call each function with the Graph of `model`, in order, and write what comes of it to `out`.

    A function changes the Graph in place or returns another. Weights that lie beside the model lie beside `out` too.

    Args:
        script: the file that the functions are from.
        contract: what the functions must do, for the hint.

    Raises:
        InputError: a function raises, or leaves no Graph that can be written; file and line are named.
    """
    surgeon = importlib.import_module("onnx_graphsurgeon")
    importlib.import_module("onnx_graphsurgeon.logger").G_LOGGER.colors = False  # or it advertises a package
    original = onnx.load(model)
    graph = surgeon.import_onnx(original)
    typed = _give_dtypes(graph, model)
    with running_user_code(script, contract):
        for function in functions:
            returned = function(graph)
            graph = graph if returned is None else returned
            if not isinstance(graph, surgeon.Graph):
                message = f"function `{function.__name__}` returned {type(graph).__name__}, and no Graph"
                raise TypeError(message)
        _take_dtypes(graph, typed)
        exported = surgeon.export_onnx(graph.cleanup().toposort())
    # onnx-graphsurgeon forgets what is not in the graph.
    exported.metadata_props.extend(original.metadata_props)
    exported.ir_version = original.ir_version
    beside = len(source_files(model)) > 1
    onnx.save(exported, out, save_as_external_data=beside, location=f"{out.name}.data" if beside else None)


def _give_dtypes(graph: Any, model: Path) -> list[Any]:
    """Give values the dtypes that inference finds: one that becomes an output needs it, and few exporters write them.

    Returns:
        the values that got one.
    """
    known = {value.name: value.dtype.numpy() for node in load(model).graph for value in node.outputs if value.dtype}
    untyped = [value for value in graph.tensors().values() if value.dtype is None and value.name in known]
    for value in untyped:
        value.dtype = known[value.name]
    return untyped


def _take_dtypes(graph: Any, values: Sequence[Any]) -> None:
    """Take them away again from what did not become an output: the functions may have changed what is computed."""
    outputs = {id(value) for value in graph.outputs}
    for value in values:
        if id(value) not in outputs:
            value.dtype = None

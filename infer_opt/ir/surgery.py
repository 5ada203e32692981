"""`--surgery FILE.py`: a user's functions on an onnx-graphsurgeon Graph, run on the file before it is loaded."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx

from infer_opt.errors import InputError

__all__ = ["operate"]


def operate(model: Path, functions: Sequence[Callable[[Any], Any]], out: Path) -> None:
    """Call each function with the Graph of `model`, in order, and write what comes of it to `out`.

    A function changes the Graph in place or returns another. What it raises is passed on.

    Raises:
        InputError: onnx-graphsurgeon is not installed.
    """
    if importlib.util.find_spec("onnx_graphsurgeon") is None:
        raise InputError("--surgery needs onnx-graphsurgeon", "install it with `pip install onnx-graphsurgeon`")
    surgeon = importlib.import_module("onnx_graphsurgeon")
    original = onnx.load(model)
    graph = surgeon.import_onnx(original)
    for function in functions:
        graph = function(graph) or graph
    exported = surgeon.export_onnx(graph.cleanup().toposort())
    # onnx-graphsurgeon forgets what is not in the graph.
    exported.metadata_props.extend(original.metadata_props)
    exported.ir_version = original.ir_version
    onnx.save(exported, out)

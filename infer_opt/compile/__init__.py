"""From a request to an artifact folder. `line.py` is the straight line: read `compile_model` from top to bottom."""

from __future__ import annotations

from infer_opt.compile.line import compile_model
from infer_opt.compile.optimise import regions_of
from infer_opt.compile.request import Precision, Request

__all__ = ["Precision", "Request", "compile_model", "regions_of"]

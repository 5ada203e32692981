"""The names under which rewrites report what they changed, read off the code."""

from __future__ import annotations

import ast
from pathlib import Path

from infer_opt import passes
from infer_opt.passes import fuse, simplify

__all__ = ["FUSE", "SIMPLIFY", "walks"]

FUSE = list(dict.fromkeys(rule.name for rule in (*fuse.RULES, *fuse.FINAL_RULES)))
SIMPLIFY = list(dict.fromkeys(rule.name for rule in simplify.RULES))


def walks() -> set[str]:
    """The names of rewrites that are no `Rule`: the first argument of each Change."""
    return {
        node.args[0].value
        for file in Path(passes.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Change"
        if isinstance(node.args[0], ast.Constant)
    }

"""Plugins as texts, the models that they change, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_opt import ir
from infer_opt.errors import InputError
from infer_opt.passes import Outcome, Pipeline
from tests.onnx_text import load

__all__ = ["CALLED", "RENAMING", "TWICE", "TWO_FOR_TWO", "fused", "saved", "words"]

# Two operators of the standard for two others: enough to see what is built, and that it is built anew each time.
TWO_FOR_TWO = """
from infer_opt.passes import fusion_pattern


def to_abs_of_exp(op, match, facts):
    return op.node("Abs", [op.node("Exp", [match["x"]])])


@fusion_pattern("two for two", root="Relu", replacement=to_abs_of_exp)
def relu_of_neg(op, x):
    return op.Relu(op.Neg(x))
"""
TWICE = """
g (float[2] x, bool c) => (float[2] y, float[2] z) {
    v = Neg(x)  y = Relu(v)
    z = If(c) <
        then_branch = yes () => (float[2] a) { b = Neg(x) a = Relu(b) },
        else_branch = no () => (float[2] d) { d = Neg(x) }
    >
}
"""


# Three functions of a pattern that may each be spoilt.
CALLED = """
from infer_opt import ir
from infer_opt.passes import Decline, fusion_pattern


def check(match):
    print("checked")


def replacement(op, match, facts):
    return op.node("Abs", [match["x"]])


@fusion_pattern("pattern", root="Relu", check=check, replacement=replacement)
def pattern(op, x):
    return op.Relu(op.Neg(x))
"""

# A pass with two options.
RENAMING = '''
from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from infer_opt import ir
from infer_opt.passes import Change, Outcome, Pass, register_pass


@register_pass
@dataclass(frozen=True)
class Rename(Pass):
    """Give operators another name."""

    name: ClassVar[str] = "rename"
    old: Literal["Neg", "Relu"] = field(default="Neg", metadata={"help": "what to look for"})
    times: int = field(default=1, metadata={"help": "how often"})

    def apply(self, model: ir.Model) -> Outcome:
        changes = []
        for node in model.graph:
            if node.op_type == self.old:
                node.op_type = "Abs"
                changes.append(Change("rename", ir.origin(node)))
        return Outcome(tuple(changes[: self.times]))
'''


def saved(tmp_path: Path, text: str, name: str = "plugin.py") -> str:
    """A plugin's file."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return str(file)


def fused(text: str, tmp_path: Path, pipeline: str = "fuse") -> tuple[ir.Model, Outcome]:
    """A model after a pipeline of one pass, and what that pass says it did."""
    model, [step] = Pipeline.parse(pipeline).run(load(text, tmp_path))
    return model, step.outcome


def words(error: pytest.ExceptionInfo[InputError], tmp_path: Path) -> tuple[str, str]:
    """Message and hint, without the folder."""
    assert "\n" not in error.value.message
    return error.value.message.replace(f"{tmp_path}/", ""), str(error.value.hint)

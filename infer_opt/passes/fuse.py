"""The `fuse` pass: neighbouring operators that one operator can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from infer_opt import ir
from infer_opt.errors import UsageError, nearest
from infer_opt.passes.engine.base import Change, Miss, Outcome, Pass
from infer_opt.passes.engine.fixpoint import until_settled
from infer_opt.passes.engine.plugins import registered_rules
from infer_opt.passes.engine.rules import Rule, apply_rules
from infer_opt.passes.rewrites.activations import ACTIVATION_RULES
from infer_opt.passes.rewrites.affine import AFFINE_RULES
from infer_opt.passes.rewrites.affine_before import AFFINE_BEFORE_RULES
from infer_opt.passes.rewrites.affine_chains import CHAIN_RULES
from infer_opt.passes.rewrites.arithmetic import ARITHMETIC_RULES, RECIPROCAL_RULES
from infer_opt.passes.rewrites.clips import CLIP_RULES
from infer_opt.passes.rewrites.curves import CURVE_RULES
from infer_opt.passes.rewrites.dead_code import remove_dead_code
from infer_opt.passes.rewrites.duplicates import merge_equal_initializers, merge_equal_nodes
from infer_opt.passes.rewrites.hinges import HINGE_RULES
from infer_opt.passes.rewrites.matrix_products import MATRIX_RULES
from infer_opt.passes.rewrites.no_ops import remove_no_ops
from infer_opt.passes.rewrites.norm_affine import NORM_AFFINE_RULES
from infer_opt.passes.rewrites.normalizations import NORMALIZATION_RULES
from infer_opt.passes.rewrites.padding import PADDING_RULES
from infer_opt.passes.rewrites.scales import SCALE_RULES
from infer_opt.passes.rewrites.softmaxes import SOFTMAX_RULES
from infer_opt.passes.rewrites.space_depth import SPACE_DEPTH_RULES

__all__ = ["FINAL_RULES", "RULES", "Fuse"]

# In this order at each node: a Pad hides nothing from the other rules.
RULES = (
    *PADDING_RULES,
    *SPACE_DEPTH_RULES,
    *CLIP_RULES,
    *ACTIVATION_RULES,
    *CURVE_RULES,
    *HINGE_RULES,
    *SOFTMAX_RULES,
    *NORMALIZATION_RULES,
    *NORM_AFFINE_RULES,
    *AFFINE_RULES,
    *SCALE_RULES,
    *AFFINE_BEFORE_RULES,
    *MATRIX_RULES,
    *ARITHMETIC_RULES,
)

# Once nothing else fires: formulas are recognised by the constants they are written with.
FINAL_RULES = (*CHAIN_RULES, *RECIPROCAL_RULES)

_MOST_ROUNDS = 4  # what is left of a chain, the first rules may take up


@dataclass(frozen=True)
class Fuse(Pass):
    """Let one operator do the work of its neighbours.

    BatchNormalization, Neg and constant Mul, Div, Add and Sub go into the Conv, ConvTranspose, Gemm or MatMul before
    or behind them, a Pad into the Conv or MaxPool after it, and MatMul and Add become Gemm. Activations and
    normalisations that are written out become the operator.

    Exact up to the rounding of float32: weights are computed in float64 and rounded once.

    Which operators it leaves is the backend's choice, so profiles name in their pipelines what theirs cannot use.
    """

    name: ClassVar[str] = "fuse"

    without: str = field(
        default="", metadata={"help": "operators that no formula becomes, joined by `+`: `without=Gelu+Gemm`"}
    )
    also: str = field(
        default="", metadata={"help": "operators outside the ONNX standard that formulas may become, joined by `+`"}
    )

    def __post_init__(self) -> None:
        standard, foreign = _operators_made()
        _check_names("without", self.without, standard)
        _check_names("also", self.also, foreign)

    def apply(self, model: ir.Model) -> Outcome:
        """Apply the table until nothing fires."""
        rules = (*registered_rules(), *(rule for rule in RULES if self._makes(rule.makes)))
        changes: list[Change] = []
        misses: list[Miss] = []
        for _ in range(_MOST_ROUNDS):
            outcomes = [_settled(model, table) for table in (rules, CHAIN_RULES)]
            changes += [change for outcome in outcomes for change in outcome.changes]
            misses = [miss for outcome in outcomes for miss in outcome.misses]
            if not outcomes[-1].changes:
                break
        final = _settled(model, RECIPROCAL_RULES)
        changes += final.changes
        if changes:
            changes += remove_no_ops(model)
            changes += remove_dead_code(model)
            changes += merge_equal_initializers(model)
            changes += merge_equal_nodes(model)  # equal formulas are equal operators now
        return Outcome(tuple(changes), (*misses, *final.misses))

    def _makes(self, operator: str) -> bool:
        return operator in _names(self.also) if "::" in operator else operator not in _names(self.without)


def _settled(model: ir.Model, rules: Sequence[Rule]) -> Outcome:
    return until_settled(model, [lambda graph: apply_rules(graph, rules)])


def _names(option: str) -> list[str]:
    return [name.strip() for name in option.split("+")] if option else []


def _operators_made() -> tuple[list[str], list[str]]:
    """What the rules introduce: operators of the standard, and of other domains."""
    made = sorted({rule.makes for rule in RULES if rule.makes})
    return [name for name in made if "::" not in name], [name for name in made if "::" in name]


def _check_names(option: str, given: str, known: list[str]) -> None:
    for name in (name for name in _names(given) if name not in known):
        near = nearest(name, known)
        makes = f"it makes {', '.join(known)}" if known else "it makes none of that kind"
        hint = f"did you mean `{near}`?" if near else makes
        raise UsageError(f"`{option}` of pass `fuse` cannot be `{name}`", hint)

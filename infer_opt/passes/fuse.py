"""The `fuse` pass: neighbouring operators that one operator can do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from infer_opt import ir
from infer_opt.errors import UsageError, nearest
from infer_opt.passes.engine.base import Change, Miss, Outcome, Pass
from infer_opt.passes.engine.fixpoint import until_settled
from infer_opt.passes.engine.plugins import registered_rules
from infer_opt.passes.engine.rules import Rule, apply_rules
from infer_opt.passes.rewrites.clean_up.casts import shorten_cast_chains
from infer_opt.passes.rewrites.clean_up.dead_code import remove_dead_code
from infer_opt.passes.rewrites.clean_up.duplicates import merge_equal_initializers, merge_equal_nodes
from infer_opt.passes.rewrites.clean_up.no_ops import remove_no_ops
from infer_opt.passes.rewrites.formulas.activations import ACTIVATION_RULES
from infer_opt.passes.rewrites.formulas.clips import CLIP_RULES
from infer_opt.passes.rewrites.formulas.curves import CURVE_RULES
from infer_opt.passes.rewrites.formulas.hinges import HINGE_RULES
from infer_opt.passes.rewrites.formulas.norm_affine import NORM_AFFINE_RULES
from infer_opt.passes.rewrites.formulas.normalizations import NORMALIZATION_RULES
from infer_opt.passes.rewrites.formulas.softmaxes import SOFTMAX_RULES
from infer_opt.passes.rewrites.layout.flattened import FLATTENED_RULES
from infer_opt.passes.rewrites.layout.layout import move_transposes
from infer_opt.passes.rewrites.layout.space_depth import SPACE_DEPTH_RULES
from infer_opt.passes.rewrites.layout.transposes import merge_transposes
from infer_opt.passes.rewrites.linear.activation_scales import ACTIVATION_SCALE_RULES
from infer_opt.passes.rewrites.linear.affine import AFFINE_RULES
from infer_opt.passes.rewrites.linear.affine_before import AFFINE_BEFORE_RULES
from infer_opt.passes.rewrites.linear.affine_chains import CHAIN_RULES
from infer_opt.passes.rewrites.linear.arithmetic import ARITHMETIC_RULES, RECIPROCAL_RULES
from infer_opt.passes.rewrites.linear.attention import ATTENTION_RULES
from infer_opt.passes.rewrites.linear.conv_chains import CONV_CHAIN_RULES
from infer_opt.passes.rewrites.linear.einsum import EINSUM_RULES
from infer_opt.passes.rewrites.linear.few_positions import FEW_POSITIONS_RULES
from infer_opt.passes.rewrites.linear.matrix_products import MATRIX_RULES
from infer_opt.passes.rewrites.linear.padding import PADDING_RULES
from infer_opt.passes.rewrites.linear.pools import POOL_RULES
from infer_opt.passes.rewrites.linear.scales import SCALE_RULES
from infer_opt.passes.rewrites.shapes.concats import flatten_concats, undo_splits
from infer_opt.passes.rewrites.shapes.dynamic_shapes import settle_shapes
from infer_opt.passes.rewrites.shapes.joining import JOINING_RULES
from infer_opt.passes.rewrites.shapes.reshapes import merge_reshapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["FINAL_RULES", "RULES", "Fuse"]

# In this order at each node: an Einsum or a Pad hides nothing from the other rules.
RULES = (
    *EINSUM_RULES,
    *PADDING_RULES,
    *POOL_RULES,
    *FLATTENED_RULES,
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
    *ACTIVATION_SCALE_RULES,
    *AFFINE_BEFORE_RULES,
    *CONV_CHAIN_RULES,
    *MATRIX_RULES,
    *ARITHMETIC_RULES,
    *ATTENTION_RULES,
)

# Once nothing else fires: formulas are recognised by the constants they are written with, and a Conv takes up more than
# a product does.
_LAST_RULES = (*RECIPROCAL_RULES, *FEW_POSITIONS_RULES)
FINAL_RULES = (*CHAIN_RULES, *_LAST_RULES)

# Rules that leave moves of data, a Clip, or what works in one order of axes only, or take away what stood between two,
# and what joins those.
_LEAVE_MOVES = frozenset(
    rule.name
    for rule in (
        *EINSUM_RULES,
        *FLATTENED_RULES,
        *SCALE_RULES,
        *ATTENTION_RULES,
        *CLIP_RULES,
        *NORMALIZATION_RULES,
        *FEW_POSITIONS_RULES,
    )
)
_JOINS: tuple[Callable[[ir.Model], Iterable[Change | Miss]], ...] = (
    remove_dead_code,
    shorten_cast_chains,
    merge_reshapes,
    merge_transposes,
    move_transposes,
    flatten_concats,
    undo_splits,
    settle_shapes,
    remove_no_ops,
    lambda model: apply_rules(model, JOINING_RULES),
)

# What was cleaned up, behind which operators may stand side by side, or alone, that did not before.
_BRINGS_TOGETHER = frozenset({"no-op", "dead node", "equal nodes"})

_MOST_ROUNDS = 4  # what is left of a chain or a move, the first rules may take up


@dataclass(frozen=True)
class Fuse(Pass):
    """Let one operator do the work of its neighbours.

    BatchNormalization, Neg and constant Mul, Div, Add and Sub go into the Conv, ConvTranspose, Gemm or MatMul before
    or behind them, a Pad into the Conv or MaxPool after it, and MatMul and Add become Gemm. Two Convs in a row become
    one where one of them looks at single points, and so do two products of constant matrices. One number goes back
    through operators that move data, to the weights. Activations, normalisations and attention that are written out
    become the operator, and an Einsum of two operands becomes MatMul or Mul.

    Exact up to the rounding of float32: weights are computed in float64 and rounded once.

    Which operators it leaves is the backend's choice, so profiles name in their pipelines what theirs cannot use.
    """

    name: ClassVar[str] = "fuse"

    without: str = field(
        default="", metadata={"help": "operators that no formula becomes, joined by `+`: `without=Gelu+Gemm`"}
    )
    also: str = field(
        default="",
        metadata={"help": "operators that formulas become only if asked, joined by `+`: `also=Attention`"},
    )

    def __post_init__(self) -> None:
        unasked, asked_for = _operators_made()
        _check_names("without", self.without, unasked)
        _check_names("also", self.also, asked_for)

    def apply(self, model: ir.Model) -> Outcome:
        """Apply the tables until nothing fires."""
        rules = (*registered_rules(), *(rule for rule in RULES if self._makes(rule)))
        changes: list[Change] = []
        misses: tuple[Miss, ...] = ()
        for _ in range(_MOST_ROUNDS):
            fused, missed = _fused(model, rules)
            final = _settled(model, [rule for rule in _LAST_RULES if self._makes(rule)])
            joined = _joined(model) if any(change.rule in _LEAVE_MOVES for change in final.changes) else Outcome()
            made = [*fused, *final.changes, *joined.changes]
            if made or not changes:  # where the clean-up let nothing fire, the misses are those that led to it
                misses = (*missed, *final.misses)
            cleaned = _cleaned(model) if made else []
            changes += (*made, *cleaned)
            if not any(change.rule in _BRINGS_TOGETHER for change in cleaned):
                break
        return Outcome(tuple(changes), misses)

    def _makes(self, rule: Rule) -> bool:
        if _has_to_be_asked_for(rule):
            return rule.makes in _names(self.also)
        return rule.makes not in _names(self.without)


def _fused(model: ir.Model, rules: Sequence[Rule]) -> tuple[list[Change], list[Miss]]:
    """Apply the rules, join the moves of data that they leave, merge chains of constants, until nothing fires."""
    changes: list[Change] = []
    misses: list[Miss] = []
    for _ in range(_MOST_ROUNDS):
        fused = _settled(model, rules)
        joined = _joined(model) if any(change.rule in _LEAVE_MOVES for change in fused.changes) else Outcome()
        chained = _settled(model, CHAIN_RULES)
        changes += (*fused.changes, *joined.changes, *chained.changes)
        misses = [*fused.misses, *chained.misses]
        if not joined.changes and not chained.changes:
            break
    return changes, misses


def _cleaned(model: ir.Model) -> list[Change]:
    """What is left over goes; where it stood between two operators, these are joined as `simplify` joins them."""
    cleaned = list(remove_no_ops(model))
    cleaned += remove_dead_code(model)
    if any(change.rule == "no-op" for change in cleaned):
        cleaned += _joined(model).changes
    cleaned += merge_equal_initializers(model)
    cleaned += merge_equal_nodes(model)  # equal formulas are equal operators now
    return cleaned


def _settled(model: ir.Model, rules: Sequence[Rule]) -> Outcome:
    return until_settled(model, [lambda graph: apply_rules(graph, rules)])


def _joined(model: ir.Model) -> Outcome:
    ir.infer_shapes(model)
    return until_settled(model, _JOINS, between=ir.infer_shapes)


def _has_to_be_asked_for(rule: Rule) -> bool:
    return rule.on_request or "::" in rule.makes


def _names(option: str) -> list[str]:
    return [name.strip() for name in option.split("+")] if option else []


def _operators_made() -> tuple[list[str], list[str]]:
    """What the rules introduce of themselves, and what has to be asked for."""
    making = [rule for rule in (*RULES, *FINAL_RULES) if rule.makes]
    asked_for = {rule.makes for rule in making if _has_to_be_asked_for(rule)}
    return sorted({rule.makes for rule in making} - asked_for), sorted(asked_for)


def _check_names(option: str, given: str, known: list[str]) -> None:
    for name in (name for name in _names(given) if name not in known):
        near = nearest(name, known)
        makes = f"it makes {', '.join(known)}" if known else "it makes none of that kind"
        hint = f"did you mean `{near}`?" if near else makes
        raise UsageError(f"`{option}` of pass `fuse` cannot be `{name}`", hint)

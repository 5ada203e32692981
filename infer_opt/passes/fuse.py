"""The `fuse` pass: neighbouring operators that one operator can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from infer_opt import ir
from infer_opt.passes.engine.base import Outcome, Pass
from infer_opt.passes.engine.fixpoint import until_settled
from infer_opt.passes.engine.plugins import registered_rules
from infer_opt.passes.engine.rules import apply_rules
from infer_opt.passes.rewrites.activations import ACTIVATION_RULES
from infer_opt.passes.rewrites.affine import AFFINE_RULES
from infer_opt.passes.rewrites.arithmetic import ARITHMETIC_RULES, FINAL_RULES
from infer_opt.passes.rewrites.dead_code import remove_dead_code
from infer_opt.passes.rewrites.duplicates import merge_equal_initializers, merge_equal_nodes
from infer_opt.passes.rewrites.matrix_products import MATRIX_RULES
from infer_opt.passes.rewrites.no_ops import remove_no_ops
from infer_opt.passes.rewrites.normalizations import NORMALIZATION_RULES
from infer_opt.passes.rewrites.padding import PADDING_RULES

__all__ = ["RULES", "Fuse"]

# In this order at each node: a Pad hides nothing from the other rules.
RULES = (
    *PADDING_RULES,
    *ACTIVATION_RULES,
    *NORMALIZATION_RULES,
    *AFFINE_RULES,
    *MATRIX_RULES,
    *ARITHMETIC_RULES,
)


@dataclass(frozen=True)
class Fuse(Pass):
    """Let one operator do the work of its neighbours.

    BatchNormalization, Neg and constant Mul, Div, Add and Sub go into the Conv, ConvTranspose, Gemm or MatMul before
    them, a Pad into the Conv or MaxPool after it, and MatMul and Add become Gemm. HardSwish, HardSigmoid, Gelu and
    LayerNormalization that are written out become the operator.

    Exact up to the rounding of float32: weights are computed in float64 and rounded once.
    """

    name: ClassVar[str] = "fuse"

    def apply(self, model: ir.Model) -> Outcome:
        """Apply the table until nothing fires."""
        fused = until_settled(model, [lambda graph: apply_rules(graph, (*registered_rules(), *RULES))])
        final = until_settled(model, [lambda graph: apply_rules(graph, FINAL_RULES)])
        changes = [*fused.changes, *final.changes]
        if changes:
            changes += remove_no_ops(model)
            changes += remove_dead_code(model)
            changes += merge_equal_initializers(model)
            changes += merge_equal_nodes(model)  # equal formulas are equal operators now
        return Outcome(tuple(changes), (*fused.misses, *final.misses))

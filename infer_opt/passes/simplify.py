"""The `simplify` pass: the same computation, written with fewer nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from infer_opt import ir
from infer_opt.errors import UsageError
from infer_opt.passes.engine.base import Change, Miss, Outcome, Pass
from infer_opt.passes.engine.fixpoint import until_settled
from infer_opt.passes.engine.rules import apply_rules
from infer_opt.passes.rewrites.clean_up.branches import take_constant_branches
from infer_opt.passes.rewrites.clean_up.casts import shorten_cast_chains
from infer_opt.passes.rewrites.clean_up.constant_nodes import lift_constant_nodes
from infer_opt.passes.rewrites.clean_up.dead_code import remove_dead_code
from infer_opt.passes.rewrites.clean_up.dead_outputs import remove_dead_outputs
from infer_opt.passes.rewrites.clean_up.duplicates import merge_equal_initializers, merge_equal_nodes
from infer_opt.passes.rewrites.clean_up.folding import fold_constants
from infer_opt.passes.rewrites.clean_up.loops import write_short_loops_out
from infer_opt.passes.rewrites.clean_up.no_ops import remove_no_ops
from infer_opt.passes.rewrites.layout.layout import move_transposes
from infer_opt.passes.rewrites.layout.transposes import merge_transposes
from infer_opt.passes.rewrites.shapes.concats import flatten_concats, undo_splits
from infer_opt.passes.rewrites.shapes.dynamic_shapes import settle_shapes
from infer_opt.passes.rewrites.shapes.joining import JOINING_RULES
from infer_opt.passes.rewrites.shapes.reshapes import merge_reshapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["RULES", "Simplify"]

RULES = JOINING_RULES


@dataclass(frozen=True)
class Simplify(Pass):
    """Remove what a graph can do without: constants computed at run time, no-ops, duplicates, dead code, detours.

    Exact: every node that stays reads the numbers it read before, bit for bit, but for the sign of zero and, where axes
    are moved, the order in which a sum over several of them adds.
    """

    name: ClassVar[str] = "simplify"

    fold_limit: int = field(
        default=65536, metadata={"help": "bytes a folded constant may have beyond the constants it replaces"}
    )

    def __post_init__(self) -> None:
        if self.fold_limit < 0:
            raise UsageError(f"`fold_limit` of pass `simplify` cannot be `{self.fold_limit}`", "give 0 or more bytes")

    def apply(self, model: ir.Model) -> Outcome:
        """Repeat the rewrites below until none finds anything."""
        rewrites: tuple[Callable[[ir.Model], Iterable[Change | Miss]], ...] = (
            lift_constant_nodes,  # first: everything after it looks for weights among initializers
            lambda graph: fold_constants(graph, self.fold_limit),
            take_constant_branches,
            write_short_loops_out,
            remove_no_ops,
            shorten_cast_chains,
            merge_reshapes,
            merge_transposes,
            move_transposes,
            flatten_concats,
            undo_splits,
            settle_shapes,
            lambda graph: apply_rules(graph, RULES),
            merge_equal_initializers,  # before equal nodes: equal weights make equal nodes
            merge_equal_nodes,
            remove_dead_code,
            remove_dead_outputs,
        )
        return until_settled(model, rewrites, between=_infer_what_is_open)


def _infer_what_is_open(model: ir.Model) -> bool:
    """Folded shapes fix dimensions that the next round can use; where all are known, inference has nothing to say."""
    return not ir.shapes_known(model) and ir.infer_shapes(model)

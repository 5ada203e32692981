"""Constants behind a normalisation go into its gamma and beta.

    (norm(x) * gamma + beta) * c = norm(x) * (gamma * c) + beta * c
    (norm(x) * gamma + beta) + c = norm(x) * gamma + (beta + c)

And GroupNormalization (opset 21) by an InstanceNormalization of groups: each group is one channel of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule
from infer_opt.passes.rewrites.formulas.norm_parameters import Array, Parameter, channels_of
from infer_opt.passes.rewrites.linear.affine import AFFINE
from infer_opt.passes.rewrites.linear.linear import narrow, refuse_rounding

__all__ = ["NORM_AFFINE_RULES"]

Facts = tuple[Array, Array | None]


class ConstantIntoNorm(Rule):
    """`norm(x, gamma, beta) op c` to `norm(x, gamma', beta')`, for c, gamma and beta constant."""

    def __init__(self, norm: str, operator: str, opset: int) -> None:
        self.norm, self.root, self.opset = norm, operator, opset
        self.commutes = operator in {"Add", "Mul"}
        self.scales = operator in {"Mul", "Div"}
        self.name = f"{'Mul' if self.scales else 'Add'} into {norm}"

    def pattern(self, op: Any, x: Any, c: Any) -> Any:
        inner = getattr(op, self.norm)(x, _allow_other_inputs=True, _allow_other_attributes=True, _outputs=["normal"])
        return getattr(op, self.root)(inner, c)

    def check(self, match: Match) -> Facts:
        norm, x, c = match.node("normal"), match["x"], match["c"]
        gamma, beta = (ir.constant(value) for value in (*norm.inputs[1:3], *[None] * (3 - len(norm.inputs))))
        if not ir.rank(x):
            raise Decline("the rank of its input is not known")
        if not ir.is_constant(c):
            raise Decline(f"`{c.name}` is not a constant")
        if gamma is None or (beta is None and len(norm.inputs) > 2 and norm.inputs[2] is not None):
            raise Decline(f"gamma or beta of the {self.norm} is not a constant")
        if not self.scales:
            refuse_rounding(ir.array(c))
        with np.errstate(all="ignore"):  # what is not finite is declined
            return self._merged(gamma, beta, self._spread(norm, Parameter(c, 1.0), x))

    def _spread(self, norm: ir.Node, constant: Parameter, x: ir.Value) -> Array:
        if self.norm in {"InstanceNormalization", "GroupNormalization"}:
            return constant.per_channel(x)
        rank = ir.rank(x) or 0
        return constant.of_last_axes(x, rank - ir.attribute(norm, "axis", -1) % rank)

    def _merged(self, gamma: Array, beta: Array | None, constant: Array) -> Facts:
        scale, shift = AFFINE[self.root](constant.astype(np.float64))
        if self.scales:
            scaled = None if beta is None else narrow(beta.astype(np.float64) * scale, beta.dtype)
            return narrow(gamma.astype(np.float64) * scale, gamma.dtype), scaled
        added = shift if beta is None else beta.astype(np.float64) + shift
        return gamma, narrow(added, gamma.dtype)

    def rewrite(self, op: Builder, match: Match, facts: Facts) -> ir.Value:
        norm, (gamma, beta) = match.node("normal"), facts
        inputs: list[ir.Value | None] = [match["x"], norm.inputs[1]]
        if self.scales:
            inputs[1] = op.initializer(gamma, match["c"].name)
        if beta is not None:
            old = norm.inputs[2] if len(norm.inputs) > 2 else None
            inputs.append(op.initializer(beta, (old or match["c"]).name))
        return op.node(self.norm, inputs, norm.attributes)


class GroupNorm(Rule):
    """`Reshape(InstanceNormalization(Reshape(x, [N, groups, ...])), shape of x)` to GroupNormalization."""

    name = "GroupNormalization written out"
    root = "Reshape"
    makes = "GroupNormalization"
    opset = 21
    near = 3

    def pattern(self, op: Any, x: Any, gamma: Any, beta: Any) -> Any:
        groups = op.Reshape(x, _allow_other_inputs=True, _outputs=["groups"])
        normal = op.InstanceNormalization(groups, gamma, beta, _allow_other_attributes=True, _outputs=["normal"])
        return op.Reshape(normal, _allow_other_inputs=True, _outputs=["y"])

    def check(self, match: Match) -> tuple[int, Array, Array]:
        x, shape, groups = match["x"], ir.proven_dims(match["x"]), ir.dims(match["groups"])
        channels = channels_of(x)
        if shape is None or groups is None or shape != ir.proven_dims(match["y"]) or len(shape) < 3 or None in shape:
            raise Decline("the shape is not known to be that of its input again")
        count = groups[1]
        if groups[0] != shape[0] or not isinstance(count, int) or channels % count:
            raise Decline("the channels do not become groups")
        parameters = [ir.constant(match[name]) for name in ("gamma", "beta")]
        if any(item is None for item in parameters):
            raise Decline("gamma or beta of the InstanceNormalization is not a constant")
        gamma, beta = (np.repeat(item, channels // count) for item in parameters if item is not None)
        return count, gamma, beta

    def rewrite(self, op: Builder, match: Match, facts: tuple[int, Array, Array]) -> ir.Value:
        count, gamma, beta = facts
        inputs = [match["x"], op.initializer(gamma, match["gamma"].name), op.initializer(beta, match["beta"].name)]
        epsilon = ir.attribute(match.node("normal"), "epsilon", 1e-5)
        return op.node("GroupNormalization", inputs, {"num_groups": count, "epsilon": epsilon})


NORM_AFFINE_RULES: tuple[Rule, ...] = (
    GroupNorm(),
    *(
        ConstantIntoNorm(norm, operator, opset)
        for norm, opset, operators in (
            ("InstanceNormalization", 1, ("Mul", "Div", "Add", "Sub")),
            ("LayerNormalization", 17, ("Mul", "Div", "Add", "Sub")),
            ("GroupNormalization", 21, ("Mul", "Div", "Add", "Sub")),
            ("RMSNormalization", 23, ("Mul", "Div")),
        )
        for operator in operators
    ),
)

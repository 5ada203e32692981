"""Linear operators seen alike: a weight with an output-channel axis, and a bias for each output channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Builder, Decline

if TYPE_CHECKING:
    from infer_opt.ir import Node, Value

__all__ = [
    "LARGEST_FACTOR",
    "LINEAR_OPERATORS",
    "Linear",
    "narrow",
    "per_channel",
    "rebuild",
    "refuse_rounding",
    "rescaled",
    "rounds",
]

LARGEST_FACTOR = 1 << 20
"""Elements of a weight: multiplying larger ones takes seconds, and pages weights in."""

LINEAR_OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Linear:
    """A Conv, ConvTranspose, Gemm or MatMul with a constant weight.

    Args:
        weight: as the node holds it.
        bias: one number a channel (already times Gemm's beta), or None.
        channels: output channels.
        channel_axis: of the output: 1 for convolutions, -1 for matrix products.
    """

    node: Node
    weight: Array
    bias: Array | None
    channels: int
    channel_axis: int

    @classmethod
    def of(cls, node: Node) -> Linear:
        """The view of a node.

        Raises:
            Decline: weight or bias is not constant, holds integers, or the bias is not one number a channel.
        """
        weight = ir.constant(node.inputs[1])
        if weight is None:
            raise Decline(f"the weight of `{node.name}` is not a constant")
        if weight.dtype.kind in "iu":
            raise Decline(f"the weight of `{node.name}` holds integers")
        if node.op_type == "MatMul" and weight.ndim != 2:
            raise Decline(f"the weight of `{node.name}` is no matrix")
        channels = _channels(node, weight)
        axis = 1 if node.op_type in {"Conv", "ConvTranspose"} else -1
        return cls(node, weight, _bias(node, channels), channels, axis)

    @property
    def output_rank(self) -> int | None:
        """Rank of the output, from the weight where the operator fixes it."""
        return ir.rank(self.node.outputs[0]) if self.node.op_type == "MatMul" else self.weight.ndim

    def scale_weight(self, scale: Array) -> Array:
        """The weight with each output channel multiplied by its scale, in float64."""
        weight = self.weight.astype(np.float64)
        if self.node.op_type == "ConvTranspose":
            group = ir.attribute(self.node, "group", 1)
            # Weights are [in, out / group, ...]; the outputs of group g read the inputs of group g only.
            grouped = weight.reshape(group, -1, *weight.shape[1:])
            factors = scale.reshape(group, 1, -1, *[1] * (weight.ndim - 2))
            return (grouped * factors).reshape(weight.shape)
        axis = 0 if self.node.op_type == "Conv" or ir.attribute(self.node, "transB", 0) else 1
        shape = [1] * weight.ndim
        shape[axis] = -1
        return weight * scale.reshape(shape)


def _channels(node: Node, weight: Array) -> int:
    if node.op_type == "ConvTranspose":
        return int(weight.shape[1] * ir.attribute(node, "group", 1))
    if node.op_type == "Conv":
        return int(weight.shape[0])
    return int(weight.shape[0 if ir.attribute(node, "transB", 0) else 1])


def _bias(node: Node, channels: int) -> Array | None:
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is None:
        return None
    bias = ir.constant(value)
    if bias is None:
        raise Decline(f"the bias of `{node.name}` is not a constant")
    if bias.size not in {1, channels} or (bias.size != 1 and bias.shape[-1] != channels):
        raise Decline(f"the bias of `{node.name}` is not one number a channel")
    beta = ir.attribute(node, "beta", 1.0) if node.op_type == "Gemm" else 1.0
    return np.broadcast_to(bias.reshape(-1).astype(np.float64) * beta, (channels,))


def per_channel(constant: Array, linear: Linear) -> Array:
    """A constant that meets the output of `linear` in an element-wise operator, as one float64 number a channel.

    Raises:
        Decline: it varies along another axis, or its rank would raise the output's.
    """
    rank = linear.output_rank
    if rank is None or constant.ndim > rank:
        raise Decline("the constant may raise the rank of the result")
    shape = (1,) * (rank - constant.ndim) + constant.shape
    axis = linear.channel_axis % rank
    others = [size for index, size in enumerate(shape) if index != axis]
    if any(size != 1 for size in others) or shape[axis] not in {1, linear.channels}:
        raise Decline(f"the constant has shape {list(constant.shape)}, which is not one number an output channel")
    return np.broadcast_to(constant.reshape(-1).astype(np.float64), (linear.channels,))


def rescaled(linear: Linear, scale: Array, shift: Array) -> tuple[Array, Array | None]:
    """Weight and bias of `scale * linear(x) + shift`, in the weight's dtype.

    Raises:
        Decline: a number of the result would overflow or vanish in that dtype.
    """
    weight = linear.scale_weight(scale)
    bias = (0.0 if linear.bias is None else linear.bias) * scale + shift
    has_bias = linear.bias is not None or bool(shift.any())
    dtype = linear.weight.dtype
    return narrow(weight, dtype), narrow(bias, dtype) if has_bias else None


def narrow(exact: Array, dtype: np.dtype[Any]) -> Array:
    """New weights in the dtype of the old ones.

    Raises:
        Decline: one would overflow or vanish.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
    if not np.isfinite(rounded.astype(np.float64)).all():
        raise Decline(f"a fused weight would overflow {dtype}")
    if bool(((rounded == 0) & (exact != 0)).any()):
        raise Decline(f"a fused weight would vanish in {dtype}")
    return rounded


def rounds(constant: Array) -> bool:
    """Whether a sum with a constant of floats keeps nothing smaller than a half of the other summand.

    That may be what it is for: (x + 1.5 * 2^23) - 1.5 * 2^23 rounds x to whole numbers.
    """
    return constant.dtype.kind == "f" and not bool((np.abs(constant) < 0.5 / np.finfo(constant.dtype).eps).all())


def refuse_rounding(constant: Array) -> None:
    """Nothing, unless a sum with the constant `rounds`.

    Raises:
        Decline: it does, and would not where sums are merged.
    """
    if rounds(constant):
        raise Decline("what is added is so large that the sum rounds to whole numbers or halves")


def rebuild(op: Builder, linear: Linear, x: Value, weight: Array, bias: Array | None) -> Value:
    """The node of `linear` again, with another weight and bias."""
    node = linear.node
    attributes = {name: attr for name, attr in node.attributes.items() if name != "beta"}
    inputs: list[Value | None] = [x, op.initializer(weight, _name(node, 1))]
    if bias is not None:
        inputs.append(op.initializer(bias, _name(node, 2) or f"{node.name}_bias"))
    return op.node(node.op_type, inputs, attributes)


def _name(node: Node, index: int) -> str | None:
    value = node.inputs[index] if len(node.inputs) > index else None
    return value.name if value is not None else None

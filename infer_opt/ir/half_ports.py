"""Which inputs and outputs of a node are FP16 where the node computes in FP16, by the ONNX standard's own types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import onnx
import onnx_ir as ir

from infer_opt.ir.edit import attribute, inner_graphs

__all__ = ["HalfPorts", "half_ports"]

_HALF = "tensor(float16)"
# Their output's dtype is an attribute: of these two it can be written, and the others are rare.
_BY_ATTRIBUTE = {"Cast": "to", "ConstantOfShape": "value"}
_NEVER = frozenset(
    {"Constant", "EyeLike", "CastLike", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"}
    | {"Bernoulli", "Multinomial", "QuantizeLinear", "DequantizeLinear"}
)


@dataclass(frozen=True)
class HalfPorts:
    """Places of the float32 inputs and outputs that become FP16; the others keep their dtype (scales of a Resize)."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs)


def half_ports(node: ir.Node, opset: int) -> HalfPorts:
    """The float32 inputs and outputs of a node that its operator takes and gives as FP16; none where it cannot.

    QuantizeLinear and DequantizeLinear count as none: they take the dtype of what is around them.

    Args:
        opset: of the standard's domain, in the model.
    """
    if node.domain or node.op_type in _NEVER or any(inner_graphs(node)) or not onnx.defs.has(node.op_type, ""):
        return HalfPorts((), ())
    takes, gives = _types(node.op_type, opset)
    inputs = tuple(i for i, value in enumerate(node.inputs) if _is_float(value) and _allows(takes, i))
    outputs = tuple(i for i, value in enumerate(node.outputs) if _is_float(value) and _allows(gives, i))
    if node.op_type in _BY_ATTRIBUTE and outputs and attribute(node, _BY_ATTRIBUTE[node.op_type]) is None:
        outputs = ()
    return HalfPorts(inputs, outputs)


def _is_float(value: ir.Value | None) -> bool:
    return value is not None and value.dtype == ir.DataType.FLOAT


def _allows(ports: tuple[bool, ...], index: int) -> bool:
    """A variadic port, which is the last, stands for all that follow."""
    return bool(ports) and ports[min(index, len(ports) - 1)]


@cache
def _types(op_type: str, opset: int) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """For each input and output by place: whether it may be FP16."""
    schema = onnx.defs.get_schema(op_type, opset, "")
    allowed = {each.type_param_str: _HALF in each.allowed_type_strs for each in schema.type_constraints}
    return (
        tuple(allowed.get(port.type_str, port.type_str == _HALF) for port in schema.inputs),
        tuple(allowed.get(port.type_str, port.type_str == _HALF) for port in schema.outputs),
    )

"""Weights that kernels read in integers: where they stand, and along which axis their scales run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infer_opt import ir
from infer_opt.calibrate.plan import WeightSite
from infer_opt.calibrate.quantization import Format

if TYPE_CHECKING:
    import numpy as np

    from infer_opt.profiles import Dialect

__all__ = ["constant_weight", "drop_unread_weights", "is_channel_bias", "weight_array", "weight_site"]

_WEIGHT = 1  # which input of Conv, ConvTranspose, Gemm and MatMul is the weight


def weight_site(node: ir.Node, weight: ir.Value, dialect: Dialect) -> WeightSite:
    """The weight of a node, which `constant_weight` has found constant; its bias stays float."""
    found = constant_weight(weight)
    assert found is not None  # noqa: S101 - the caller has asked
    bits = None if dialect.weight_bits == 8 else dialect.weight_bits
    return WeightSite(
        node=str(node.name),
        index=_WEIGHT,
        value=str(found.name),
        axis=_channel_axis(node, ir.rank(weight)) if dialect.weight_per_channel else None,
        format=Format(dialect.weight_dtype, symmetric=True, narrow=True, bits=bits),
        transposed=found is not weight,
    )


def constant_weight(value: ir.Value) -> ir.Value | None:
    """The constant that is a weight, also where a node reads it through a Transpose: a table that is used both ways."""
    if ir.is_constant(value):
        return value
    turn = value.producer()
    if turn is None or turn.op_type != "Transpose" or turn.domain or not ir.is_constant(turn.inputs[0]):
        return None
    source = turn.inputs[0]
    turned = ir.attribute(turn, "perm")
    is_matrix = ir.rank(source) == 2 and (turned is None or list(turned) == [1, 0])
    return source if is_matrix else None


def is_channel_bias(bias: ir.Value, node: ir.Node, weight: ir.Value) -> bool:
    """Whether a bias is constant and has one number for each output channel."""
    if not ir.is_constant(bias) or ir.rank(bias) != 1:
        return False
    # Only Gemm broadcasts its bias: one number for all channels has the rank of a channel bias too.
    return node.op_type != "Gemm" or ir.array(bias).size == (ir.dims(weight) or ())[_channel_axis(node, 2) or 0]


def weight_array(value: ir.Value) -> np.ndarray[Any, Any]:
    """The numbers of a weight that `constant_weight` has found constant, as it is read."""
    found = constant_weight(value)
    assert found is not None  # noqa: S101 - the caller has asked
    return ir.array(found) if found is value else ir.array(found).T


def drop_unread_weights(model: ir.Model) -> None:
    """Take out constants that nobody reads any more, and Transposes of constants."""
    graphs = list(ir.all_graphs(model))
    for node in (node for graph in graphs for node in list(graph)):
        if node.op_type == "Transpose" and ir.is_constant(node.inputs[0]) and not _is_read(node.outputs[0]):
            ir.remove(node)
    for graph in graphs:
        for name, value in list(graph.initializers.items()):
            if not _is_read(value) and not value.is_graph_input():
                del graph.initializers[name]


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _channel_axis(node: ir.Node, rank: int | None) -> int | None:
    """Output-channel axis of a weight: Conv 0, ConvTranspose 1, Gemm by transB, MatMul the last of a matrix."""
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        # With groups, axis 1 counts the channels of one group only; one scale for all is the only exact form.
        return 1 if ir.attribute(node, "group", 1) == 1 else None
    if node.op_type == "Gemm":
        return 0 if ir.attribute(node, "transB", 0) else 1
    return 1 if rank == 2 else None

"""Regions by a dialect: which nodes a backend that reads Q/DQ runs as one integer kernel, and what each would read.

Three kinds of node, all named by the profile's dialect: *compute* (convolutions and matrix products: worth quantizing
by themselves), *followers* (element-wise operators and Concat: integer only where what they read already is), and
*movers* (operators that copy numbers: the same scale on both sides).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.plan import INT8, Region, Scheme
from infer_opt.calibrate.quantization import Format
from infer_opt.targets.dynamic import dynamic_scheme
from infer_opt.targets.weight_sites import constant_weight, is_channel_bias, weight_site

if TYPE_CHECKING:
    from collections.abc import Iterable

    from infer_opt.calibrate.plan import WeightSite
    from infer_opt.profiles import Dialect

__all__ = ["find_regions", "float_region"]

_FIXED_RANGES = {"Sigmoid": (0.0, 1.0), "HardSigmoid": (0.0, 1.0), "Softmax": (0.0, 1.0), "Tanh": (-1.0, 1.0)}
_COMPUTE = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


class _NotOfferedError(Exception):
    """A node cannot be integer; the text says why."""


def find_regions(model: ir.Model, dialect: Dialect, *, int8: bool) -> tuple[Region, ...]:
    """The regions of every graph: those of the main graph first, in order, then those of each subgraph.

    A branch of an If runs its nodes as the main graph does, and what it reads from outside is quantized for it too.
    The body of a Loop or a Scan stays as it is: its values differ from turn to turn, and nothing watches them.

    Args:
        int8: whether the profile offers INT8 at all; without it every region stays at the original's precision.
    """
    finder = _Finder(dialect, int8=int8)
    return tuple(
        replace(finder.region(node, scope), scope=scope.name)
        for scope in ir.scopes(model)
        for node in scope.graph
        if node not in finder.absorbed
    )


class _Finder:
    """Walks the graphs in order, outer ones first, and remembers which values are written in integers."""

    def __init__(self, dialect: Dialect, *, int8: bool) -> None:
        self._dialect, self._int8 = dialect, int8
        self._integer: set[ir.Value] = set()
        self.absorbed: set[ir.Node] = set()
        self._activation = Format(dialect.activation_dtype, dialect.activation_symmetric)

    def region(self, node: ir.Node, scope: ir.Scope) -> Region:
        """The region a node starts."""
        activation = self._absorbed_by(node)
        in_main_graph = scope.name is None
        dynamic = dynamic_scheme(node, self._dialect) if self._int8 and in_main_graph else None
        others = () if dynamic is None else (dynamic,)
        try:
            offer = self._offer(node, scope)
        except _NotOfferedError as reason:
            return replace(float_region([node]), schemes=others, reason=str(reason))
        nodes = [node] if activation is None else [node, activation]
        self.absorbed.update(nodes[1:])
        writes = [value for value in nodes[-1].outputs if value.uses() or value.is_graph_output()]
        if not offer.float_output or not self._dialect.output_q:
            self._integer.update(writes)
        scheme = Scheme(
            INT8,
            self._activation,
            reads=_names(offer.reads),
            writes=() if offer.float_output or not self._dialect.output_q else _names(writes),
            hands_on=() if offer.float_output or self._dialect.output_q else _names(writes),
            window=_window(activation),
            fixed_range=_FIXED_RANGES.get(node.op_type),
            weights=offer.weights,
            moves_data=node.op_type in self._dialect.same_scale_ops,
            shares_scale=node.op_type == "Concat" and self._dialect.concat_shares_scale,
            follows=node.op_type not in _COMPUTE,
        )
        return replace(float_region(nodes), schemes=(scheme, *others))

    def _offer(self, node: ir.Node, scope: ir.Scope) -> _Offer:
        if not self._int8:
            raise _NotOfferedError("the profile offers no INT8")
        if looped := scope.looped():
            raise _NotOfferedError(f"it runs in turns, inside `{looped.name}`, where nothing watches its values")
        if node.domain or not _is_float(node.outputs[0]):
            raise _NotOfferedError("not a float operator of ONNX")
        if node.op_type in self._dialect.same_scale_ops:
            return self._mover(node)
        if node.op_type not in self._dialect.compute_ops:
            raise _NotOfferedError(f"no INT8 kernel for {node.op_type} that gains")
        if node.op_type in _COMPUTE:
            return self._compute(node)
        return self._follower(node)

    def _mover(self, node: ir.Node) -> _Offer:
        source = node.inputs[0]
        if source is None or source not in self._integer:
            raise _NotOfferedError("what it reads is not INT8")
        if node.op_type == "Resize" and ir.attribute(node, "mode", "nearest") != "nearest":
            raise _NotOfferedError("it interpolates, which gives new numbers")
        if not all(_is_float(value) and (value.uses() or value.is_graph_output()) for value in node.outputs):
            raise _NotOfferedError("an output is unused, or no float32")
        if not self._dialect.output_q:
            self._integer.update(node.outputs)
            raise _NotOfferedError("it moves data, and the runtime moves quantizers across it by itself")
        return _Offer((source,))

    def _follower(self, node: ir.Node) -> _Offer:
        reads = [value for value in node.inputs if value is not None]
        if not all(_is_float(value) for value in reads):
            raise _NotOfferedError("an input is not float32")
        if not any(value in self._integer for value in reads):
            raise _NotOfferedError("nothing it reads is INT8")
        return _Offer(tuple(reads))

    def _compute(self, node: ir.Node) -> _Offer:
        left, right = node.inputs[0], node.inputs[1]
        assert left is not None  # noqa: S101 - required inputs
        assert right is not None  # noqa: S101
        if ir.is_constant(left):
            raise _NotOfferedError("its first input is a constant")
        if ir.attribute(node, "beta", 1.0) != 1.0:
            raise _NotOfferedError("Gemm scales its bias (beta)")
        if len(node.inputs) > 2 and ir.attribute(node, "alpha", 1.0) != 1.0:
            raise _NotOfferedError("Gemm scales its product (alpha), but not its bias")
        float_output = node.op_type in self._dialect.float_output_ops
        if constant_weight(right) is None:
            if node.op_type != "MatMul":
                raise _NotOfferedError("its weight is not a constant")
            return _Offer((left, right), float_output=float_output)
        return _Offer((left,), (self._weight_site(node, left, right),), float_output=float_output)

    def _weight_site(self, node: ir.Node, left: ir.Value, weight: ir.Value) -> WeightSite:
        site = weight_site(node, weight, self._dialect)
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if self._dialect.bias != "int32":
            return site
        if bias is not None and not is_channel_bias(bias, node, weight):
            raise _NotOfferedError("its bias is not one constant number a channel")
        integers = replace(site, bias_scale_of=str(left.name))
        return integers if bias is None else replace(integers, bias=str(bias.name))

    def _absorbed_by(self, node: ir.Node) -> ir.Node | None:
        """The activation that the kernel of `node` does on the way: the only reader of its only output."""
        if node.op_type not in self._dialect.compute_ops or len(node.outputs) != 1:
            return None
        output = node.outputs[0]
        users = tuple(output.uses())
        if output.is_graph_output() or len(users) != 1:
            return None
        user = users[0][0]
        absorbs = user.op_type in self._dialect.absorb_activations and user.graph is node.graph and not user.domain
        return user if absorbs and _constant_window(user) is not None else None


@dataclass(frozen=True)
class _Offer:
    """What a node would read in integers."""

    reads: tuple[ir.Value, ...]
    weights: tuple[WeightSite, ...] = ()
    float_output: bool = False


def float_region(nodes: list[ir.Node]) -> Region:
    """A region of some nodes, the main one first, at the model's own precision."""
    return Region(
        name=str(nodes[0].name),
        nodes=tuple(str(node.name) for node in nodes),
        origin=tuple(dict.fromkeys(name for node in nodes for name in ir.origin(node))),
        op_type=nodes[0].op_type,
    )


def _names(values: Iterable[ir.Value]) -> tuple[str, ...]:
    return tuple(str(value.name) for value in values)


def _is_float(value: ir.Value | None) -> bool:
    return value is not None and value.dtype == ir.DataType.FLOAT


def _window(activation: ir.Node | None) -> tuple[float | None, float | None]:
    return (None, None) if activation is None else _constant_window(activation) or (None, None)


def _constant_window(activation: ir.Node) -> tuple[float | None, float | None] | None:
    """Ends of a Relu or of a Clip by constants; None where they are not constant, or leave no place for 0.

    Every quantized range holds 0, so a quantizer cannot do what a Clip to [1, 6] does.
    """
    if activation.op_type == "Relu":
        return (0.0, None)
    ends: list[float | None] = []
    for index in (1, 2):
        value = activation.inputs[index] if len(activation.inputs) > index else None
        end = ir.scalar(value)
        if value is not None and end is None:
            return None
        ends.append(end)
    low, high = -math.inf if ends[0] is None else ends[0], math.inf if ends[1] is None else ends[1]
    return (ends[0], ends[1]) if low <= 0.0 <= high and low < high else None

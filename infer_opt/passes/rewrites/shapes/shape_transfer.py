"""The dimensions that operators give their output, by a table from operator to function; None where it is not told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from infer_opt import ir
from infer_opt.passes.rewrites.shapes.sizes import ONE, Size, fixed, number, product, quotient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["BROADCASTING", "TRANSFER", "Known", "reshaped"]

Found = list[Size | None] | None


class Known(Protocol):
    """What is known of the inputs of a node."""

    def dims(self, value: ir.Value | None) -> tuple[Size, ...] | None:
        """The dimensions of a value."""
        ...

    def contents(self, value: ir.Value | None) -> tuple[Size, ...] | None:
        """The entries of a vector of integers."""
        ...


def _same(known: Known, node: ir.Node) -> Found:
    dims = known.dims(node.inputs[0])
    return None if dims is None else list(dims)


def _first_only(known: Known, node: ir.Node) -> Found:
    """Convolutions and pools: the batch stays."""
    dims = known.dims(node.inputs[0])
    return None if not dims else [dims[0], *[None] * (len(dims) - 1)]


def _broadcast(known: Known, node: ir.Node) -> Found:
    shapes = [known.dims(value) for value in node.inputs]
    present = [shape for shape in shapes if shape is not None]
    if len(present) < len(shapes):
        return None
    rank = max(map(len, present))
    padded = [(ONE,) * (rank - len(shape)) + shape for shape in present]
    return [_stretched(sizes) for sizes in zip(*padded, strict=True)]


def _stretched(sizes: Sequence[Size]) -> Size | None:
    numbers = [size for size in sizes if number(size) not in {None, 1}]
    if numbers:
        return numbers[0]
    open_sizes = {size for size in sizes if size != ONE}
    return ONE if not open_sizes else open_sizes.pop() if len(open_sizes) == 1 else None


def _transpose(known: Known, node: ir.Node) -> Found:
    dims, order = known.dims(node.inputs[0]), ir.attribute(node, "perm")
    if dims is None:
        return None
    return [dims[axis] for axis in order] if order is not None else list(reversed(dims))


def _matmul(known: Known, node: ir.Node) -> Found:
    left, right = known.dims(node.inputs[0]), known.dims(node.inputs[1])
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        return None
    batch = max(len(left), len(right)) - 2
    pairs = [(ONE,) * (batch + 2 - len(shape)) + shape for shape in (left, right)]
    return [*(_stretched(sizes) for sizes in zip(pairs[0][:-2], pairs[1][:-2], strict=True)), left[-2], right[-1]]


def _gemm(known: Known, node: ir.Node) -> Found:
    left, right = known.dims(node.inputs[0]), known.dims(node.inputs[1])
    if left is None or right is None:
        return None
    return [left[1 if ir.attribute(node, "transA", 0) else 0], right[0 if ir.attribute(node, "transB", 0) else 1]]


def _concat(known: Known, node: ir.Node) -> Found:
    shapes = [known.dims(value) for value in node.inputs]
    if shapes[0] is None:
        return None
    sizes: list[Size | None] = list(shapes[0])
    sizes[ir.attribute(node, "axis")] = None
    return sizes


def _split(known: Known, node: ir.Node) -> Found:
    sizes = _same(known, node)
    if sizes is not None:
        sizes[ir.attribute(node, "axis", 0)] = None
    return sizes


def _axes(known: Known, node: ir.Node, rank: int) -> list[int] | None:
    """The axes of a node, as an attribute or a constant, not negative; None where it has none or they are computed."""
    given = ir.attribute(node, "axes")
    if given is None and len(node.inputs) > 1:
        entries = known.contents(node.inputs[1])
        given = None if entries is None or any(size[1] for size in entries) else [size[0] for size in entries]
    return None if given is None else [axis % rank for axis in given]


def _unsqueeze(known: Known, node: ir.Node) -> Found:
    dims = known.dims(node.inputs[0])
    rank = ir.rank(node.outputs[0])
    axes = None if dims is None or rank is None else _axes(known, node, rank)
    if dims is None or axes is None or rank is None or rank != len(dims) + len(axes):
        return None
    rest = iter(dims)
    return [ONE if axis in axes else next(rest) for axis in range(rank)]


def _squeeze(known: Known, node: ir.Node) -> Found:
    dims = known.dims(node.inputs[0])
    axes = None if not dims else _axes(known, node, len(dims))
    return None if dims is None or axes is None else [dims[axis] for axis in range(len(dims)) if axis not in axes]


def _reduce(known: Known, node: ir.Node) -> Found:
    dims = known.dims(node.inputs[0])
    axes = None if not dims else _axes(known, node, len(dims))
    if dims is None or not axes:  # an empty list of axes means all of them, or none
        return None
    keep = ir.attribute(node, "keepdims", 1)
    return [ONE if axis in axes else size for axis, size in enumerate(dims) if keep or axis not in axes]


def _flatten(known: Known, node: ir.Node) -> Found:
    dims = known.dims(node.inputs[0])
    if dims is None:
        return None
    axis = ir.attribute(node, "axis", 1)
    return [product(dims[:axis]), product(dims[axis:])]


def _reshape(known: Known, node: ir.Node) -> Found:
    dims, entries = known.dims(node.inputs[0]), known.contents(node.inputs[1])
    return None if dims is None or entries is None or ir.attribute(node, "allowzero", 0) else reshaped(dims, entries)


def reshaped(dims: Sequence[Size], entries: Sequence[Size]) -> list[Size | None]:
    """The shape that a Reshape to `entries` gives.

    An entry that depends on the input may turn out to be 0, which copies; so it is only believed at the place of a
    dimension that it equals.
    """
    sizes: list[Size | None] = []
    for place, entry in enumerate(entries):
        here = dims[place] if place < len(dims) else None
        if entry == fixed(0) or (here is not None and entry == here):
            sizes.append(here)
        else:
            sizes.append(entry if (number(entry) or 0) > 0 else None)
    if list(entries).count(fixed(-1)) == 1 and sizes.count(None) == 1:
        rest = product(size for size in sizes if size is not None)
        sizes[list(entries).index(fixed(-1))] = quotient(product(dims), rest)
    return sizes


def _expand(known: Known, node: ir.Node) -> Found:
    dims, entries = known.dims(node.inputs[0]), known.contents(node.inputs[1])
    if dims is None or entries is None:
        return None
    rank = max(len(dims), len(entries))
    pairs = zip((ONE,) * (rank - len(dims)) + dims, (ONE,) * (rank - len(entries)) + entries, strict=True)
    return [_stretched(pair) for pair in pairs]


def _slice(known: Known, node: ir.Node) -> Found:
    dims = known.dims(node.inputs[0])
    if dims is None or len(node.inputs) < 3:
        return None
    starts, axes = known.contents(node.inputs[1]), list(range(len(dims)))
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        entries = known.contents(node.inputs[3])
        if entries is None or any(size[1] for size in entries):
            return None
        axes = [size[0] % len(dims) for size in entries]
    elif starts is not None:
        axes = axes[: len(starts)]
    return [None if axis in axes else size for axis, size in enumerate(dims)]


def _resize(known: Known, node: ir.Node) -> Found:
    """Axes that are scaled by 1 stay."""
    dims, scales = known.dims(node.inputs[0]), ir.constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if dims is None or scales is None or scales.shape != (len(dims),) or ir.attribute(node, "axes"):
        return None
    return [size if scale == 1 else None for size, scale in zip(dims, scales, strict=True)]


def _gather(known: Known, node: ir.Node) -> Found:
    dims, indices = known.dims(node.inputs[0]), known.dims(node.inputs[1])
    if not dims or indices is None:
        return None
    axis = ir.attribute(node, "axis", 0) % len(dims)
    return [*dims[:axis], *indices, *dims[axis + 1 :]]


BROADCASTING = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum", "Mean", "Where", "Equal", "Greater", "Less", "Mod"),
    *("GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor"),
)
TRANSFER: dict[str, Callable[[Known, ir.Node], Found]] = {
    **dict.fromkeys(
        (
            *("Abs", "BatchNormalization", "Cast", "Ceil", "Celu", "Clip", "Cos", "CumSum", "DequantizeLinear", "Elu"),
            *("Dropout", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Hardmax", "Identity", "IsNaN"),
            *("InstanceNormalization", "LRN", "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "Mish"),
            *("Neg", "Not", "PRelu", "QuantizeLinear", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid"),
            *("Sign", "Sin", "Softmax", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu", "Trilu"),
        ),
        _same,
    ),
    **dict.fromkeys(BROADCASTING, _broadcast),
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "MaxPool"), _first_only),
    **dict.fromkeys(("ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), _reduce),
    "Concat": _concat,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}

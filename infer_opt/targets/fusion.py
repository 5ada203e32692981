"""Where TensorRT wants quantizers: at the inputs of what it fuses, by its fusion rules and the profile's cut-offs.

It fuses Conv, BatchNormalization, a residual Add and an activation to one kernel, and takes integers for as much of it
as has quantizers at its inputs. A pair in the middle of that breaks it up.

Source: TensorRT documentation, "Explicit Quantization", Q/DQ placement; NVIDIA/Model-Optimizer, onnx/quantization.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infer_opt import ir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infer_opt.calibrate.plan import Region, Scheme
    from infer_opt.profiles import Cutoffs

__all__ = ["placed"]

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_PRODUCTS = frozenset({"Gemm", "MatMul"})
_MOVERS = frozenset(
    {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split"}
    | {"MaxPool", "Resize", "Identity", "Pad"}
)


def placed(model: ir.Model, regions: Sequence[Region], cutoffs: Cutoffs) -> tuple[Region, ...]:
    """The regions with quantizers only where they help TensorRT to fuse.

    Args:
        regions: by the dialect alone, in the order of the graph; they write float.
        cutoffs: what becomes a doubt of a scheme.
    """
    placer = _Placer(model, regions, cutoffs)
    return tuple(placer.place(region) for region in regions)


class _Placer:
    def __init__(self, model: ir.Model, regions: Sequence[Region], cutoffs: Cutoffs) -> None:
        self._cutoffs = cutoffs
        self._nodes = ir.nodes(model)
        self._order = {node: index for index, node in enumerate(self._nodes.values())}
        self._main = {region.name: self._nodes[region.nodes[0]] for region in regions}
        integer = [region for region in regions if region.scheme("int8") is not None]
        self._kernels = {
            self._main[region.name]: region for region in integer if region.op_type in _CONVOLUTIONS | _PRODUCTS
        }
        self._read = {
            value: region for region in integer if region.op_type != "Concat" for value in _reads(region)
        }  # by name: who quantizes what it reads

    def place(self, region: Region) -> Region:
        scheme = region.scheme("int8")
        if scheme is None:
            return region
        node = self._main[region.name]
        if region.op_type == "Add":
            return self._residual(region, scheme, node)
        if region.op_type == "Concat":
            return self._joined(region, scheme, node)
        doubt = self._doubt(node)
        if doubt is None and not scheme.weights and region.op_type not in _PRODUCTS:
            doubt = self._doubt_of_what_it_reads(node)
        return _with(region, replace(scheme, doubt=doubt))

    def _residual(self, region: Region, scheme: Scheme, node: ir.Node) -> Region:
        """Of two branches, the one whose Conv the Add is fused with stays as it is."""
        branches = [value for value in node.inputs if value is not None]
        fused = [value for value in branches if self._feeds_only(value, node)]
        if any(ir.is_constant(value) for value in branches) or branches[0] is branches[1]:
            return _without(region, "it adds no second branch")
        if not fused:
            return _without(region, "neither branch is a convolution that it could be fused with")
        last = max(fused, key=lambda value: self._order[_maker(value)])
        other = next(value for value in branches if value is not last)
        if _differ(other, last):
            return _without(region, "its branches are broadcast")
        return _with(region, replace(scheme, reads=(str(other.name),), doubt=self._doubt(_maker(last))))

    def _feeds_only(self, value: ir.Value, node: ir.Node) -> bool:
        maker = value.producer()
        integer = maker in self._kernels and maker is not None and maker.op_type in _CONVOLUTIONS
        return integer and not value.is_graph_output() and [user for user, _ in value.uses()] == [node]

    def _joined(self, region: Region, scheme: Scheme, node: ir.Node) -> Region:
        """A Concat is worth integers where an integer kernel reads it, and all that it joins are activations."""
        readers = tuple(dict.fromkeys(name for name in _moved(node.outputs[0]) if name in self._read))
        if not readers:
            return _without(region, "nothing behind it reads integers")
        if any(ir.is_constant(value) for value in node.inputs if value is not None):
            return _without(region, "it joins a constant")
        doubts = [self._doubt(self._main[self._read[name].name]) for name in readers]
        doubt = next(iter(doubts)) if all(doubts) else None
        return _with(region, replace(scheme, shares_with=readers, doubt=doubt))

    def _doubt_of_what_it_reads(self, node: ir.Node) -> str | None:
        """A pool gains where the kernel before it does."""
        before = node.inputs[0].producer() if node.inputs[0] is not None else None
        while before is not None and before not in self._kernels and before.inputs and before.inputs[0] is not None:
            before = before.inputs[0].producer()
        return None if before is None else self._doubt(before)

    def _doubt(self, node: ir.Node) -> str | None:
        """Why an integer kernel of the node is not expected to gain."""
        if node.op_type in _CONVOLUTIONS:
            return self._small_conv(node)
        return self._small_product(node) if node.op_type in _PRODUCTS else None

    def _small_conv(self, node: ir.Node) -> str | None:
        cutoffs, weight = self._cutoffs, [size for size in ir.dims(node.inputs[1]) or () if isinstance(size, int)]
        if len(weight) < 3:
            return None
        group = int(ir.attribute(node, "group", 1))
        outer, inner = (0, 1) if node.op_type == "Conv" else (1, 0)
        outputs, inputs = weight[outer] * (group if outer else 1), weight[inner] * (1 if inner == 0 else group)
        if group > 1:
            if cutoffs.group_channels and outputs % cutoffs.group_channels:
                return f"its {outputs} output channels in groups are no multiple of {cutoffs.group_channels}"
            if cutoffs.group_kernel and min(weight[2:]) < cutoffs.group_kernel:
                return f"its kernel in groups is smaller than {cutoffs.group_kernel}"
        if cutoffs.channels and min(inputs, outputs) < cutoffs.channels:
            return f"it has {min(inputs, outputs)} channels, under {cutoffs.channels}"
        return None

    def _small_product(self, node: ir.Node) -> str | None:
        cutoffs, right = self._cutoffs, node.inputs[1]
        if not ir.is_constant(right) and cutoffs.activation_products is False:
            return "products of two activations (attention) gain nothing"
        left = ir.dims(node.inputs[0]) or ()
        sizes = [size for size in (ir.dims(right) or ())[-2:] if isinstance(size, int)]
        if cutoffs.channels and sizes and min(sizes) < cutoffs.channels:
            return f"it has {min(sizes)} channels, under {cutoffs.channels}"
        # A batch in front of a constant matrix counts as rows.
        rows = 1
        for size in left[:-1]:
            rows = rows * size if isinstance(size, int) else cutoffs.rows or 1
        transposed = node.op_type == "Gemm" and ir.attribute(node, "transA", 0)
        if cutoffs.rows and not transposed and rows < cutoffs.rows:
            return f"it multiplies {rows} row, under {cutoffs.rows}"
        return None


def _differ(one: ir.Value, other: ir.Value) -> bool:
    """Whether two values are known to have different shapes; symbols are taken for equal."""
    left, right = ir.dims(one), ir.dims(other)
    if left is None or right is None or len(left) != len(right):
        return True
    return any(a != b for a, b in zip(left, right, strict=True) if isinstance(a, int) and isinstance(b, int))


def _reads(region: Region) -> tuple[str, ...]:
    scheme = region.scheme("int8")
    return () if scheme is None else scheme.reads


def _maker(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None  # noqa: S101 - asked only of what a node makes
    return node


def _moved(value: ir.Value) -> Iterator[str]:
    """A value, and what only moves its numbers."""
    yield str(value.name)
    for user, index in value.uses():
        if user.op_type in _MOVERS and not user.domain and index == 0:
            for output in user.outputs:
                yield from _moved(output)


def _with(region: Region, scheme: Scheme) -> Region:
    return replace(region, schemes=tuple(scheme if item.precision == "int8" else item for item in region.schemes))


def _without(region: Region, reason: str) -> Region:
    schemes = tuple(item for item in region.schemes if item.precision != "int8")
    return replace(region, schemes=schemes, reason=reason)

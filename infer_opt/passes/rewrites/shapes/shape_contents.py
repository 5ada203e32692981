"""What vectors of dimensions hold, entry by entry, by a table from operator to function; None where it is not told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.passes.rewrites.shapes.sizes import Size, fixed, is_size, number, product, quotient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from infer_opt.passes.rewrites.shapes.shape_transfer import Known

    Entries = Iterable[Size] | None

__all__ = ["CONTENTS"]


def _shape(known: Known, node: ir.Node) -> list[Size] | None:
    dims = known.dims(node.inputs[0])
    return None if dims is None else list(dims[ir.attribute(node, "start", 0) : ir.attribute(node, "end", None)])


def _size(known: Known, node: ir.Node) -> list[Size] | None:
    dims = known.dims(node.inputs[0])
    return None if dims is None else [product(dims)]


def _as_it_is(known: Known, node: ir.Node) -> list[Size] | None:
    entries = known.contents(node.inputs[0])
    return None if entries is None else list(entries)


def _cast(known: Known, node: ir.Node) -> list[Size] | None:
    """Between integers. No value is so large that a dimension of it, or its number of elements, leaves int32."""
    source = node.inputs[0]
    entries = known.contents(source)
    if entries is None or source is None or ir.attribute(node, "to") not in {ir.DataType.INT32, ir.DataType.INT64}:
        return None
    narrow = ir.attribute(node, "to") == ir.DataType.INT32
    return list(entries) if not narrow or all(map(_fits_int32, entries)) else None


def _fits_int32(size: Size) -> bool:
    return _fits(size, alone=1)


def _fits_int64(size: Size) -> bool:
    return _fits(size, alone=2)


def _fits(size: Size, alone: int) -> bool:
    """A number of 31 bits, times dimensions of one value, each once, which has so many elements.

    Args:
        alone: how many dimensions may be of any values; each has 31 bits.
    """
    atoms = size[1]
    of_one_value = len({atom[0] for atom in atoms}) == 1 and len(set(atoms)) == len(atoms)
    small = abs(size[0]) < 1 << 31
    return small and (not atoms or (is_size(size) and (of_one_value or len(atoms) <= alone)))


def _numbers(known: Known, value: ir.Value | None) -> list[int] | None:
    entries = known.contents(value)
    if entries is None or any(size[1] for size in entries):
        return None
    return [size[0] for size in entries]


def _gather(known: Known, node: ir.Node) -> list[Size] | None:
    entries, indices = known.contents(node.inputs[0]), _numbers(known, node.inputs[1])
    if entries is None or indices is None or not all(-len(entries) <= index < len(entries) for index in indices):
        return None
    return [entries[index] for index in indices]


def _slice(known: Known, node: ir.Node) -> list[Size] | None:
    entries, bounds = known.contents(node.inputs[0]), [_numbers(known, value) for value in node.inputs[1:]]
    if entries is None or len(bounds) < 2 or any(bound is None or len(bound) != 1 for bound in bounds):
        return None
    numbers = [bound[0] for bound in bounds if bound is not None]
    step = numbers[3] if len(numbers) > 3 else 1
    return list(entries[numbers[0] : numbers[1] : step]) if step > 0 else None


def _concat(known: Known, node: ir.Node) -> list[Size] | None:
    parts = [known.contents(value) for value in node.inputs]
    return None if any(part is None for part in parts) else [size for part in parts if part for size in part]


def _pairs(known: Known, node: ir.Node, *values: ir.Value | None) -> list[tuple[Size, ...]] | None:
    """Entries side by side; a single one stands beside each of the others."""
    parts = [known.contents(value) for value in values]
    longest = max((len(part) for part in parts if part is not None), default=0)
    if any(part is None or len(part) not in {1, longest} for part in parts) or ir.elements(node.outputs[0]) != longest:
        return None
    return list(zip(*(part * longest if len(part) == 1 else part for part in parts if part), strict=True))


def _times(known: Known, node: ir.Node) -> list[Size] | None:
    pairs = _pairs(known, node, *node.inputs)
    return None if pairs is None else _held(node, [product(pair) for pair in pairs])


def _held(node: ir.Node, products: list[Size]) -> list[Size] | None:
    """Products, where none can leave the dtype that they are computed in: what wraps round is no product."""
    fits = _fits_int32 if node.outputs[0].dtype == ir.DataType.INT32 else _fits_int64
    return products if all(map(fits, products)) else None


def _over(known: Known, node: ir.Node) -> list[Size] | None:
    pairs = _pairs(known, node, *node.inputs)
    found = [quotient(*pair) if all(map(is_size, pair)) else None for pair in pairs or [] if len(pair) == 2]
    return None if pairs is None or None in found else [size for size in found if size is not None]


def _product(known: Known, node: ir.Node) -> list[Size] | None:
    entries = known.contents(node.inputs[0])
    whole = ir.rank(node.inputs[0]) == 1 and ir.elements(node.outputs[0]) == 1
    return _held(node, [product(entries)]) if entries is not None and whole else None


def _equal(known: Known, node: ir.Node) -> list[Size] | None:
    """1 or 0, where it is certain: equal products, two numbers, or a dimension and a negative number."""
    answers: list[Size] = []
    for left, right in _pairs(known, node, *node.inputs) or []:
        numbers = number(left), number(right)
        below = any(size is not None and size < 0 for size in numbers) and any(map(is_size, (left, right)))
        if left != right and None in numbers and not below:
            return None
        answers.append(fixed(int(left == right)))
    return answers or None


def _where(known: Known, node: ir.Node) -> list[Size] | None:
    chosen: list[Size] = []
    for condition, yes, no in _pairs(known, node, *node.inputs) or []:
        if number(condition) is None:
            return None
        chosen.append(yes if number(condition) else no)
    return chosen or None


CONTENTS: dict[str, Callable[[Known, ir.Node], list[Size] | None]] = {
    **dict.fromkeys(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"), _as_it_is),
    "Cast": _cast,
    "Concat": _concat,
    "Div": _over,
    "Equal": _equal,
    "Gather": _gather,
    "Mul": _times,
    "ReduceProd": _product,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Where": _where,
}

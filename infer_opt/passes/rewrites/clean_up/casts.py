"""Cast chains: an inner Cast that loses nothing is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.passes.engine.base import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["shorten_cast_chains"]

_D = ir.DataType

# From each dtype, the dtypes that hold every one of its values exactly.
_WIDER: dict[ir.DataType, frozenset[ir.DataType]] = {
    _D.BOOL: frozenset(
        {_D.UINT8, _D.INT8, _D.UINT16, _D.INT16, _D.UINT32, _D.INT32, _D.UINT64, _D.INT64}
        | {_D.FLOAT16, _D.BFLOAT16, _D.FLOAT, _D.DOUBLE}
    ),
    _D.UINT8: frozenset(
        {_D.UINT16, _D.INT16, _D.UINT32, _D.INT32, _D.UINT64, _D.INT64, _D.FLOAT16, _D.FLOAT, _D.DOUBLE}
    ),
    _D.INT8: frozenset({_D.INT16, _D.INT32, _D.INT64, _D.FLOAT16, _D.FLOAT, _D.DOUBLE}),
    _D.UINT16: frozenset({_D.UINT32, _D.INT32, _D.UINT64, _D.INT64, _D.FLOAT, _D.DOUBLE}),
    _D.INT16: frozenset({_D.INT32, _D.INT64, _D.FLOAT, _D.DOUBLE}),
    _D.UINT32: frozenset({_D.UINT64, _D.INT64, _D.DOUBLE}),
    _D.INT32: frozenset({_D.INT64, _D.DOUBLE}),
    _D.FLOAT16: frozenset({_D.FLOAT, _D.DOUBLE}),
    _D.BFLOAT16: frozenset({_D.FLOAT, _D.DOUBLE}),
    _D.FLOAT: frozenset({_D.DOUBLE}),
}


def shorten_cast_chains(model: ir.Model) -> Iterator[Change]:
    """`Cast<B>(Cast<A>(x))` becomes `Cast<B>(x)` where A holds every value of x's dtype exactly.

    A narrowing inner Cast (float to int32 and back) rounds or wraps, and stays. A Cast to the dtype that its input has
    already is a no-op and is removed with the others.
    """
    for graph in ir.all_graphs(model):
        for node in graph:
            if node.op_type != "Cast" or node.domain or node.inputs[0] is None:
                continue
            inner = node.inputs[0].producer()
            if inner is None or inner.op_type != "Cast" or inner.domain:
                continue
            source = inner.inputs[0]
            middle = _D(ir.attribute(inner, "to"))
            if source is None or source.dtype is None or middle not in _WIDER.get(source.dtype, frozenset()):
                continue
            node.replace_input_with(0, source)
            yield Change("cast chain", ir.origin(node), f"skipped `{inner.name}`")

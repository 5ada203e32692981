"""Models as text: one line a node, for dumps, goldens and people."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from infer_opt.ir.constants import content_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["text"]

_PRINTED_ELEMENTS = 8  # a longer constant is shown by dtype, shape and hash: the rest is noise to a reader


def text(model: ir.Model, *, weights: bool = True) -> str:
    """The graph as text.

    Short constants are printed in full; longer ones as dtype, shape and, with `weights`, the first digits of the
    SHA-256 of their bytes, so that two texts are equal exactly when the computations are.
    """
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(model.opset_imports.items()))
    lines = [f"opset {opsets}", *_graph_lines(model.graph, "", weights=weights)]
    return "\n".join(lines) + "\n"


def _graph_lines(graph: ir.Graph, indent: str, *, weights: bool) -> Iterator[str]:
    inputs = ", ".join(_typed(value) for value in graph.inputs)
    outputs = ", ".join(_typed(value) for value in graph.outputs)
    yield f"{indent}graph ({inputs}) -> ({outputs})"
    inner = indent + "  "
    for value in graph.initializers.values():
        default = " (default)" if value.is_graph_input() else ""
        yield f"{inner}{value.name} = {_tensor(value.const_value, weights=weights)}{default}"
    for node in graph:
        yield from _node_lines(node, inner, weights=weights)


def _node_lines(node: ir.Node, indent: str, *, weights: bool) -> Iterator[str]:
    subgraphs = [(name, attr) for name, attr in sorted(node.attributes.items()) if _graphs_of(attr)]
    plain = [
        f"{name}={_attribute(attr, weights=weights)}"
        for name, attr in sorted(node.attributes.items())
        if not _graphs_of(attr)
    ]
    options = f"<{', '.join(plain)}>" if plain else ""
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    outputs = ", ".join(_typed(value) if value.name else "_" for value in node.outputs)
    inputs = ", ".join("_" if value is None else str(value.name) for value in node.inputs)
    yield f"{indent}{outputs} = {operator}{options}({inputs})"
    for name, attr in subgraphs:
        for graph in _graphs_of(attr):
            yield f"{indent}  {name}:"
            yield from _graph_lines(graph, indent + "    ", weights=weights)


def _graphs_of(attr: ir.Attr) -> Sequence[ir.Graph]:
    if attr.type == ir.AttributeType.GRAPH:
        return [attr.as_graph()]
    return attr.as_graphs() if attr.type == ir.AttributeType.GRAPHS else []


def _typed(value: ir.Value) -> str:
    dtype = value.dtype.name.lower() if value.dtype is not None else "?"
    if value.shape is None:
        return f"{value.name}: {dtype}"
    dimensions = ",".join(str(d) if isinstance(d, int) else (d.value or "?") for d in value.shape)
    return f"{value.name}: {dtype}[{dimensions}]"


def _attribute(attr: ir.Attr, *, weights: bool) -> str:
    if attr.type == ir.AttributeType.TENSOR:
        return _tensor(attr.as_tensor(), weights=weights)
    if attr.type == ir.AttributeType.STRING:
        return repr(attr.as_string())
    if isinstance(attr.value, tuple | list):
        return "[" + ",".join(_number(item) for item in attr.value) + "]"
    return _number(attr.value)


def _tensor(value: ir.TensorProtocol | None, *, weights: bool) -> str:
    if value is None:
        return "?"
    kind = f"{value.dtype.name.lower()}[{','.join(str(d) for d in value.shape)}]"
    if value.size <= _PRINTED_ELEMENTS:
        return f"{kind} {{{', '.join(_number(item) for item in value.numpy().reshape(-1))}}}"
    if not weights:
        return kind
    return f"{kind} sha256:{hashlib.sha256(content_bytes(value)).hexdigest()[:8]}"


def _number(item: object) -> str:
    # As many digits as tell two numbers apart: 9 for float32 and attributes, which are float32, 17 for float64.
    if isinstance(item, np.float64):
        return f"{item:.17g}"
    return f"{float(item):.9g}" if isinstance(item, float | np.floating) else str(item)

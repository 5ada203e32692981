"""Faults of a model file, each found before any work is done and named by node or tensor.

Works on the protobuf, because a faulty graph has no faithful form in the IR. Linear in nodes and tensors.
"""

from __future__ import annotations

import graphlib
import math
from collections import Counter
from typing import TYPE_CHECKING, NoReturn

import onnx
import onnx_ir as ir

from infer_opt.errors import InputError
from infer_opt.ir.proto import all_nodes, all_tensors, external_file, graphs_of, is_external
from infer_opt.ir.schemas import latest_ir_version, latest_opset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["check_file"]

_OLDEST_OPSET = 7  # before it, broadcasting was an attribute with another meaning
_DIMS_SHOWN = 4
_NAMES_HINT = "give each value its own name; most exporters do"


def check_file(proto: onnx.ModelProto, path: Path) -> None:
    """Check a model that has just been parsed.

    Raises:
        InputError: no graph, a version from the future or from before opset 7, a recursive function, a value that is
            used but never made or made twice, a cycle, or a tensor whose bytes do not fit its declared shape.
    """
    if not proto.graph.output:
        raise InputError(f"`{path}` holds no graph with outputs", "check that the export finished and is an ONNX model")
    _check_versions(proto, path)
    _check_functions(proto, path)
    _check_graph(proto.graph, frozenset(), path)
    for tensor in all_tensors(proto):
        _check_tensor(tensor, path)


def _check_versions(proto: onnx.ModelProto, path: Path) -> None:
    opsets = {entry.domain or "ai.onnx": entry.version for entry in proto.opset_import}
    opset = opsets.get("ai.onnx")
    if opset is None:
        raise InputError(f"`{path}` declares no opset for the ai.onnx domain", "export the model again")
    if opset > latest_opset() or proto.ir_version > latest_ir_version():
        raise InputError(
            f"`{path}` declares opset {opset} and IR version {proto.ir_version}; "
            f"newest known here: opset {latest_opset()}, IR version {latest_ir_version()}",
            "update the `onnx` package, or export the model with an older opset",
        )
    if opset < _OLDEST_OPSET:
        raise InputError(
            f"`{path}` declares opset {opset}, older than {_OLDEST_OPSET}",
            "export the model again with opset 13 or newer",
        )


def _check_functions(proto: onnx.ModelProto, path: Path) -> None:
    bodies = {(f.domain, f.name): f for f in proto.functions}
    calls = {
        key: {(node.domain, node.op_type) for node in all_nodes(body.node)} & bodies.keys()
        for key, body in bodies.items()
    }
    try:
        list(graphlib.TopologicalSorter(calls).static_order())
    except graphlib.CycleError as error:
        names = " -> ".join(f"{domain}::{name}" for domain, name in error.args[1])
        raise InputError(
            f"`{path}`: function calls itself: {names}", "export the model again without recursive functions"
        ) from None
    for function in proto.functions:
        _check_nodes(function.node, frozenset(function.input), function.output, path)


def _check_graph(graph: onnx.GraphProto, outer: frozenset[str], path: Path) -> None:
    made: set[str] = set()
    for values in (graph.input, graph.initializer):
        declared = Counter(value.name for value in values)
        for name in declared:
            if declared[name] > 1:
                raise InputError(f"`{path}`: value `{name}` is declared twice", _NAMES_HINT)
        made.update(declared)
    made |= {sparse.values.name for sparse in graph.sparse_initializer}
    _check_nodes(graph.node, frozenset(made), [value.name for value in graph.output], path, outer)


def _check_nodes(
    nodes: Sequence[onnx.NodeProto],
    given: frozenset[str],
    outputs: Iterable[str],
    path: Path,
    outer: frozenset[str] = frozenset(),
) -> None:
    maker = _makers(nodes, given, path)
    visible = outer | given | maker.keys()
    for node in nodes:
        for name in filter(None, node.input):
            if name not in visible:
                raise InputError(
                    f"`{path}`: node {_label(node)} reads `{name}`, which nothing makes",
                    "export the model again; a node or an initializer was lost",
                )
    for name in outputs:
        if name not in given and name not in maker:  # onnxruntime wants an Identity of an outer value
            raise InputError(f"`{path}`: output `{name}` is made by no node", "export the model again")
    _check_order(nodes, maker, path)
    for node in nodes:
        for attr in node.attribute:
            for inner in graphs_of(attr):
                _check_graph(inner, visible, path)


def _makers(nodes: Sequence[onnx.NodeProto], given: frozenset[str], path: Path) -> dict[str, int]:
    """The index of the node that makes each value."""
    maker: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in maker or name in given:
                raise InputError(f"`{path}`: value `{name}` is made twice, again by node {_label(node)}", _NAMES_HINT)
            maker[name] = index
    return maker


def _check_order(nodes: Sequence[onnx.NodeProto], maker: dict[str, int], path: Path) -> None:
    needs = {index: {maker[name] for name in _reads(node) if name in maker} for index, node in enumerate(nodes)}
    try:
        list(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        names = " -> ".join(_label(nodes[index]) for index in error.args[1])
        raise InputError(
            f"`{path}`: the graph is cyclic: {names}", "write loops with the Loop or Scan operator"
        ) from None


def _reads(node: onnx.NodeProto) -> set[str]:
    """Names that a node and its subgraphs take from around it; a subgraph may use a later name for its own values."""
    read = set(filter(None, node.input))
    for attr in node.attribute:
        for inner in graphs_of(attr):
            own = {value.name for value in (*inner.input, *inner.initializer)}
            own.update(name for inner_node in inner.node for name in inner_node.output)
            wanted = {value.name for value in inner.output}.union(*map(_reads, inner.node))
            read |= wanted - own
    return read


def _label(node: onnx.NodeProto) -> str:
    name = node.name or (node.output[0] if node.output else "?")
    return f"`{name}` ({node.op_type})"


def _check_tensor(tensor: onnx.TensorProto, path: Path) -> None:
    if tensor.data_type not in _BITS:
        raise InputError(
            f"`{path}`: tensor `{tensor.name}` has the unknown element type {tensor.data_type}",
            "update the `onnx` package, or export the model again",
        )
    if any(dim < 0 for dim in tensor.dims):
        raise InputError(f"`{path}`: tensor `{tensor.name}` has a negative dimension", "export the model again")
    if is_external(tensor):
        _check_external(tensor, path)
    elif tensor.HasField("raw_data") and len(tensor.raw_data) != _declared_bytes(tensor):
        _wrong_size(tensor, path, f"{_declared_bytes(tensor):,} bytes", f"{len(tensor.raw_data):,}")
    elif not tensor.HasField("raw_data"):
        items = len(getattr(tensor, onnx.helper.tensor_dtype_to_field(tensor.data_type)))
        if items != _declared_items(tensor):
            _wrong_size(tensor, path, f"{_declared_items(tensor):,} elements", f"{items:,}")


def _wrong_size(tensor: onnx.TensorProto, path: Path, declared: str, carried: str) -> NoReturn:
    raise InputError(
        f"`{path}`: tensor `{tensor.name}` declares {_shape(tensor)} ({declared}) but carries {carried}",
        "copy or export the file again; it is truncated or corrupt",
    )


def _check_external(tensor: onnx.TensorProto, path: Path) -> None:
    file = external_file(tensor, path)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    where = f"`{path}`: external data of tensor `{tensor.name}`"
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", _declared_bytes(tensor)))
    except ValueError:
        raise InputError(f"{where} has an offset or length that is no number", "export the model again") from None
    size = file.stat().st_size
    if offset < 0 or length < _declared_bytes(tensor) or offset + length > size:
        raise InputError(
            f"{where} needs {_declared_bytes(tensor):,} bytes at {offset:,}, but `{entries['location']}` has {size:,}",
            "copy or export the file again; it is truncated or belongs to another model",
        )


def _declared_bytes(tensor: onnx.TensorProto) -> int:
    # Strings have no fixed width: 0 bits, and no raw data to compare with.
    return (_count(tensor) * _BITS[tensor.data_type] + 7) // 8


def _declared_items(tensor: onnx.TensorProto) -> int:
    """Entries of the typed field (`float_data`, ...) of a tensor that has no raw data."""
    if tensor.data_type in {onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128}:
        return 2 * _count(tensor)
    packed = _BITS[tensor.data_type] in {2, 4}
    return _declared_bytes(tensor) if packed else _count(tensor)


def _count(tensor: onnx.TensorProto) -> int:
    return int(math.prod(tensor.dims))


def _shape(tensor: onnx.TensorProto) -> str:
    shown = "x".join(str(dim) for dim in tensor.dims[:_DIMS_SHOWN]) or "a scalar"
    return shown + ("x..." if len(tensor.dims) > _DIMS_SHOWN else "")


# Bits of an element, by ONNX element type.
_BITS: dict[int, int] = {
    dtype.value: 0 if dtype == ir.DataType.STRING else dtype.bitwidth
    for dtype in ir.DataType
    if dtype != ir.DataType.UNDEFINED
}

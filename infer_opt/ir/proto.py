"""A model's protobuf: read from its file, and walked; where its external data lies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import DecodeError

from infer_opt.errors import InputError, pass_on_no_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["all_nodes", "all_tensors", "external_file", "graphs_of", "is_external", "parse"]


def parse(path: Path) -> onnx.ModelProto:
    """The protobuf of an ONNX file; external data stays where it is.

    Raises:
        InputError: the file is missing, cannot be read, or holds no model.
        MemoryError: there is not enough for it.
    """
    if not path.exists():
        raise InputError(f"`{path}` does not exist", "check the path of the model")
    if path.is_dir():
        raise InputError(f"`{path}` is a folder, not an ONNX file", "name the .onnx file itself")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(path.read_bytes())
    except DecodeError as error:
        pass_on_no_memory(error, f"`{path}` does not fit")
        raise InputError(
            f"`{path}` is not an ONNX model, or is truncated", "check that the export or the copy finished"
        ) from None
    except OSError as error:
        raise InputError(f"`{path}` cannot be read: {error.strerror}", "check its permissions") from None
    if not proto.HasField("graph"):
        raise InputError(f"`{path}` is empty or not an ONNX model", "check that the export or the copy finished")
    return proto


def all_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a model: initializers and tensor attributes, subgraphs and functions included."""
    yield from proto.graph.initializer
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        for node in all_nodes(nodes):
            for attr in node.attribute:
                if attr.HasField("t"):
                    yield attr.t
                yield from attr.tensors
                for inner in graphs_of(attr):
                    yield from inner.initializer


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for attr in node.attribute:
            for inner in graphs_of(attr):
                yield from all_nodes(inner.node)


def graphs_of(attr: onnx.AttributeProto) -> list[onnx.GraphProto]:
    """The graphs that an attribute holds."""
    return [attr.g] if attr.HasField("g") else list(attr.graphs)


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor's bytes lie in another file."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def external_file(tensor: onnx.TensorProto, path: Path) -> Path:
    """The file of an external tensor of the model at `path`, by the name that the tensor gives it.

    Raises:
        InputError: it lies outside the model's folder, or is not there.
    """
    location: str = {entry.key: entry.value for entry in tensor.external_data}.get("location", "")
    where = f"`{path}`: external data of tensor `{tensor.name}`"
    file = path.parent / location
    if not location or Path(location).is_absolute() or not file.resolve().is_relative_to(path.parent.resolve()):
        raise InputError(
            f"{where} lies outside the model's folder: `{location}`",
            "move the file beside the model and export again",
        )
    if not file.is_file():
        raise InputError(f"{where} is missing: `{location}`", f"put `{location}` beside `{path.name}`")
    return file

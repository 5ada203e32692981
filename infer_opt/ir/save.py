"""Writing a model: one file, or a file and external data where it is larger than protobuf allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from infer_opt.ir.collector import collection_paused
from infer_opt.ir.constants import initializer_bytes
from infer_opt.ir.edit import all_graphs

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["encoded", "save", "serialize", "without_annotations"]

_EXTERNAL_ABOVE_BYTES = 1 << 30  # protobuf stops at 2 GiB; half of it leaves room for graphs and metadata
_FIRST_IR_WITHOUT_LISTING = 4


def save(model: ir.Model, path: Path) -> list[Path]:
    """Write `model` to `path`; weights go to `<path>.data` beside it where they exceed 1 GiB.

    External weights that the model still holds are copied into what is written: an artifact never points back at the
    original's files. Memory does not grow with the weights that go to external data.

    Returns:
        the files written, the model first.
    """
    if initializer_bytes(model) > _EXTERNAL_ABOVE_BYTES:
        data = path.with_name(path.name + ".data")
        ir.save(without_annotations(model), path, external_data=data.name)
        return [path, data]
    path.write_bytes(serialize(model))
    return [path]


@collection_paused()
def serialize(model: ir.Model) -> bytes:
    """The bytes of a model of less than 2 GiB, external data among them."""
    copy = without_annotations(model)
    for graph in all_graphs(copy):
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = ir.Tensor(value.const_value.numpy(), name=value.name)
    return encoded(copy)


@collection_paused()
def encoded(bare: ir.Model) -> bytes:
    """The bytes of a model that `without_annotations` gave; they name the files of external data."""
    proto = ir.serde.serialize_model(bare)
    _list_initializers(proto)
    return bytes(proto.SerializeToString(deterministic=True))


def without_annotations(model: ir.Model, *, disposable: bool = False) -> ir.Model:
    """A copy without dtypes and shapes of inner values, and with the tensors of attributes in memory.

    Every reader infers dtypes and shapes anew. Written down, they make onnxruntime 1.32 fuse SkipLayerNormalization on
    CPUs, which costs a BERT encoder 14 % (docs/decisions/0001-no-inner-annotations.md).

    Args:
        disposable: the model itself, changed, in place of a copy.
    """
    copy = model if disposable else model.clone()
    for graph in all_graphs(copy):
        for node in graph:
            for value in node.outputs:
                if not value.is_graph_output():
                    value.type, value.shape = None, None
            for name, attr in node.attributes.items():
                if isinstance(attr.value, ir.ExternalTensor):
                    node.attributes[name] = ir.AttrTensor(name, ir.Tensor(attr.value.numpy()))
    return copy


def _list_initializers(proto: onnx.ModelProto) -> None:
    """Before IR version 4, initializers are listed among the inputs, which the branches of an If do not have."""
    if proto.ir_version >= _FIRST_IR_WITHOUT_LISTING:
        return
    _lift_initializers(proto.graph, proto.graph)
    listed = {value.name for value in proto.graph.input}
    proto.graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in proto.graph.initializer
        if tensor.name not in listed
    )


def _lift_initializers(graph: onnx.GraphProto, main: onnx.GraphProto) -> None:
    """Move the initializers of subgraphs to the main graph, which all of them see; names are unique across both."""
    for node in graph.node:
        for attr in node.attribute:
            for inner in [attr.g] if attr.HasField("g") else attr.graphs:
                main.initializer.extend(inner.initializer)
                del inner.initializer[:]
                _lift_initializers(inner, main)

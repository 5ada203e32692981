"""Reading a model file into the IR: checked, inlined, sorted, every node and value named, shapes inferred."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
from onnx_ir.external_data import set_base_dir
from onnx_ir.passes.common import InlinePass

from infer_opt.errors import InputError
from infer_opt.ir.collector import collection_paused
from infer_opt.ir.edit import all_graphs
from infer_opt.ir.inference import infer_shapes
from infer_opt.ir.names import Names
from infer_opt.ir.proto import graphs_of, parse
from infer_opt.ir.wellformed import check_file

__all__ = ["load"]

_FIRST_IR_WITH_DEFAULTS = 4  # before it, every initializer had to be listed among the inputs, and was no default


@collection_paused()
def load(path: str | Path) -> ir.Model:
    """Load an ONNX file.

    External weights stay on disk and are memory-mapped when used. Local functions are inlined, unsorted nodes sorted,
    unnamed and doubly named nodes and values named, inner shapes inferred anew (annotations in the file are not
    trusted). Names, order, dtypes and shapes of graph inputs and outputs stay as they are.

    Raises:
        InputError: the file is missing, not ONNX, truncated, unsafe or faulty; the message names node or tensor.
    """
    path = Path(path)
    proto = parse(path)
    check_file(proto, path)
    _shorten_default_domain(proto)
    _forget_annotations(proto.graph)
    try:
        model = ir.serde.deserialize_model(proto)
    except (ValueError, TypeError, KeyError, NotImplementedError, ir.serde.SerdeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"`{path}` cannot be read: {reason}", "export the model again") from error
    _inline(model, path)
    set_base_dir(model.graph, path.parent)
    _forget_listed_initializers(model)
    _name_everything(model)
    model.graph.sort()
    infer_shapes(model)
    return model


def _shorten_default_domain(proto: onnx.ModelProto) -> None:
    """The default domain has two names, "ai.onnx" and the empty one."""
    for owner in (proto, *proto.functions):
        for entry in owner.opset_import:
            if entry.domain == "ai.onnx":
                entry.domain = ""


def _forget_annotations(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    for node in graph.node:
        for attr in node.attribute:
            for inner in graphs_of(attr):
                _forget_annotations(inner)


def _inline(model: ir.Model, path: Path) -> None:
    for function in model.functions.values():
        function.graph.sort()
    try:
        InlinePass()(model)
    except (ValueError, ir.passes.PassError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise InputError(
            f"`{path}`: a local function cannot be inlined: {reason}", "export without functions"
        ) from error
    model.functions.clear()


def _forget_listed_initializers(model: ir.Model) -> None:
    if model.ir_version is not None and model.ir_version >= _FIRST_IR_WITH_DEFAULTS:
        return
    kept = [value for value in model.graph.inputs if not value.is_initializer()]
    model.graph.inputs.clear()
    model.graph.inputs.extend(kept)


def _name_everything(model: ir.Model) -> None:
    """Give every node and every value in use a name that no other has, in the whole model.

    ONNX lets sibling subgraphs use one name for two values; a branch that is later inlined must not clash. Inputs and
    outputs of the model keep their names.
    """
    names = Names(model)
    fixed = {*model.graph.inputs, *model.graph.outputs}
    seen = {str(value.name) for value in fixed}
    seen_nodes: set[str] = set()
    for graph in all_graphs(model):
        values = [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]
        for value in values:
            if value not in fixed:
                _settle(value, value.name, seen, names)
        for node in graph:
            _settle(node, node.name or _unnamed(node), seen_nodes, names)


def _settle(item: ir.Value | ir.Node, wanted: str | None, seen: set[str], names: Names) -> None:
    if not wanted and isinstance(item, ir.Value):
        # An output left empty is an optional one that is not wanted; a name would ask for it.
        if not item.uses():
            return
        wanted = "value"
    if not item.name or wanted in seen:
        item.name = names.fresh(str(wanted))
    seen.add(str(item.name))


def _unnamed(node: ir.Node) -> str:
    # An exporter that leaves nodes unnamed names their outputs: those are what a user can look up in a viewer.
    first = node.outputs[0].name if node.outputs else None
    return f"{node.op_type}:{first}" if first else node.op_type

"""The only border to onnx and onnx_ir: every other room sees models through the names below."""

from __future__ import annotations

from onnx_ir import (
    Attr,
    AttrFloat32,
    AttributeType,
    AttrInt64,
    AttrInt64s,
    AttrString,
    DataType,
    Graph,
    Model,
    Node,
    Shape,
    SymbolicDim,
    TensorType,
    Value,
    tensor,
)
from onnx_ir import node as make_node

from infer_opt.ir.collector import collection_paused
from infer_opt.ir.constants import array, constant, content_bytes, initializer_bytes, is_constant, scalar
from infer_opt.ir.counting import (
    Sparsity,
    Stored,
    Work,
    multiply_adds,
    multiply_adds_by_node,
    operators,
    sparsity,
    stored,
)
from infer_opt.ir.cuts import crossing_sizes, tail, with_outputs
from infer_opt.ir.detached import Detached, detach
from infer_opt.ir.edit import (
    add_initializer,
    all_graphs,
    attribute,
    clone,
    constant_value,
    drop_constants,
    every_value,
    inner_graphs,
    interface_values,
    operator_name,
    origin,
    remove,
    replace_node,
    replace_nodes,
    set_origin,
    substitute,
)
from infer_opt.ir.evaluate import evaluate
from infer_opt.ir.files import file_sha256, files_sha256, source_files, source_sha256
from infer_opt.ir.fingerprint import fingerprint
from infer_opt.ir.half_ports import HalfPorts, half_ports
from infer_opt.ir.inference import infer_shapes, shapes_known
from infer_opt.ir.input_shapes import InputShape, at_shapes, fix_input_shapes, value_sizes
from infer_opt.ir.interface import Interface, Parts, Port, interface, output_parts
from infer_opt.ir.legality import IllegalModelError, check_legal
from infer_opt.ir.liveness import Peak, activation_peak
from infer_opt.ir.load import load
from infer_opt.ir.names import Names
from infer_opt.ir.references import (
    GraphBuilder,
    Reference,
    expand_references,
    referenced_operators,
    register_reference,
    registered_references,
)
from infer_opt.ir.save import save, serialize
from infer_opt.ir.schemas import latest_opset, operator_known
from infer_opt.ir.scopes import Scope, branches, initializers, nodes, scopes
from infer_opt.ir.shapes import dims, elements, numpy_dtype, proven_dims, rank
from infer_opt.ir.state import recurrent_state
from infer_opt.ir.surgery import operate, require_graphsurgeon
from infer_opt.ir.text import text

__all__ = [
    "Attr",
    "AttrFloat32",
    "AttrInt64",
    "AttrInt64s",
    "AttrString",
    "AttributeType",
    "DataType",
    "Detached",
    "Graph",
    "GraphBuilder",
    "HalfPorts",
    "IllegalModelError",
    "InputShape",
    "Interface",
    "Model",
    "Names",
    "Node",
    "Parts",
    "Peak",
    "Port",
    "Reference",
    "Scope",
    "Shape",
    "Sparsity",
    "Stored",
    "SymbolicDim",
    "TensorType",
    "Value",
    "Work",
    "activation_peak",
    "add_initializer",
    "all_graphs",
    "array",
    "at_shapes",
    "attribute",
    "branches",
    "check_legal",
    "clone",
    "collection_paused",
    "constant",
    "constant_value",
    "content_bytes",
    "crossing_sizes",
    "detach",
    "dims",
    "drop_constants",
    "elements",
    "evaluate",
    "every_value",
    "expand_references",
    "file_sha256",
    "files_sha256",
    "fingerprint",
    "fix_input_shapes",
    "half_ports",
    "infer_shapes",
    "initializer_bytes",
    "initializers",
    "inner_graphs",
    "interface",
    "interface_values",
    "is_constant",
    "latest_opset",
    "load",
    "make_node",
    "multiply_adds",
    "multiply_adds_by_node",
    "nodes",
    "numpy_dtype",
    "operate",
    "operator_known",
    "operator_name",
    "operators",
    "origin",
    "output_parts",
    "proven_dims",
    "rank",
    "recurrent_state",
    "referenced_operators",
    "register_reference",
    "registered_references",
    "remove",
    "replace_node",
    "replace_nodes",
    "require_graphsurgeon",
    "save",
    "scalar",
    "scopes",
    "serialize",
    "set_origin",
    "shapes_known",
    "source_files",
    "source_sha256",
    "sparsity",
    "stored",
    "substitute",
    "tail",
    "tensor",
    "text",
    "value_sizes",
    "with_outputs",
]

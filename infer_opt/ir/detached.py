"""A model for a runtime in this process: small bytes, and its weights beside them as arrays that nothing copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from infer_opt.ir.constants import is_constant
from infer_opt.ir.save import encoded, serialize, without_annotations

__all__ = ["Detached", "detach"]

_LARGER_BYTES = 1024  # smaller ones decide shapes, which onnx and runtimes read in the model itself
_FIRST_IR_WITHOUT_LISTING = 4
# What numpy has types of its own for, and onnxruntime takes as an array.
_NATIVE = frozenset(
    {
        *(ir.DataType.BOOL, ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE),
        *(ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64),
        *(ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64),
    }
)


@dataclass(frozen=True)
class Detached:
    """A model and the weights that its bytes only name.

    Args:
        model: serialized; initializers in `weights` are external data of no file.
        weights: arrays by initializer; memory-mapped ones are read when the runtime does.
    """

    model: bytes
    weights: Mapping[str, np.ndarray[Any, Any]]


def detach(model: ir.Model, *, disposable: bool = False) -> Detached:
    """Take the larger weights of the main graph out; a model of any size fits into protobuf then.

    onnxruntime takes them as external initializers, which it treats as if they stood in the model.

    Args:
        disposable: nobody needs the model afterwards: it is changed, and not copied, which takes as long as the rest.
    """
    if (model.ir_version or 0) < _FIRST_IR_WITHOUT_LISTING:
        return Detached(serialize(model), {})
    copy = without_annotations(model, disposable=disposable)
    weights: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in copy.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.nbytes <= _LARGER_BYTES or tensor.dtype not in _NATIVE:
            continue
        # onnxruntime drops what nobody reads before it looks for the array that it is given for it.
        if is_constant(value) and value.uses() and not value.is_graph_output():
            array = tensor.numpy()
            weights[name] = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
            value.const_value = _named_only(tensor, name)
    return Detached(encoded(copy), weights)


def _named_only(tensor: ir.TensorProtocol, name: str) -> ir.ExternalTensor:
    return ir.ExternalTensor("nowhere", 0, tensor.nbytes, tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=name)

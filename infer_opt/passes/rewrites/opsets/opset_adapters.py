"""Raising the opset: what each operator's new version wants, by a table.

Only operators whose attributes, inputs or meaning changed are listed; for all others a newer opset only admits more
dtypes. Source: the operator changelog of the ONNX specification, versions 7 to 20.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.errors import InputError
from infer_opt.passes.rewrites.opsets.softmax_axis import along_one_axis

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ADAPTERS", "NEWEST", "Adapter"]

NEWEST = 20  # the opset this table reaches

Adapter = "Callable[[ir.Node, ir.Names], bool]"


def _add_input(node: ir.Node, index: int, array: np.ndarray[Any, Any] | None, names: ir.Names) -> None:
    """Put a constant into an input slot; None leaves the slot empty."""
    if len(node.inputs) <= index:
        node.resize_inputs(index + 1)
    if array is None:
        return
    assert node.graph is not None  # noqa: S101 - adapters run on nodes of a graph
    name = names.fresh(f"{node.name}_input_{index}")
    value = ir.add_initializer(node.graph, name, array)
    node.replace_input_with(index, value)


def _attribute_to_input(attribute: str, index: int) -> Callable[[ir.Node, ir.Names], bool]:
    def adapt(node: ir.Node, names: ir.Names) -> bool:
        if attribute not in node.attributes:
            return False
        value = ir.attribute(node, attribute)
        _add_input(node, index, np.asarray(list(value), np.int64), names)
        del node.attributes[attribute]
        return True

    return adapt


def _float_dtype(node: ir.Node) -> Any:
    source = node.inputs[0]
    return np.float32 if source is None or source.dtype is None else ir.numpy_dtype(source)


def _clip(node: ir.Node, names: ir.Names) -> bool:
    for index, attribute in ((1, "min"), (2, "max")):
        if attribute in node.attributes:
            _add_input(node, index, np.asarray(ir.attribute(node, attribute), _float_dtype(node)), names)
            del node.attributes[attribute]
    return True


def _pad(node: ir.Node, names: ir.Names) -> bool:
    _add_input(node, 1, np.asarray(list(ir.attribute(node, "pads")), np.int64), names)
    _add_input(node, 2, np.asarray(ir.attribute(node, "value", 0.0), _float_dtype(node)), names)
    for attribute in ("pads", "value"):
        node.attributes.pop(attribute, None)
    return True


def _slice(node: ir.Node, names: ir.Names) -> bool:
    for index, attribute in ((1, "starts"), (2, "ends"), (3, "axes")):
        if attribute in node.attributes:
            _add_input(node, index, np.asarray(list(ir.attribute(node, attribute)), np.int64), names)
            del node.attributes[attribute]
    return True


def _top_k(node: ir.Node, names: ir.Names) -> bool:
    _add_input(node, 1, np.asarray([ir.attribute(node, "k")], np.int64), names)
    del node.attributes["k"]
    return True


def _dropout(node: ir.Node, names: ir.Names) -> bool:
    del names
    if any(mask.uses() or mask.is_graph_output() for mask in node.outputs[1:]):
        raise InputError(
            f"node `{node.name}`: the mask of Dropout is read, and was not defined before opset 12",
            "export the model again with opset 13 or newer",
        )
    return node.attributes.pop("ratio", None) is not None


def _upsample(node: ir.Node, names: ir.Names) -> bool:
    """Upsample (7, 9) and Resize 10 take `(x, scales)`; Resize 11 takes `(x, roi, scales)` and a coordinate rule.

    The old operators map an output index i to i / scale. For nearest, Upsample rounds that down; what Resize 10 does
    the specification leaves open, and onnxruntime rounds down along axes that grow, up along axes that shrink.
    """
    scales = node.inputs[1] if len(node.inputs) > 1 else None
    attribute = node.attributes.pop("scales", None)
    shrinks = node.op_type == "Resize" and _all_at_most_one(scales)
    node.op_type = "Resize"
    node.resize_inputs(3)
    node.replace_input_with(1, None)
    if scales is not None:
        node.replace_input_with(2, scales)
    elif attribute is not None:
        _add_input(node, 2, np.asarray(list(attribute.value), np.float32), names)
    mode = ir.attribute(node, "mode", "nearest")
    node.attributes.add(ir.AttrString("mode", "linear" if mode in {"linear", "bilinear"} else mode))
    node.attributes.add(ir.AttrString("coordinate_transformation_mode", "asymmetric"))
    node.attributes.add(ir.AttrString("nearest_mode", "ceil" if shrinks else "floor"))
    return True


def _all_at_most_one(scales: ir.Value | None) -> bool:
    found = ir.constant(scales)
    maker = scales.producer() if scales is not None else None
    if maker is not None and maker.op_type == "Constant" and "value" in maker.attributes:
        found = maker.attributes["value"].as_tensor().numpy()
    return found is not None and bool((found <= 1).all())


def _batch_normalization(node: ir.Node, names: ir.Names) -> bool:
    del names
    if not ir.attribute(node, "spatial", 1):
        raise InputError(
            f"node `{node.name}`: BatchNormalization with spatial=0, one mean for each element, ended with opset 8",
            "export the model again with opset 13 or newer",
        )
    return node.attributes.pop("spatial", None) is not None


def _scatter(node: ir.Node, names: ir.Names) -> bool:
    del names
    node.op_type = "ScatterElements"
    return True


def _batch_statistics(node: ir.Node, names: ir.Names) -> bool:
    """Before 14, outputs behind the first, read or not, meant training; since then an attribute does.

    Of the four that there were, the last two are gone.
    """
    del names
    if any(value.uses() or value.is_graph_output() for value in node.outputs[3:]):
        raise InputError(
            f"node `{node.name}`: the saved statistics of BatchNormalization are read, and ended with opset 13",
            "export the model again in inference mode",
        )
    if len(node.outputs) == 1:
        return False
    training = any(value.name for value in node.outputs[1:])
    node.resize_outputs(3 if training else 1)
    if training:
        node.attributes.add(ir.AttrInt64("training_mode", 1))
    return True


def _roi_align(node: ir.Node, names: ir.Names) -> bool:
    """Version 16 moved the default by half a pixel; the old one has a name since."""
    del names
    if "coordinate_transformation_mode" in node.attributes:
        return False
    node.attributes.add(ir.AttrString("coordinate_transformation_mode", "output_half_pixel"))
    return True


def _split(node: ir.Node, names: ir.Names) -> bool:
    """Version 18 wants either the sizes or the number of parts."""
    del names
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return False
    node.attributes.add(ir.AttrInt64("num_outputs", len(node.outputs)))
    return True


def _grid_sample(node: ir.Node, names: ir.Names) -> bool:
    del names
    mode = ir.attribute(node, "mode", "bilinear")
    node.attributes.add(ir.AttrString("mode", {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)))
    return True


def _dft(node: ir.Node, names: ir.Names) -> bool:
    """The axis became an input, and its default another."""
    _add_input(node, 2, np.asarray(ir.attribute(node, "axis", 1), np.int64), names)
    node.attributes.pop("axis", None)
    return True


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

# (operator, the opset that changed it) -> what to do with a node written for an older one
ADAPTERS: dict[tuple[str, int], Callable[[ir.Node, ir.Names], bool]] = {
    ("BatchNormalization", 9): _batch_normalization,
    ("Upsample", 10): _upsample,
    ("Resize", 11): _upsample,
    ("Slice", 10): _slice,
    ("TopK", 10): _top_k,
    ("Clip", 11): _clip,
    ("Pad", 11): _pad,
    ("Scatter", 11): _scatter,
    ("Dropout", 12): _dropout,
    ("Softmax", 13): along_one_axis,
    ("LogSoftmax", 13): along_one_axis,
    ("Hardmax", 13): along_one_axis,
    ("Squeeze", 13): _attribute_to_input("axes", 1),
    ("Unsqueeze", 13): _attribute_to_input("axes", 1),
    ("ReduceSum", 13): _attribute_to_input("axes", 1),
    ("Split", 13): _attribute_to_input("split", 1),
    ("BatchNormalization", 14): _batch_statistics,
    ("RoiAlign", 16): _roi_align,
    ("Split", 18): _split,
    ("GridSample", 20): _grid_sample,
    ("DFT", 20): _dft,
    **{(f"Reduce{kind}", 18): _attribute_to_input("axes", 1) for kind in _REDUCTIONS},
}

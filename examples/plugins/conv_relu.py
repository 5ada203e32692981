"""A plugin: Conv and Relu become one custom operator, for a device that has a kernel for the pair.

    infer-opt compile model.onnx --target t4 --plugin examples/plugins/conv_relu.py

The reference says what the custom operator computes, so that the result can be verified on a host without the kernel.
"""

from __future__ import annotations

from infer_opt import ir
from infer_opt.passes import Decline, fusion_pattern

OPERATOR = "my.ops::ConvRelu"


def has_weight(match):
    """Only a Conv with a constant weight: the kernel packs it when the model is loaded."""
    conv = match.node("conv")
    if not ir.is_constant(conv.inputs[1]):
        raise Decline(f"the weight of `{conv.name}` is not a constant")
    return conv


def to_conv_relu(op, match, conv):
    """The pair as one node, with the Conv's inputs and attributes."""
    del match
    return op.node("ConvRelu", conv.inputs, conv.attributes, domain="my.ops")


@fusion_pattern("Conv and Relu to my.ops", root="Relu", check=has_weight, replacement=to_conv_relu)
def conv_relu(op, x):
    """What to look for: a Relu that reads a Conv, and is its only reader."""
    return op.Relu(op.Conv(x, _allow_other_inputs=True, _outputs=["conv"]))


def reference(op, inputs, attributes):
    """What my.ops::ConvRelu computes, in standard operators."""
    return op.node("Relu", [op.node("Conv", inputs, attributes)])


ir.register_reference(OPERATOR, reference)

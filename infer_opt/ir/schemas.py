"""What the ONNX standard knows: operators and opsets."""

from __future__ import annotations

import onnx

__all__ = ["latest_ir_version", "latest_opset", "operator_known"]


def latest_opset() -> int:
    """The newest opset of the default domain that the installed onnx package knows."""
    return int(onnx.defs.onnx_opset_version())


def latest_ir_version() -> int:
    """The newest IR version that the installed onnx package knows."""
    return int(onnx.IR_VERSION)


def operator_known(op_type: str, domain: str) -> bool:
    """Whether the ONNX standard (any of its domains) has this operator."""
    return bool(onnx.defs.has(op_type, domain))

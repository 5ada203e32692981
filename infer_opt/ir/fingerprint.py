"""Fingerprints: equal exactly when two models hold the same content."""

from __future__ import annotations

import hashlib

import onnx_ir as ir

from infer_opt.ir.constants import content_bytes
from infer_opt.ir.edit import all_graphs
from infer_opt.ir.text import text

__all__ = ["fingerprint"]


def fingerprint(model: ir.Model) -> str:
    """SHA-256 (hexadecimal) over graph, opsets and weights; producer and metadata do not count.

    Weights are read one at a time, so a model larger than memory can be fingerprinted.
    """
    digest = hashlib.sha256(text(model, weights=False).encode())
    for graph in all_graphs(model):
        for name, value in graph.initializers.items():
            digest.update(name.encode())
            if value.const_value is not None:
                digest.update(content_bytes(value.const_value))
        for node in graph:
            digest.update(f"{node.name}\n".encode())
            for _, attr in sorted(node.attributes.items()):
                if attr.type == ir.AttributeType.TENSOR:
                    digest.update(content_bytes(attr.as_tensor()))
    return digest.hexdigest()

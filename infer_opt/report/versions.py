"""Versions of what took part in a result, for manifests, `doctor` and reproducers."""

from __future__ import annotations

import importlib.metadata
import platform

import infer_opt

__all__ = ["version", "versions"]

_PACKAGES = ("onnx", "onnx-ir", "onnxscript", "onnxruntime", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Versions of Python, of infer-opt, and of the packages that decide what is in an artifact."""
    found = {name: version(name) or "missing" for name in _PACKAGES}
    return {"python": platform.python_version(), "infer-opt": infer_opt.__version__, **found}


def version(package: str) -> str | None:
    """The version of an installed package, by the name it is installed under, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None

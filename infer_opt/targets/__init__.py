"""Backends: one file each, found by their file. `create` binds one to a hardware profile."""

from __future__ import annotations

from infer_opt.targets.host import host_isa
from infer_opt.targets.registry import backends, create

__all__ = ["backends", "create", "host_isa"]

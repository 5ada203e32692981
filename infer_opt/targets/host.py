"""What this host's CPU can do, in the words of the profiles."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["host_isa"]

# Where Linux has another name for an extension than profiles use, which is the vendor's.
_VENDOR_NAMES = {"asimd": "neon", "asimdhp": "fp16", "asimddp": "dotprod"}


@cache
def host_isa() -> frozenset[str]:
    """Instruction-set extensions of this host; none where it is not Linux."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return frozenset()
    for line in cpuinfo.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"flags", "Features"}:
            return frozenset(_VENDOR_NAMES.get(name, name) for name in value.split())
    return frozenset()

"""What this host's CPU can do, in the words of the profiles."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infer_opt.profiles import Profile

__all__ = ["host_isa", "unlike_host"]

# Where Linux has another name for an extension than profiles use, which is the vendor's.
_VENDOR_NAMES = {"asimd": "neon", "asimdhp": "fp16", "asimddp": "dotprod"}

# Extensions by which onnxruntime picks other INT8 kernels than without them (its core/mlas/lib/platform.cpp). AVX-512
# alone is none of them: its kernels differ from those of AVX2 in width only.
_INT8_GROUPS = {
    "vnni": frozenset({"avx512_vnni", "avx_vnni"}),
    "amx": frozenset({"amx_int8"}),
    "dotprod": frozenset({"dotprod"}),
    "i8mm": frozenset({"i8mm"}),
    "sve": frozenset({"svei8mm"}),
}


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


def unlike_host(profile: Profile) -> str | None:
    """Why this host's CPU runs other kernels than a profile's, in words; None where it runs the same.

    A profile that names no extension says nothing of its CPU, and is taken for this host's.
    """
    if profile.arch is not None and profile.arch.replace("-", "_") != platform.machine():
        return f"the profile is for {profile.arch}, this host is {platform.machine()}"
    host, named = host_isa(), frozenset(profile.isa)
    missing = [name for name in profile.isa if name not in host]
    if missing:
        return f"this host's CPU lacks {', '.join(missing)}"
    more = [name for name, group in _INT8_GROUPS.items() if host & group and not named & group]
    if named and more:
        return f"this host's CPU has {', '.join(more)}, which the profile lacks: its INT8 kernels differ"
    return None

"""The device that the tests compile for where latency has to count: one whose INT8 kernels this host has."""

from __future__ import annotations

from pathlib import Path

from infer_opt import profiles, targets
from infer_opt.profiles import Profile

ANY_CPU = Path(__file__).parents[1] / "examples" / "ci" / "runner.toml"


def load(target: str) -> Profile:
    """The profile that `--target` names."""
    return profiles.load(target, backends=targets.backends())


def target_here() -> str:
    """`--target` of a shipped profile that this host can time, or else of one that names no certain CPU."""
    fitting = (name for name in profiles.names() if targets.create(load(name)).timed_here() is None)
    return next(fitting, str(ANY_CPU))

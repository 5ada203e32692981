"""Hardware profiles: one TOML file per device and per hardware revision, read into frozen data."""

from __future__ import annotations

from infer_opt.profiles.loading import check, load, names
from infer_opt.profiles.problems import Problem
from infer_opt.profiles.schema import (
    ActivationType,
    Confidence,
    Cutoffs,
    Dialect,
    HostCheck,
    OpsetRange,
    Peak,
    Precision,
    Profile,
    Runtime,
)
from infer_opt.profiles.tables import to_table

__all__ = [
    "ActivationType",
    "Confidence",
    "Cutoffs",
    "Dialect",
    "HostCheck",
    "OpsetRange",
    "Peak",
    "Precision",
    "Problem",
    "Profile",
    "Runtime",
    "check",
    "load",
    "names",
    "to_table",
]

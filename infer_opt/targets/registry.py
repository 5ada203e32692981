"""Finding backends: a module in `infer_opt/targets/` that defines BACKEND and `create` is its registration."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infer_opt.calibrate.target import Target
    from infer_opt.profiles import Profile

__all__ = ["backends", "create"]


@cache
def backends() -> dict[str, str]:
    """Backend names and the modules that define them. Nothing is imported: some need a vendor's SDK."""
    found: dict[str, str] = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id="BACKEND")], value=ast.Constant(value=str(name))):
                    found[name] = path.stem
    return found


def create(profile: Profile) -> Target:
    """The backend a profile names, bound to the profile."""
    module = importlib.import_module(f"infer_opt.targets.{backends()[profile.backend]}")
    target: Target = module.create(profile)
    return target

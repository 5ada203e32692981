"""Users' own rewrites and passes: registered by decorators in a file or module that `--plugin` names.

A plugin is ordinary Python. Importing it runs it, so only plugins that a user names, or has installed, are loaded.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from typing import Any

from infer_opt import ir
from infer_opt.calibrate.user_code import load_module, running_user_code
from infer_opt.passes.engine.base import Pass
from infer_opt.passes.engine.rules import Builder, Match, Rule

__all__ = [
    "fusion_pattern",
    "load_installed_plugins",
    "load_plugin",
    "register_pass",
    "registered_passes",
    "registered_rules",
]

ENTRY_POINTS = "infer_opt.plugins"
_CONTRACT = "a plugin registers fusion patterns and passes"

Pattern = Callable[..., Any]

_RULES: dict[str, Rule] = {}
_PASSES: dict[str, type[Pass]] = {}


class _PluginRule(Rule):
    """A rule made of three functions."""

    def __init__(
        self,
        name: str,
        root: str,
        functions: tuple[Pattern, Callable[[Match], Any] | None, Callable[[Builder, Match, Any], ir.Value]],
        *,
        commutes: bool,
        opset: int,
    ) -> None:
        self.name, self.root, self.commutes, self.opset = name, root, commutes, opset
        self._pattern, self._check, self._replacement = functions

    @property
    def pattern(self) -> Pattern:
        return self._pattern

    def check(self, match: Match) -> Any:
        return None if self._check is None else self._check(match)

    def rewrite(self, op: Builder, match: Match, facts: Any) -> ir.Value:
        return self._replacement(op, match, facts)


def fusion_pattern(
    name: str,
    *,
    root: str,
    replacement: Callable[[Builder, Match, Any], ir.Value],
    check: Callable[[Match], Any] | None = None,
    commutes: bool = False,
    opset: int = 1,
) -> Callable[[Pattern], Pattern]:
    """Register a pattern for `fuse`; it is tried before the rules that come with infer-opt.

    Used as a decorator of the pattern: a function whose first parameter makes operators, and whose others bind values::

        @fusion_pattern("Conv and Relu", root="Relu", replacement=to_conv_relu)
        def conv_relu(op, x, w):
            return op.Relu(op.Conv(x, w, _outputs=["y"]))

    Args:
        name: for reports; a second pattern of the same name replaces the first.
        root: operator of the pattern's last node.
        replacement: builds what stands instead, from the builder, the match, and what `check` returned.
        check: may raise `Decline(reason)`; what it returns goes to `replacement`.
        commutes: whether the inputs of Add and Mul may stand in either order.
        opset: the opset of the standard that the replacement needs.
    """

    def register(pattern: Pattern) -> Pattern:
        _RULES[name] = _PluginRule(name, root, (pattern, check, replacement), commutes=commutes, opset=opset)
        return pattern

    return register


def register_pass(kind: type[Pass]) -> type[Pass]:
    """Register a pass under its `name`, for `--pipeline`. Used as a decorator of the class."""
    _PASSES[kind.name] = kind
    return kind


def registered_rules() -> tuple[Rule, ...]:
    """Patterns of all plugins, in the order of registration."""
    return tuple(_RULES.values())


def registered_passes() -> dict[str, type[Pass]]:
    """Passes of all plugins by name."""
    return dict(_PASSES)


def load_plugin(source: str) -> None:
    """Import a plugin: a path that ends in `.py`, or the name of a module.

    Raises:
        InputError: it is not there, or its code raises; file and line are named.
    """
    if source.endswith(".py"):
        load_module(source, _CONTRACT)
        return
    with running_user_code(source, _CONTRACT):
        importlib.import_module(source)


def load_installed_plugins() -> None:
    """Import the plugins that installed packages declare in the entry-point group `infer_opt.plugins`."""
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        load_plugin(entry.module)

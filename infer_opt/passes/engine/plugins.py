"""Users' own rewrites and passes: how they are registered, and how what they raise is reported."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, Literal

from onnxscript.rewriter.pattern import MatchResult, RewriteRule

from infer_opt import ir
from infer_opt.errors import InputError, place_of, running_user_code
from infer_opt.passes.engine.base import Outcome, Pass
from infer_opt.passes.engine.rules import Builder, Decline, Match, Rule, try_pattern

__all__ = [
    "apply_pass",
    "fusion_pattern",
    "illegal",
    "register_pass",
    "registered_passes",
    "registered_rules",
]

_PATTERN = "a pattern calls operators on its first parameter, and returns what the last of them gave"
_CHECK = "a check returns facts for the replacement, or raises Decline(reason)"
_REPLACEMENT = "a replacement takes (op, match, facts) and returns the value of its last op.node()"
_APPLY = "a pass changes the model in place and returns an Outcome"

_NAME = re.compile(r"[A-Za-z_][\w-]*")
_OPTIONS = (bool, int, float, str)

Pattern = Callable[..., Any]

_RULES: dict[str, Rule] = {}
_PASSES: dict[str, type[Pass]] = {}


class _PluginRule(Rule):
    """A rule made of three functions of the user's."""

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
        @functools.wraps(self._pattern)
        def ending_in_root(*arguments: Any) -> Any:
            output = self._pattern(*arguments)
            _require_root(output, self.root)
            return output

        return ending_in_root

    def match(self, matcher: RewriteRule, model: ir.Model, graph: ir.Graph, node: ir.Node) -> MatchResult | None:
        with running_user_code(self._pattern, _PATTERN):  # operators of a pattern may carry checks of their own
            return matcher.match(model, graph, node)

    def check(self, match: Match) -> Any:
        if self._check is None:
            return None
        with running_user_code(self._check, _CHECK, (Decline,)):
            return self._check(match)

    def rewrite(self, op: Builder, match: Match, facts: Any) -> ir.Value:
        with running_user_code(self._replacement, _REPLACEMENT):
            output = self._replacement(op, match, facts)
        return op.result(output, self._replacement, _REPLACEMENT)


def _require_root(output: Any, root: str) -> None:
    """A pattern that ends in anything but its root would never be tried, without a word.

    Raises:
        TypeError, ValueError: it does.
    """
    maker = getattr(output, "producer", lambda: None)()
    if maker is None:
        message = f"the pattern returns {type(output).__name__}, and not what an operator gave"
        raise TypeError(message)
    domain, last, _ = maker.op_identifier() or ("?", str(maker.op_type), "")
    if domain or last != root:
        ends = f"{domain}::{last}" if domain else last
        message = f"the pattern ends in `{ends}`, not in the root `{root}` of the standard"
        raise ValueError(message)


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

    Raises:
        TypeError, ValueError: when the decorator is applied: the pattern does not end in `root`.
    """

    def register(pattern: Pattern) -> Pattern:
        rule = _PluginRule(name, root, (pattern, check, replacement), commutes=commutes, opset=opset)
        try_pattern(rule)
        _RULES[name] = rule
        return pattern

    return register


def register_pass(kind: type[Pass]) -> type[Pass]:
    """Register a pass under its `name`, for `--pipeline`. Used as a decorator of the class.

    Raises:
        TypeError, ValueError: it is no pass that a pipeline can name and make.
    """
    if not (inspect.isclass(kind) and issubclass(kind, Pass)) or inspect.isabstract(kind):
        message = f"`{getattr(kind, '__name__', kind)}` is no Pass with a method `apply`"
        raise TypeError(message)
    if not _NAME.fullmatch(getattr(kind, "name", "")):
        message = f"pass `{kind.__name__}` needs a `name: ClassVar[str]` of letters, digits, `_` and `-`"
        raise ValueError(message)
    if kind.stage != "graph":
        message = f"pass `{kind.name}` has the stage `{kind.stage}`; passes of plugins change the graph"
        raise ValueError(message)
    types = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if field.default is dataclasses.MISSING:
            message = f"option `{field.name}` of pass `{kind.name}` has no default"
            raise TypeError(message)
        if types[field.name] not in _OPTIONS and typing.get_origin(types[field.name]) is not Literal:
            message = f"option `{field.name}` of pass `{kind.name}` is no bool, int, float, str or Literal"
            raise TypeError(message)
    _PASSES[kind.name] = kind
    return kind


def registered_rules() -> tuple[Rule, ...]:
    """Patterns of all plugins, in the order of registration."""
    return tuple(_RULES.values())


def registered_passes() -> dict[str, type[Pass]]:
    """Passes of all plugins by name."""
    return dict(_PASSES)


def apply_pass(item: Pass, model: ir.Model) -> Outcome:
    """Let a pass change a model.

    Raises:
        InputError: a pass of a plugin raised something, or returned no Outcome; file and line are named.
    """
    if not _is_of_plugin(item):
        return item.apply(model)
    function = type(item).apply
    with running_user_code(function, _APPLY):
        outcome: object = item.apply(model)
    if not isinstance(outcome, Outcome):
        raise InputError(
            f"{place_of(function)}: it returned {type(outcome).__name__}, and no Outcome", f"correct the code; {_APPLY}"
        )
    return outcome


def illegal(item: Pass, outcome: Outcome, fault: str) -> Exception:
    """The error for a pass that broke the model: a bug of ours, unless code of a plugin took part."""
    fired = sorted({change.rule for change in outcome.changes} & _RULES.keys())
    if _is_of_plugin(item):
        return InputError(f"{place_of(type(item).apply)}: {fault}", f"correct the code; {_APPLY}")
    if fired:
        patterns = ", ".join(f"`{name}`" for name in fired)
        return InputError(f"{fault}; patterns of plugins that fired: {patterns}", f"correct them; {_REPLACEMENT}")
    return ir.IllegalModelError(fault)


def _is_of_plugin(item: Pass) -> bool:
    return item.name in _PASSES

"""The rule engine: pattern, check, rewrite, and the one walk that applies tables of rules.

Matching is onnxscript's (`onnxscript.rewriter`); the walk is ours, because it has to index rules by operator once, take
fresh names, reach subgraphs, and record where each new node came from.
"""

from __future__ import annotations

import abc
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnxscript.rewriter.pattern import RewriteRule

from infer_opt import ir
from infer_opt.passes.engine.base import Change, Miss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


Builder = ir.GraphBuilder

__all__ = ["Builder", "Decline", "Match", "Rule", "apply_rules"]

_NEAR_MISS_NODES = 2  # a pattern that matched this many nodes before it failed is worth a line in `--explain`


class Decline(Exception):  # noqa: N818 - it is an answer of a rule's check, not an error
    """A rule's check says no; the text says why."""


@dataclass(frozen=True)
class Match:
    """What a pattern was matched to: values by the names used in the pattern, and the nodes that would go."""

    values: Mapping[str, ir.Value]
    nodes: Sequence[ir.Node]
    root: ir.Node

    def __getitem__(self, name: str) -> ir.Value:
        return self.values[name]

    def node(self, name: str) -> ir.Node:
        """The node that makes a value of the pattern."""
        maker = self.values[name].producer()
        assert maker is not None  # noqa: S101 - only outputs of matched nodes are asked for
        return maker


class Rule(abc.ABC):
    """One rewrite. `pattern` looks like the operators it matches, `check` decides, `rewrite` builds.

    What `check` learns is its return value and is handed to `rewrite`: a rule holds no state. The class docstring
    states the algebra.
    """

    name: str
    root: str
    """Operator of the pattern's last node."""
    opset: int = 1
    """The opset that brought what `rewrite` builds; a model of an older one keeps what it has."""
    commutes: bool = False
    """Whether the inputs of Add and Mul may stand in either order."""

    @property
    @abc.abstractmethod
    def pattern(self) -> Callable[..., Any]:
        """The operators to match, as calls on its first parameter; the names of the others bind values."""

    @abc.abstractmethod
    def check(self, match: Match) -> Any:
        """Facts for `rewrite`; raises Decline with the reason where the rewrite would not be exact."""

    @abc.abstractmethod
    def rewrite(self, op: Builder, match: Match, facts: Any) -> ir.Value:
        """Build the replacement and return the value that stands for the pattern's output."""


@dataclass(frozen=True)
class _Compiled:
    rule: Rule
    matcher: RewriteRule


def apply_rules(model: ir.Model, rules: Sequence[Rule]) -> Iterator[Change | Miss]:
    """Walk every graph once, in order, and apply the first rule that fires at each node.

    Time is linear in the nodes: rules are indexed by the operator of their last node.
    """
    table: dict[str, list[_Compiled]] = defaultdict(list)
    for rule in (rule for rule in rules if rule.opset <= model.opset_imports.get("", 1)):
        table[rule.root] += [_Compiled(rule, matcher) for matcher in _matchers(rule)]
    names = ir.Names(model)
    for graph in model.graphs():
        for node in graph:
            for compiled in table.get(node.op_type, []) if not node.domain else []:
                result = _try(model, graph, node, compiled, names)
                if result is not None:
                    yield result
                if isinstance(result, Change):
                    break


def _matchers(rule: Rule) -> Sequence[RewriteRule]:
    matcher = RewriteRule(rule.pattern, _no_replacement, name=rule.name)
    return matcher.commute() if rule.commutes else [matcher]


def _no_replacement(op: object, **_: object) -> None:
    """Only onnxscript's matcher is used; what stands instead is built by `Rule.rewrite`."""
    del op


def _try(model: ir.Model, graph: ir.Graph, node: ir.Node, compiled: _Compiled, names: ir.Names) -> Change | Miss | None:
    found = compiled.matcher.match(model, graph, node)
    if not found:
        near = found is not None and len(found.nodes) >= _NEAR_MISS_NODES
        return Miss(compiled.rule.name, str(node.name), found.reason) if near and found is not None else None
    bound = {name: value for name, value in found.bindings.items() if isinstance(value, ir.Value)}
    match = Match(bound, list(found.nodes), node)
    try:
        facts = compiled.rule.check(match)
    except Decline as reason:
        return Miss(compiled.rule.name, str(node.name), str(reason))
    builder = Builder(graph, names)
    output = compiled.rule.rewrite(builder, match, facts)
    return _replace(model, graph, match, builder, output, compiled.rule)


def _replace(model: ir.Model, graph: ir.Graph, match: Match, builder: Builder, output: ir.Value, rule: Rule) -> Change:
    ordered = sorted(match.nodes, key=lambda node: node is match.root)
    old_names = {node.op_type: node.name for node in ordered}
    for made in builder.nodes:
        ir.set_origin(made, ordered)
        made.name = old_names.get(made.op_type, match.root.name)
    change = Change(rule.name, tuple(dict.fromkeys(name for node in ordered for name in ir.origin(node))))
    ir.replace_nodes(graph, ordered, match.root.outputs[0], builder.nodes, output)
    for made in builder.nodes:
        model.opset_imports.setdefault(made.domain, 1)
    return change

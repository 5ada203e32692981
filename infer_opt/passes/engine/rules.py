"""The rule engine: pattern, check, rewrite, and the one walk that applies tables of rules.

Matching is onnxscript's (`onnxscript.rewriter`); the walk is ours, because it has to index rules by operator once, take
fresh names, reach subgraphs, and record where each new node came from.
"""

from __future__ import annotations

import abc
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from onnxscript.rewriter._pattern_ir import StringConstantPattern
from onnxscript.rewriter.pattern import MatchResult, RewriteRule

from infer_opt import ir
from infer_opt.passes.engine.base import Change, Miss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


Builder = ir.GraphBuilder

__all__ = ["Builder", "Decline", "Match", "Rule", "apply_rules", "try_pattern"]


class Decline(Exception):  # noqa: N818 - it is an answer of a rule's check, not an error
    """A rule's check says no; the text says why."""


@dataclass(frozen=True)
class Match:
    """What a pattern was matched to: values by the names used in the pattern, and the nodes that would go."""

    values: Mapping[str, ir.Value]
    nodes: Sequence[ir.Node]
    root: ir.Node

    def __getitem__(self, name: str) -> ir.Value:
        if name not in self.values:
            message = f"the match has no value `{name}`, but {', '.join(self.values) or 'none at all'}"
            raise LookupError(message)
        return self.values[name]

    def node(self, name: str) -> ir.Node:
        """The node that makes a value of the pattern."""
        maker = self[name].producer()
        if maker is None:
            message = f"no node makes `{name}`: it is an input or a constant"
            raise LookupError(message)
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
    makes: str = ""
    """The operator that the rewrite introduces, `DOMAIN::OP` outside the standard, where a backend may not want it."""
    on_request: bool = False
    """Whether the operator that it makes has to be asked for; those outside the standard always have to be."""
    near: int = 2
    """A rule whose pattern matched this many nodes before it failed is worth a line in `--explain`."""

    @property
    @abc.abstractmethod
    def pattern(self) -> Callable[..., Any]:
        """The operators to match, as calls on its first parameter; the names of the others bind values."""

    def match(self, matcher: RewriteRule, model: ir.Model, graph: ir.Graph, node: ir.Node) -> MatchResult | None:
        """What `matcher`, made of the pattern, finds at a node."""
        return matcher.match(model, graph, node)

    @abc.abstractmethod
    def check(self, match: Match) -> Any:
        """Facts for `rewrite`; raises Decline with the reason where the rewrite would not be exact."""

    @abc.abstractmethod
    def rewrite(self, op: Builder, match: Match, facts: Any) -> ir.Value:
        """Build the replacement and return the value that stands for the pattern's output."""


@dataclass(frozen=True)
class _Compiled:
    """A rule with one of its matchers, and the operators that have to make inputs of the root for it to fit."""

    rule: Rule
    matcher: RewriteRule
    makers: tuple[tuple[int, str], ...]

    def may_fit(self, makers: Sequence[str | None]) -> bool:
        """A look at the operators before the root: most spellings fail there, and cost nothing then."""
        return all(index < len(makers) and makers[index] == op_type for index, op_type in self.makers)


def _makers_of(node: ir.Node) -> tuple[str | None, ...]:
    makers = (value.producer() if value is not None else None for value in node.inputs)
    return tuple(maker.op_type if maker is not None else None for maker in makers)


@dataclass(frozen=True)
class _Near:
    miss: Miss
    nodes: int  # that matched


def apply_rules(model: ir.Model, rules: Sequence[Rule]) -> Iterator[Change | Miss]:
    """Walk every graph once, in order, and apply the first rule that fires at each node.

    Time is linear in the nodes: rules are indexed by the operator of their last node, and then by those before it.
    """
    table: dict[str, list[_Compiled]] = defaultdict(list)
    for rule in (rule for rule in rules if rule.opset <= model.opset_imports.get("", 1)):
        table[rule.root] += _compiled(rule)
    fitting: dict[tuple[str, tuple[str | None, ...]], list[_Compiled]] = {}
    names = ir.Names(model)
    for graph in ir.all_graphs(model):
        for node in graph:
            if node.domain or node.op_type not in table:
                continue
            key = node.op_type, _makers_of(node)
            if key not in fitting:
                fitting[key] = [compiled for compiled in table[node.op_type] if compiled.may_fit(key[1])]
            if fitting[key]:
                yield from _first_that_fires(model, graph, node, fitting[key], names)


def _first_that_fires(
    model: ir.Model, graph: ir.Graph, node: ir.Node, rules: Sequence[_Compiled], names: ir.Names
) -> Iterator[Change | Miss]:
    """The change of one rule, or of each rule the miss that came nearest: spellings and swapped inputs miss by more."""
    nearest: dict[str, _Near] = {}
    for compiled in rules:
        result = _try(model, graph, node, compiled, names)
        if isinstance(result, Change):
            yield result
            return
        if result is not None:
            nearest[result.miss.rule] = max(nearest.get(result.miss.rule, result), result, key=lambda near: near.nodes)
    yield from (near.miss for near in nearest.values())


def try_pattern(rule: Rule) -> None:
    """Compile the pattern of a rule, so that what its code raises is raised where the rule is made."""
    _matchers(rule)


def _matchers(rule: Rule) -> Sequence[RewriteRule]:
    matcher = RewriteRule(rule.pattern, _no_replacement, name=rule.name)
    return matcher.commute() if rule.commutes else [matcher]


def _compiled(rule: Rule) -> tuple[_Compiled, ...]:
    """By identity: a rule of a plugin need not be hashable. The entry keeps the rule alive, and so its identity."""
    if id(rule) not in _COMPILED:
        _COMPILED[id(rule)] = tuple(_Compiled(rule, matcher, _makers(matcher)) for matcher in _matchers(rule))
    return _COMPILED[id(rule)]


_COMPILED: dict[int, tuple[_Compiled, ...]] = {}


def _makers(matcher: RewriteRule) -> tuple[tuple[int, str], ...]:
    # onnxscript has no public way to ask a rule for its pattern.
    inputs = matcher._target_pattern.output_node.inputs  # noqa: SLF001
    makers = [(index, value.producer()) for index, value in enumerate(inputs) if value is not None]
    return tuple(
        (index, maker.op.value())
        for index, maker in makers
        if maker is not None and isinstance(maker.op, StringConstantPattern)
    )


def _no_replacement(op: object, **_: object) -> None:
    """Only onnxscript's matcher is used; what stands instead is built by `Rule.rewrite`."""
    del op


def _try(
    model: ir.Model, graph: ir.Graph, node: ir.Node, compiled: _Compiled, names: ir.Names
) -> Change | _Near | None:
    found = compiled.rule.match(compiled.matcher, model, graph, node)
    if found is None:
        return None
    if not found:
        return _near(compiled.rule, node, found.nodes, found.reason)
    bound = {name: value for name, value in found.bindings.items() if isinstance(value, ir.Value)}
    match = Match(bound, list(found.nodes), node)
    try:
        facts = compiled.rule.check(match)
    except Decline as reason:
        near = _near(compiled.rule, node, match.nodes, str(reason))
        return near and replace(near, nodes=near.nodes + 1)  # nearer than a pattern that did not match
    builder = Builder(graph, names)
    output = compiled.rule.rewrite(builder, match, facts)
    return _replace(model, graph, match, builder, output, compiled.rule)


def _near(rule: Rule, node: ir.Node, matched: Sequence[ir.Node], reason: str) -> _Near | None:
    return _Near(Miss(rule.name, str(node.name), reason), len(matched)) if len(matched) >= rule.near else None


def _replace(model: ir.Model, graph: ir.Graph, match: Match, builder: Builder, output: ir.Value, rule: Rule) -> Change:
    ordered = sorted(match.nodes, key=lambda node: node is match.root)
    old_names = {node.op_type: node.name for node in ordered}
    taken: set[str] = set()
    for made in builder.nodes:
        ir.set_origin(made, ordered)
        wanted = str(old_names.get(made.op_type, match.root.name))
        made.name = builder.fresh(wanted) if wanted in taken else wanted
        taken.add(wanted)
    change = Change(rule.name, tuple(dict.fromkeys(name for node in ordered for name in ir.origin(node))))
    ir.replace_nodes(graph, ordered, match.root.outputs[0], builder.nodes, output)
    for made in builder.nodes:
        model.opset_imports.setdefault(made.domain, 1)
    return change

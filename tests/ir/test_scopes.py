"""Scopes: every graph once, outer ones first, by a name that says where it stands."""

from __future__ import annotations

from pathlib import Path

from infer_opt import ir
from tests.onnx_text import load

NESTED = """net (float[2] x, bool p, bool q, int64 n) => (float[2] y, float[2] z)
<float[2] k = {1, 2}>
{
  [outer] y = If(p) <
    then_branch = a () => (float[2] a_y) {
      [inner] a_y = If(q) <
        then_branch = b () => (float[2] b_y) <float[2] j = {3, 4}> { [deep] b_y = Mul(x, j) },
        else_branch = c () => (float[2] c_y) { c_y = Mul(x, k) }
      >
    },
    else_branch = d () => (float[2] d_y) { d_y = Neg(x) }
  >
  [turns] z = Loop(n, p, x) <
    body = e (int64 i, bool on, float[2] s) => (bool on_out, float[2] s_out) {
      on_out = Identity(on)
      [again] s_out = If(q) <
        then_branch = f () => (float[2] f_y) { f_y = Neg(s) },
        else_branch = g () => (float[2] g_y) { g_y = Abs(s) }
      >
    }
  >
}"""


def test_every_graph_by_its_place(tmp_path: Path) -> None:
    """The main graph has no name; others are called by node and attribute, in the order of the file."""
    found = list(ir.scopes(load(NESTED, tmp_path)))
    assert [scope.name for scope in found] == [
        None,
        *("outer/then_branch", "inner/then_branch", "inner/else_branch", "outer/else_branch"),
        *("turns/body", "again/then_branch", "again/else_branch"),
    ]
    by_name = {scope.name: scope for scope in found}
    assert [scope.name for scope in by_name["inner/then_branch"].outwards()] == [
        *("inner/then_branch", "outer/then_branch"),
        None,
    ]


def test_what_runs_in_turns_is_told_from_branches(tmp_path: Path) -> None:
    """A branch inside a Loop runs in turns too."""
    looped = {scope.name: scope.looped() for scope in ir.scopes(load(NESTED, tmp_path))}
    assert {name: None if scope is None else scope.name for name, scope in looped.items() if scope or name is None} == {
        None: None,
        "turns/body": "turns/body",
        "again/then_branch": "turns/body",
        "again/else_branch": "turns/body",
    }


def test_nodes_and_initializers_of_all_graphs(tmp_path: Path) -> None:
    """By name, each once."""
    model = load(NESTED, tmp_path)
    assert {"outer", "inner", "deep", "turns", "again"} <= ir.nodes(model).keys()
    assert len(ir.nodes(model)) == sum(len(graph) for graph in ir.all_graphs(model)) == 10
    assert ir.initializers(model).keys() == {"k", "j"}

"""Fresh names: free in the whole model, in time that does not grow with how many were asked for."""

from __future__ import annotations

from pathlib import Path

from infer_opt import ir
from tests.onnx_text import load

TEXT = """m (float[N] x, bool p) => (float[N] y) <float[1] w = {1}> {
    a = Add(x, w)
    y = If(p) <then_branch = g () => (float[N] t) <float[1] c = {1}> { t = Mul(a, c) },
               else_branch = h () => (float[N] e) { e = Neg(a) }> }"""


def test_a_free_name_is_given_as_it_is_and_then_taken(tmp_path: Path) -> None:
    """The second who asks gets a number."""
    names = ir.Names(load(TEXT, tmp_path))
    assert [names.fresh("new"), names.fresh("new"), names.fresh("new")] == ["new", "new_1", "new_2"]


def test_every_kind_of_name_is_taken(tmp_path: Path) -> None:
    """Inputs, outputs, initializers, inner values and nodes, those of branches too."""
    names = ir.Names(load(TEXT, tmp_path))
    taken = ["x", "y", "w", "a", "Add:a", "t", "c", "e", "Mul:t"]
    assert [names.fresh(name) for name in taken] == [f"{name}_1" for name in taken]


def test_a_numbered_name_that_is_taken_is_passed_over(tmp_path: Path) -> None:
    """However it came to be taken."""
    names = ir.Names(load("m (float[N] a, float[N] a_1) => (float[N] y) { y = Add(a, a_1) }", tmp_path))
    assert [names.fresh("a"), names.fresh("a"), names.fresh("a_1")] == ["a_2", "a_3", "a_1_1"]


def test_many_names_of_one_kind(tmp_path: Path) -> None:
    """Each is found at once: a hundred thousand take no time worth telling."""
    names = ir.Names(load(TEXT, tmp_path))
    given = {names.fresh("w") for _ in range(100_000)}
    assert len(given) == 100_000

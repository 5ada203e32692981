"""Values of branches: handed out where the branch is taken, absent where it is not, and observed only then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from infer_opt.calibrate.hoisting import Hoist, branches_taken
from infer_opt.calibrate.statistics import Statistics, collect
from tests.targets.networks import Feed, Feeds, Network, normal, run

# Both branches of both Ifs make values of their own; `late` is an output of its branch itself.
NETWORK = Network(
    """net (float[N,C] x, bool p, bool q) => (float[N,K] y) {
        [outer] y = If(p) <
          then_branch = a () => (float[N,K] a_y) {
            once = Mul(x, three)
            [inner] a_y = If(q) <
              then_branch = b () => (float[N,K] b_y) { deep = Neg(once) b_y = Relu(deep) },
              else_branch = c () => (float[N,K] c_y) { flat = Abs(once) c_y = Neg(flat) }
            >
          },
          else_branch = d () => (float[N,K] late) { gone = Mul(x, large) late = Mul(gone, large) }
        >
    }""",
    {"three": np.float32(3), "large": np.float32(1e25)},
)
DEEP, FLAT, LATE = "inner/then_branch", "inner/else_branch", "outer/else_branch"
VALUES = ["x", "once", "deep", "b_y", "flat", "gone", "late"]


def feed(p: int, q: int, seed: int = 0, rows: int = 2) -> Feed:
    """One sample that takes the branches for `p` and `q`, 1 or 0."""
    return {"x": normal(rows, 5, seed=seed, scale=0.1), "p": np.array(p, np.bool_), "q": np.array(q, np.bool_)}


def observed(feeds: list[Feed], folder: Path) -> Statistics:
    """Statistics of all values over some samples."""
    return collect(NETWORK.load(folder), VALUES, Feeds(feeds))


@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 0), (0, 1)])
def test_a_value_is_handed_out_from_any_depth(p: int, q: int, tmp_path: Path) -> None:
    """Whole where its branch runs, empty elsewhere; outputs of the model stay."""
    model = ir.clone(NETWORK.load(tmp_path))
    values = {value.name: value for node in ir.nodes(model).values() for value in node.outputs}
    hoist = Hoist(model, ir.Names(model))
    for name in ("deep", "b_y", "gone", "late"):
        hoist.output(values[name], name, np.zeros(0, np.float32))
    sample = feed(p, q)
    found = run(ir.serialize(model), sample)
    x = sample["x"]
    expected = (
        {"deep": -3 * x, "b_y": np.maximum(-3 * x, 0)} if p and q else {} if p else {"gone": x * np.float32(1e25)}
    )
    for name in ("deep", "b_y", "gone"):
        np.testing.assert_allclose(found[name], expected.get(name, np.zeros(0)), rtol=1e-6)
    assert found["late"].size == (0 if p else 10)
    np.testing.assert_array_equal(found["y"], NETWORK.run(sample)["y"])


def test_only_samples_that_take_a_branch_are_observed_in_it(tmp_path: Path) -> None:
    """Extremes and counts are those of these samples, by numpy; the others add nothing, not even a sample."""
    feeds = [feed(1, 1, 0), feed(1, 0, 1, rows=4), feed(1, 1, 2, rows=1), feed(1, 0, 3)]
    found = observed(feeds, tmp_path)
    once = [3 * sample["x"] for sample in feeds]
    truth = {"once": once, "deep": [-once[0], -once[2]], "flat": [np.abs(once[1]), np.abs(once[3])]}
    for name, values in truth.items():
        everything = np.concatenate(values)
        sketch = found.sketches[name]
        assert (sketch.minimum, sketch.maximum) == (everything.min(), everything.max()), name
        assert (sketch.count, sketch.samples) == (everything.size, len(values)), name
    assert found.first_samples == {"outer/then_branch": 0, DEEP: 0, FLAT: 1, LATE: None}
    assert found.never_taken == (LATE,)
    assert (found.sketches["gone"].samples, found.sketches["gone"].minimum) == (0, np.inf)


def test_infinities_inside_a_branch_are_counted(tmp_path: Path) -> None:
    """`late` overflows: the whole value is looked at, which is the branch's own output already."""
    found = observed([feed(0, 1, 0), feed(1, 1, 1), feed(0, 0, 2)], tmp_path)
    assert found.sketches["late"].infinities == 20
    assert (found.sketches["gone"].infinities, found.sketches["gone"].samples) == (0, 2)
    assert found.sketches["deep"].infinities == 0


def test_the_branches_that_samples_take(tmp_path: Path) -> None:
    """Over all samples together; a model without an If has none."""
    model = NETWORK.load(tmp_path)
    assert branches_taken(model, [feed(1, 0), feed(0, 1)]) == {"outer/then_branch", FLAT, LATE}
    straight = Network("net (float[2] x) => (float[2] y) { y = Neg(x) }").load(tmp_path)
    assert branches_taken(straight, [{"x": normal(2)}]) == set()


def test_a_branch_inside_a_loop_is_left_alone(tmp_path: Path) -> None:
    """It may be taken in one turn and not in the next."""
    network = Network(
        """net (float[2] x, bool p, int64 n) => (float[2] y) {
            [turns] y = Loop(n, p, x) <body = e (int64 i, bool on, float[2] s) => (bool on_out, float[2] s_out) {
                on_out = Identity(on)
                s_out = If(p) <then_branch = f () => (float[2] f_y) { f_y = Neg(s) },
                               else_branch = g () => (float[2] g_y) { g_y = Abs(s) }>
            }>
        }"""
    )
    sample = {"x": normal(2), "p": np.array(1, np.bool_), "n": np.array(3)}
    assert branches_taken(network.load(tmp_path), [sample]) == set()

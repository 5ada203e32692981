"""Sizes that are known only at run time: their arithmetic, which is that of products."""

from __future__ import annotations

import pytest

from infer_opt import ir
from infer_opt.passes.rewrites.shapes.sizes import ONE, Size, dimension, fixed, is_size, number, product, quotient

N, T = (dimension(ir.Value(name=name), 0) for name in ("n", "t"))


def test_products_do_not_depend_on_the_order() -> None:
    """Of numbers and dimensions, with a 0 that takes everything."""
    assert product([N, fixed(2), T, fixed(3)]) == product([fixed(6), T, N])
    assert product([N, fixed(0)]) == fixed(0)
    assert product([]) == ONE


@pytest.mark.parametrize(
    ("size", "by", "expected"),
    [
        (product([N, T, fixed(6)]), product([T, fixed(3)]), product([N, fixed(2)])),
        (product([N, N]), N, N),
        (N, N, ONE),
        (fixed(7), fixed(2), None),
        (N, T, None),
        (N, fixed(2), None),
        (N, fixed(0), None),
    ],
)
def test_quotients_have_no_fraction(size: Size, by: Size, expected: Size | None) -> None:
    """None where they would, for some input."""
    assert quotient(size, by) == expected


def test_what_is_a_number_and_what_cannot_be_negative() -> None:
    """A dimension cannot, an element of a vector can."""
    content: Size = (1, ((ir.Value(name="v"), 0, False),))
    assert [number(size) for size in (fixed(-1), N, content)] == [-1, None, None]
    assert [is_size(size) for size in (fixed(-1), fixed(0), N, content)] == [False, True, True, False]

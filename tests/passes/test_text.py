"""Pipelines as text: parsing and printing are inverse, and every slip is named with a hint."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_opt.errors import UsageError
from infer_opt.passes import Pipeline
from infer_opt.passes.fuse import Fuse
from infer_opt.passes.legalize import Legalize
from infer_opt.passes.quantize import Quantize
from infer_opt.passes.simplify import Simplify

GRAPH_PASSES = st.one_of(
    st.builds(Fuse, st.sampled_from(["", "Gelu", "Gemm+HardSwish"])),
    st.builds(Simplify, st.integers(0, 2**40)),
    st.builds(Legalize, st.integers(7, 30)),
)
PLAN_PASSES = st.builds(
    Quantize,
    st.sampled_from(["auto", "minmax", "percentile", "entropy", "mse"]),
    st.floats(50, 100, exclude_min=True),
)


@given(st.lists(GRAPH_PASSES, max_size=4), st.lists(PLAN_PASSES, max_size=2))
@settings(deadline=None, derandomize=True)
def test_what_is_printed_is_read_back(graph: list[Fuse | Simplify | Legalize], plan: list[Quantize]) -> None:
    """Every pass, with any options, to the last digit."""
    pipeline = Pipeline((*graph, *plan))
    assert Pipeline.parse(str(pipeline)) == pipeline


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("simplify", "simplify"),
        (" simplify , fuse ", "simplify,fuse"),
        ("simplify{}", "simplify"),
        ("simplify{fold_limit=65536}", "simplify"),
        ("simplify { fold_limit = 10 },quantize{ percentile=99.5 , method=percentile }", None),
        ("quantize{percentile=99.50}", "quantize{percentile=99.5}"),
    ],
)
def test_spaces_and_defaults_are_left_out_in_print(text: str, printed: str | None) -> None:
    """Options are printed in the order of the pass, those at their defaults not at all."""
    expected = "simplify{fold_limit=10},quantize{method=percentile,percentile=99.5}" if printed is None else printed
    assert str(Pipeline.parse(text)) == expected


WRITE_IT = "write it like `simplify,fuse,quantize{method=percentile}`"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("simplify,", "pipeline `simplify,` cannot be read at `,`", WRITE_IT),
        (",simplify", "pipeline `,simplify` cannot be read at `,simplify`", WRITE_IT),
        ("simplify,,fuse", "pipeline `simplify,,fuse` cannot be read at `,fuse`", WRITE_IT),
        ("simplify fuse", "pipeline `simplify fuse` cannot be read at `simplify fuse`", WRITE_IT),
        ("fuse,quantize{method", "pipeline `fuse,quantize{method` cannot be read at `quantize{method`", WRITE_IT),
        ("fuse{}}", "pipeline `fuse{}}` cannot be read at `fuse{}}`", WRITE_IT),
        (" ", "pipeline ` ` cannot be read at `its end`", WRITE_IT),
        (
            "simplfy",
            "no pass is called `simplfy`; there are fuse, legalize, quantize, simplify",
            "did you mean `simplify`?",
        ),
        (
            "prune",
            "no pass is called `prune`; there are fuse, legalize, quantize, simplify",
            "list the passes with `infer-opt passes`",
        ),
        (
            "simplify{fold_limi=1}",
            "pass `simplify` has no option `fold_limi`; it has fold_limit",
            "did you mean `fold_limit`?",
        ),
        (
            "quantize{zzz=1}",
            "pass `quantize` has no option `zzz`; it has method, percentile",
            "see `infer-opt passes show quantize`",
        ),
        ("fuse{a=1}", "pass `fuse` has no option `a`; it has without, also", "see `infer-opt passes show fuse`"),
        ("fuse{without=gemm}", "`without` of pass `fuse` cannot be `gemm`", "did you mean `Gemm`?"),
        (
            "fuse{also=a::Gelu}",
            "`also` of pass `fuse` cannot be `a::Gelu`",
            "it makes Attention, MatMul, com.microsoft::MultiHeadAttention",
        ),
        (
            "simplify{fold_limit}",
            "option `fold_limit` of pass `simplify` has no value",
            "write `simplify{fold_limit=...}`",
        ),
        (
            "simplify{fold_limit=1,fold_limit=2}",
            "option `fold_limit` of pass `simplify` is given twice",
            "keep one of the two",
        ),
        (
            "simplify{fold_limit=lots}",
            "`fold_limit` of pass `simplify` cannot be `lots`",
            "give a number (int)",
        ),
        ("simplify{fold_limit=1.5}", "`fold_limit` of pass `simplify` cannot be `1.5`", "give a number (int)"),
        ("quantize{percentile=}", "`percentile` of pass `quantize` cannot be ``", "give a number (float)"),
        (
            "quantize{percentile=50}",
            "`percentile` of pass `quantize` cannot be `50`",
            "give more than 50 and at most 100",
        ),
        (
            "quantize{percentile=nan}",
            "`percentile` of pass `quantize` cannot be `nan`",
            "give more than 50 and at most 100",
        ),
        ("quantize{method=entropi}", "`method` of pass `quantize` cannot be `entropi`", "use `entropy`"),
        (
            "quantize{method=best}",
            "`method` of pass `quantize` cannot be `best`",
            "use auto or minmax or percentile or entropy or mse",
        ),
    ],
)
def test_a_slip_is_named(text: str, message: str, hint: str) -> None:
    """Message and hint, word for word."""
    with pytest.raises(UsageError) as caught:
        Pipeline.parse(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)

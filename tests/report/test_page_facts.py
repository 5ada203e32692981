"""What the page shows, worked out from the report: order, words, and what is told once."""

from __future__ import annotations

from typing import Any

import pytest

from infer_opt.report.front_plot import Mark
from infer_opt.report.html import _prose
from infer_opt.report.page_facts import _built, _layers, _parts, _ranges, _shared_reason, decibels, number, size


def table(**changes: Any) -> dict[str, Any]:
    """A report with two regions, of which the second takes longer."""
    groups = [{"name": "b", "regions": ["b", "a"], "sqnr_db": {"y": 60.0, "y[0:4]": 61.0, "y[4:9]": 20.0}}]
    front = [{"sqnr_db": {"y": 50.0, "y[0:4]": 55.0, "y[4:9]": 30.0}}]
    return {
        "regions": [{"name": name, "reason": "r", "precision": "fp32"} for name in ("a", "b", "c")],
        "sensitivity": {
            "groups": groups,
            "front": front,
            "region_ms": {"a": [0.01, 0.02], "b": [0.05, 0.01], "c": [0.001]},
        },
        "outputs": [],
    } | changes


def test_layers_stand_by_their_time_in_float() -> None:
    """With the error of their group alone; without times, in the order of the graph."""
    rows = _layers(table())
    assert [(row["name"], row["alone_db"], row["member"]) for row in rows] == [
        ("b", 20.0, False),
        ("a", 20.0, True),
        ("c", None, False),
    ]
    assert (rows[0]["float_us"], rows[0]["int8_us"], rows[2]["float_us"]) == (50.0, 10.0, 1.0)
    assert [row["name"] for row in _layers(table(sensitivity=None))] == ["a", "b", "c"]


def test_a_whole_output_is_left_out_where_its_parts_are_there() -> None:
    """The weakest first."""
    assert _parts(table()) == ["y[4:9]", "y[0:4]"]
    outputs = [{"name": "ids", "sqnr_db": None}, {"name": "z", "sqnr_db": 40.0}]
    assert _parts(table(sensitivity=None, outputs=outputs)) == ["z"]


def test_what_many_reasons_begin_with_is_told_once() -> None:
    """And what only two do, is not."""
    rows = [{"reason": f"INT8 was slower; {each}"} for each in "abc"]
    assert _shared_reason(rows) == "INT8 was slower; "
    assert _shared_reason([*rows[:2], {"reason": "no kernel"}]) == ""
    assert _shared_reason([]) == ""


def test_bars_span_what_was_seen_and_held() -> None:
    """In per cent of both together."""
    [row] = _ranges([{"value": "v", "minimum": -1.0, "maximum": 9.0, "low": 0.0, "high": 4.0}])
    assert (row["seen"], row["held"]) == ((0.0, 100.0), (10.0, 40.0))
    [empty] = _ranges([{"value": "v", "minimum": 0.0, "maximum": 0.0, "low": 0.0, "high": 0.0}])
    assert empty["seen"] == (0.0, 0.0)


def test_candidates_stand_where_they_were_measured() -> None:
    """By P50 over that of all in float; one that was not timed where it was modelled, or by its groups."""
    front = [{"candidate": "mixed-20db", "groups": ["a"], "modelled_speedup": 1.5, "sqnr_db": {"y": 22.0}}]
    rows = [("fp32", "fp32", 6.0), ("int8", "int8", 2.0), ("mixed-20db", "int8", None)]
    candidates = [
        {
            "name": name,
            "precisions": {precision: 1},
            "p50_ms": p50,
            "modelled_ms": None,
            "outputs": [{"name": "y", "sqnr_db": 21.0}],
        }
        for name, precision, p50 in rows
    ]
    made = table(candidates=candidates, latency={}, sensitivity={"front": front, "groups": ["a", "b", "c"]})
    assert _built(made, timed=True) == [Mark(3.0, {"y": 21.0}, "int8"), Mark(1.5, {"y": 21.0}, "mixed-20db")]
    assert [(mark.x, mark.name) for mark in _built(made, timed=False)] == [(3, "int8"), (1, "mixed-20db")]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (200.0, "exact"), (-200.0, "lost"), (31.26, "31.3 dB"), (-3.0, "-3.0 dB")]
)
def test_decibels(value: float | None, text: str) -> None:
    """No figure where there is none to give."""
    assert decibels(value) == text


def test_sizes_and_numbers() -> None:
    """As `compile` prints them."""
    assert [size(count) for count in (812, 3240, 3_240_000, 5_000_000_000)] == ["812 B", "3.24 kB", "3.24 MB", "5 GB"]
    assert (number(None), number(0.012345)) == ("–", "0.0123")


def test_prose_sets_names_as_code_and_escapes_them() -> None:
    """A name with a backtick in it makes no half of a pair."""
    assert str(_prose("at `<b>` and `x`")) == "at <code>&lt;b&gt;</code> and <code>x</code>"
    assert str(_prose("at `<b")) == "at `&lt;b"

"""Choosing among candidates, on numbers alone."""

from __future__ import annotations

import pytest

from infer_opt.calibrate.choice import Judged, choose
from infer_opt.calibrate.timing import Latency


def judged(name: str, milliseconds: float | None, size: int = 100, refused: str | None = None) -> Judged:
    """A candidate."""
    latency = None if milliseconds is None else Latency(milliseconds, milliseconds, milliseconds, 15)
    return Judged(name, size, (), latency, refused)


@pytest.mark.parametrize(
    ("times", "winner"),
    [
        ({"fp32": 2.0, "int8": 1.0}, "int8"),
        ({"fp32": 1.0, "int8": 2.0}, "fp32"),
        ({"fp32": 1.03, "int8": 1.0}, "fp32"),
        ({"fp32": 1.031, "int8": 1.0}, "int8"),
        ({"fp32": 1.0, "int8": 1.0}, "fp32"),
        ({"a": 3.0, "b": 2.0, "c": 1.99}, "b"),
        ({"a": 3.0, "b": 2.0, "c": 1.9}, "c"),
        ({"a": 1.0, "b": 0.98, "c": 0.96}, "c"),
    ],
)
def test_the_fastest_wins_and_ties_go_to_the_first(times: dict[str, float], winner: str) -> None:
    """Candidates closer than 3 % are ties, whichever is named first wins them."""
    best, _ = choose([judged(name, time) for name, time in times.items()], None)
    assert best.name == winner


def test_the_words_say_what_was_measured() -> None:
    """The winner's time, that it was measured, and the times of the others."""
    _, why = choose([judged("fp32", 2.0), judged("int8", 1.2345)], None)
    assert why == "int8 is fastest of what is right enough: 1.234 ms (measured); fp32 2.000 ms"


def test_what_is_refused_cannot_win() -> None:
    """However fast; the reason is told, and its time is not: it does not matter."""
    best, why = choose([judged("fp32", 2.0), judged("int8", 0.1, refused="output `y` keeps 3.0 dB")], None)
    assert best.name == "fp32"
    assert why == (
        "fp32 is fastest of what is right enough: 2.000 ms (measured); int8 was refused: output `y` keeps 3.0 dB"
    )


def test_without_latency_the_smallest_wins() -> None:
    """And the words say why nothing was measured, and who was refused."""
    candidates = [judged("fp32", None, 400), judged("int8", None, 100), judged("int4", None, 50, refused="too far off")]
    best, why = choose(candidates, "the t4 is a GPU")
    assert best.name == "int8"
    assert why == (
        "smallest that is right enough; latency was not measured: the t4 is a GPU; int4 was refused: too far off"
    )


def test_of_equal_sizes_the_first_wins() -> None:
    """The order of candidates decides every tie."""
    best, _ = choose([judged("fp32", None), judged("original", None)], "nothing was run")
    assert best.name == "fp32"


def test_one_unmeasured_candidate_makes_latency_no_ground() -> None:
    """A time cannot be compared with none."""
    best, _ = choose([judged("fp32", 1.0, 400), judged("int8", None, 100)], None)
    assert best.name == "int8"


def test_an_unmeasured_candidate_that_is_refused_does_not_matter() -> None:
    """Only those that could win have to have a time."""
    candidates = [judged("fp32", 1.0, 10), judged("int8", 0.5, 400), judged("int4", None, 1, refused="lost")]
    assert choose(candidates, None)[0].name == "int8"


def test_where_all_are_refused_the_first_remains() -> None:
    """There is always an artifact: the first candidate is the model as it is."""
    best, _ = choose([judged("fp32", 2.0, refused="a"), judged("int8", 1.0, refused="b")], None)
    assert best.name == "fp32"


def test_a_single_candidate_is_an_order() -> None:
    """Nothing is compared, and nothing is claimed."""
    assert choose([judged("int8", 1.0, refused="bad")], None) == (
        judged("int8", 1.0, refused="bad"),
        "the only candidate",
    )

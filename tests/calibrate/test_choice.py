"""Choosing among candidates, on numbers alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infer_opt.calibrate.choice import Judged, choose
from infer_opt.calibrate.timing import Latency
from infer_opt.errors import InputError
from tests.calibrate.metrics.made_errors import with_sqnr


def judged(
    name: str, speedup: float | None, size: int = 100, refused: str | None = None, failed: str | None = None
) -> Judged:
    """A candidate; None is not timed. Its P50 is always the same: it is not what is compared."""
    latency = None if speedup is None else Latency(1.0, 1.0, 1.0, 15, speedup)
    return Judged(name, size, (), latency, refused, failed)


@pytest.mark.parametrize(
    ("speedups", "winner"),
    [
        ({"fp32": 1.0, "int8": 2.0}, "int8"),
        ({"fp32": 2.0, "int8": 1.0}, "fp32"),
        ({"fp32": 1.0, "int8": 1.05}, "fp32"),
        ({"fp32": 1.0, "int8": 1.051}, "int8"),
        ({"fp32": 1.0, "int8": 1.0}, "fp32"),
        ({"a": 1.0, "b": 1.5, "c": 1.51}, "b"),
        ({"a": 1.0, "b": 1.5, "c": 1.6}, "c"),
        ({"a": 1.0, "b": 1.03, "c": 1.06}, "b"),
    ],
)
def test_the_fastest_wins_and_ties_go_to_the_first(speedups: dict[str, float], winner: str) -> None:
    """Candidates closer than 5 % to the fastest are ties, whichever is named first wins them."""
    best, _ = choose([judged(name, speedup) for name, speedup in speedups.items()], None)
    assert best.name == winner


def test_of_ties_the_most_exact_wins() -> None:
    """Where the difference could be seen: 25 dB before 16, and 140 no better than 70."""
    errors = {name: with_sqnr(decibels) for name, decibels in (("a", 16), ("b", 25), ("c", 70), ("d", 140))}
    made = {name: replace(judged(name, 2.0), errors=(error,)) for name, error in errors.items()}
    assert choose([made["a"], made["b"]], None)[0].name == "b"
    assert choose([made["a"], made["c"], made["d"]], None)[0].name == "c"
    assert choose([replace(judged("e", 2.2), errors=(errors["a"],)), made["b"]], None)[0].name == "e"


def test_ratios_of_rounds_decide_and_not_pooled_medians() -> None:
    """A load that fell on most of one candidate's runs moves its P50, and not the median of its ratios."""
    slow_median, fast_median = Latency(3.0, 3.0, 3.0, 15, 1.5), Latency(1.0, 1.0, 1.0, 15, 1.0)
    candidates = [Judged("fp32", 1, (), fast_median, None), Judged("int8", 1, (), slow_median, None)]
    best, why = choose(candidates, None)
    assert best.name == "int8"
    assert why == "int8 is fastest of what is right enough: 1.50x the original (measured); fp32 1.00x"


def test_the_words_say_what_was_measured() -> None:
    """The winner's speed-up, that it was measured, and those of the others."""
    _, why = choose([judged("fp32", 1.25), judged("int8", 2.346), judged("original", 0.997)], None)
    assert why == ("int8 is fastest of what is right enough: 2.35x the original (measured); fp32 1.25x, original 1.00x")


def test_what_is_refused_cannot_win() -> None:
    """However fast; the reason is told, and its speed-up is not: it does not matter."""
    best, why = choose([judged("fp32", 1.1), judged("int8", 9.0, refused="output `y` keeps 3.0 dB")], None)
    assert best.name == "fp32"
    assert why == (
        "fp32 is fastest of what is right enough: 1.10x the original (measured);"
        " int8 was refused: output `y` keeps 3.0 dB"
    )


@pytest.mark.parametrize("unmeasured", [None, "the t4 is a GPU"])
def test_what_does_not_run_cannot_win(unmeasured: str | None) -> None:
    """However small, wherever it stands; why it does not run is told before the refusals."""
    speedup = 1.0 if unmeasured is None else None
    candidates = [
        judged("fp32", None, 50, failed="no kernel"),
        judged("int8", speedup, 10, refused="too far off"),
        judged("original", speedup, 400),
    ]
    best, why = choose(candidates, unmeasured)
    assert best.name == "original"
    assert why.endswith("; fp32 does not run: no kernel; int8 was refused: too far off")


@pytest.mark.parametrize("names", [["int8"], ["fp32", "int8"]])
def test_where_nothing_runs_there_is_no_artifact(names: list[str]) -> None:
    """An order included."""
    with pytest.raises(InputError) as caught:
        choose([judged(name, None, failed="no kernel") for name in names], "the t4 is a GPU")
    reasons = "; ".join(f"{name} does not run: no kernel" for name in names)
    assert caught.value.message == f"no artifact came out that runs and is right enough: {reasons}"
    assert caught.value.hint == "report it with the model"


def test_a_refused_candidate_is_no_way_out_where_the_first_does_not_run() -> None:
    """Only the first, the model as it is, may be taken although it was refused."""
    candidates = [judged("fp32", None, failed="no kernel"), judged("int8", None, refused="too far off")]
    with pytest.raises(InputError) as caught:
        choose(candidates, "the t4 is a GPU")
    assert caught.value.message == (
        "no artifact came out that runs and is right enough: fp32 does not run: no kernel;"
        " int8 was refused: too far off"
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
    best, why = choose([judged("fp32", 1.0, 400), judged("int8", None, 100)], None)
    assert best.name == "int8"
    assert why == "smallest that is right enough; latency was not measured: it cannot be run here"


def modelled(name: str, microseconds: float | None, size: int, decibels: float = 140.0) -> Judged:
    """A candidate for a device that is not here."""
    seconds = None if microseconds is None else 1e-6 * microseconds
    return replace(judged(name, None, size), modelled=seconds, errors=(with_sqnr(decibels),))


@pytest.mark.parametrize(
    ("candidates", "winner"),
    [
        ([("fp32", 100, 400), ("fp16", 60, 200), ("int8", 40, 100, 30)], "int8"),
        ([("fp32", 100, 400), ("fp16", 60, 200), ("int8", 58, 100, 30)], "fp16"),  # a tie, and more exact
        ([("fp32", 61, 400), ("fp16", 60, 200, 75)], "fp16"),  # as exact as anybody sees, and smaller
        ([("fp32", 100, 400), ("fp16", None, 200)], "fp16"),  # one is unknown: sizes decide
    ],
)
def test_where_nothing_is_measured_the_model_decides(candidates: list[tuple], winner: str) -> None:
    """The fastest by the device's model; of ties the most exact, then the smallest."""
    best, why = choose([modelled(*each) for each in candidates], "the t4 is a GPU")
    assert best.name == winner
    assert why.endswith("latency was not measured: the t4 is a GPU")
    assert ("(modelled)" in why) == all(each[1] for each in candidates)


def test_an_unmeasured_candidate_that_is_refused_does_not_matter() -> None:
    """Only those that could win have to have a time."""
    candidates = [judged("fp32", 1.0, 10), judged("int8", 2.0, 400), judged("int4", None, 1, refused="lost")]
    assert choose(candidates, None)[0].name == "int8"


def test_where_all_are_refused_the_first_remains() -> None:
    """There is always an artifact: the first candidate is the model as it is."""
    best, why = choose([judged("fp32", 1.0, refused="a"), judged("int8", 2.0, refused="b")], None)
    assert best.name == "fp32"
    assert why.endswith("; fp32 was refused: a; int8 was refused: b")


def test_a_single_candidate_is_an_order() -> None:
    """Nothing is compared, and nothing is claimed."""
    assert choose([judged("int8", 1.0, refused="bad")], None) == (
        judged("int8", 1.0, refused="bad"),
        "the only candidate",
    )

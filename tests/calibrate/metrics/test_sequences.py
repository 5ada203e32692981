"""Texts by greedy decoding, and how far they are apart: by texts that were spelt by hand."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from infer_opt.calibrate.metrics.sequences import Sequences, edit_distance

SYMBOLS = 5


def positions(*texts: str) -> np.ndarray:
    """Scores of which the largest spells such digits: [n, positions, 5]."""
    return np.array([[np.eye(SYMBOLS)[int(symbol)] for symbol in text] for text in texts], np.float32)


def after(reference: np.ndarray, got: np.ndarray) -> Sequences:
    """With one sample."""
    kind = Sequences()
    kind.add(reference, got)
    return kind


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("kitten", "sitting", 3),
        ("intention", "execution", 5),
        ("", "abc", 3),
        ("abc", "", 3),
        ("abc", "abc", 0),
        ("ab", "ba", 2),
    ],
)
def test_edit_distance(one: str, other: str, distance: int) -> None:
    """The examples of the textbooks (Wagner and Fischer, 1974; Jurafsky and Martin)."""
    assert edit_distance([*map(ord, one)], [*map(ord, other)]) == distance


@pytest.mark.parametrize(
    ("wanted", "got", "drop"),
    [
        ("0110220", "0110220", 0.0),
        ("0110220", "0100020", 0.0),  # repeats are one symbol, and gaps are none
        ("0110110", "0111110", 0.5),  # a gap between equal symbols makes two of them
        ("0110220", "0110330", 0.5),
        ("0110220", "0000000", 1.0),
        ("0010000", "0123123", 1.0),  # five too many, of one
        ("4411244", "4411344", 0.5),  # the blank is the last symbol
        ("4433244", "4430244", 0.5),  # and 0 is a letter then
    ],
)
def test_the_drop_is_edits_by_symbol(wanted: str, got: str, drop: float) -> None:
    """Of what the original reads."""
    kind = after(positions(wanted), positions(got))
    assert kind.fits
    assert kind.drop == pytest.approx(drop)


def test_which_symbol_is_the_blank_is_known_by_all_samples() -> None:
    """Of the first text alone it would be the 0; of all of them it is the 4."""
    kind = after(positions("0040120"), positions("0040120"))
    kind.add(positions("4444444"), positions("4444444"))
    kind.add(positions("4440344"), positions("4440244"))
    # By the blank 4: "0", "0120" and "03", of which one differs.
    assert kind.drop == pytest.approx(1 / 7)


def test_of_several_rows_symbols_are_pooled() -> None:
    """Texts of three symbols and of one: one edit in four, and not the mean of 0 and 1."""
    kind = after(positions("0102030", "0001000"), positions("0102030", "0002000"))
    assert kind.drop == pytest.approx(1 / 4)
    assert kind.words() == "25.0% of its symbols differ"
    assert kind.refusal("y") == "what `y` reads differs by 25.0% of its symbols, over 1%"
    assert kind.collapse("y") is None


def test_a_text_out_of_nothing() -> None:
    """Where neither reads anything nothing is told; where the candidate does, all is lost."""
    nothing = positions("0000")
    assert after(nothing, nothing).drop is None
    assert after(nothing, positions("0120")).drop == 1.0
    assert after(nothing, positions("0120")).collapse("y") == "output `y` collapsed: 100.0% of its symbols differ"


def test_memory_does_not_grow_with_the_samples() -> None:
    """Counts, and no rows."""

    def held(kind: Sequences) -> int:
        return sum(sys.getsizeof(value) for value in vars(kind).values())

    kind = after(positions("0102030"), positions("0102040"))
    before = held(kind)
    for _ in range(50):
        kind.add(positions("0102030"), positions("0102040"))
    assert held(kind) == before
    assert kind.drop == pytest.approx(1 / 3)


@pytest.mark.parametrize("shape", [(1, 5), (1, 7, 1), (1, 2, 3, 4)])
def test_what_spells_nothing(shape: tuple[int, ...]) -> None:
    """Other ranks, and one symbol."""
    assert not after(np.ones(shape, np.float32), np.ones(shape, np.float32)).fits


def test_an_alphabet_that_changes_fits_nothing() -> None:
    """Symbols are told by their place."""
    kind = after(positions("0102"), positions("0102"))
    kind.add(np.ones((1, 4, 3), np.float32), np.ones((1, 4, 3), np.float32))
    assert not kind.fits

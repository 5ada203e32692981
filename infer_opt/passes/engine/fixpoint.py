"""Repeating rewrites until none of them finds anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt.passes.engine.base import Change, Miss, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from infer_opt import ir

    Rewrite = Callable[[ir.Model], Iterable[Change | Miss]]

__all__ = ["until_settled"]

_MOST_ROUNDS = 8  # each round is linear; real models settle after two or three


def until_settled(
    model: ir.Model, rewrites: Sequence[Rewrite], between: Callable[[ir.Model], None] = lambda _: None
) -> Outcome:
    """Apply all rewrites in order, again and again, until a round changes nothing.

    Args:
        between: called after each round that changed something.

    Returns:
        all changes, and the misses of the last round: those of a rewrite that fired later are no misses.
    """
    changes: list[Change] = []
    misses: list[Miss] = []
    for _ in range(_MOST_ROUNDS):
        found = [item for rewrite in rewrites for item in rewrite(model)]
        misses = [item for item in found if isinstance(item, Miss)]
        new = [item for item in found if isinstance(item, Change)]
        changes += new
        if not new:
            break
        between(model)
    return Outcome(tuple(changes), tuple(misses))

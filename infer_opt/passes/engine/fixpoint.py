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
    model: ir.Model, rewrites: Sequence[Rewrite], between: Callable[[ir.Model], bool] = lambda _: False
) -> Outcome:
    """Apply all rewrites in order, again and again, until each has looked at the graph since its last change.

    Args:
        between: called after each round that changed something; whether it told the graph anything new.

    Returns:
        all changes, and of each rewrite the misses of its last walk: those of a rewrite that fired later are no misses.
    """
    changes: list[Change] = []
    misses: list[list[Miss]] = [[] for _ in rewrites]
    quiet = 0  # rewrites in a row that changed nothing: once that is all of them, the next ones need not look
    for _ in range(_MOST_ROUNDS):
        before = len(changes)
        for index, rewrite in enumerate(rewrites):
            if quiet == len(rewrites):
                break
            found = list(rewrite(model))
            misses[index] = [item for item in found if isinstance(item, Miss)]
            new = [item for item in found if isinstance(item, Change)]
            changes += new
            quiet = 0 if new else quiet + 1
        if len(changes) == before:
            break
        if between(model):
            quiet = 0
    return Outcome(tuple(changes), tuple(miss for of_rewrite in misses for miss in of_rewrite))

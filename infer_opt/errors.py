"""The two kinds of failure: what the user can mend, and bugs.

Everything the user can mend is a `UserError` (or a child) and is printed as one line with a hint, never with a
traceback. Anything else that escapes is a bug: the command line prints the traceback and leaves a reproducer.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["BudgetError", "InputError", "UsageError", "UserError", "nearest"]


class UserError(Exception):
    """A fault the user can mend: `message` says what and where, `hint` what to do.

    Args:
        message: one line without a full stop; names the file, and the node, tensor or option at fault.
        hint: one line that starts with a verb, or None where the message already says what to do.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(UserError):
    """The model, the data, a profile or the environment is at fault (exit code 1)."""


class UsageError(UserError):
    """The command line itself is at fault: an unknown name, an option out of place (exit code 2)."""

    exit_code = 2


class BudgetError(UserError):
    """The artifact was made but misses a stated budget, or was found broken (exit code 3)."""

    exit_code = 3


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `name` is most likely a misspelling of, for a hint; None where nothing is near."""
    return next(iter(get_close_matches(name, list(known), n=1)), None)

"""What is wrong with a profile file."""

from __future__ import annotations

from dataclasses import dataclass

from infer_opt.errors import InputError

__all__ = ["Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a profile file.

    Args:
        where: the file, as the user named it.
        line: line in that file, from 1, or None where no single line is at fault.
        message: one line without a full stop, naming the key in backticks.
        hint: one line that starts with a verb, or None where the message says what to do.
    """

    where: str
    line: int | None
    message: str
    hint: str | None

    def error(self) -> InputError:
        """This problem as the exception that ends a command."""
        place = f"`{self.where}`" if self.line is None else f"`{self.where}`, line {self.line}"
        return InputError(f"{place}: {self.message}", self.hint)

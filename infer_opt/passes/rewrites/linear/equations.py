"""Equations of Einsum with two operands, and what each index is to them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from infer_opt.passes.engine.rules import Decline

__all__ = ["Equation", "parse_equation"]

_TWO_OPERANDS = re.compile(r"([A-Za-z]*),([A-Za-z]*)(?:->([A-Za-z]*))?")


@dataclass(frozen=True)
class Equation:
    """`first,second->output`, each a string of indices. No index stands twice in one of them."""

    first: str
    second: str
    output: str

    @property
    def batch(self) -> str:
        """Indices of all three, in the order of the output."""
        return "".join(index for index in self.output if index in self.first and index in self.second)

    @property
    def summed(self) -> str:
        """Indices of both operands that the output has not, in the order of the second, which is a weight mostly."""
        return "".join(index for index in self.second if index in self.first and index not in self.output)

    @property
    def rows(self) -> str:
        """Indices of the first operand and the output alone, in the order of the output."""
        return "".join(index for index in self.output if index not in self.second)

    @property
    def columns(self) -> str:
        """Indices of the second operand and the output alone, in the order of the output."""
        return "".join(index for index in self.output if index not in self.first)

    @property
    def product(self) -> str:
        """The indices as a product of matrices has them."""
        return self.batch + self.rows + self.columns

    @property
    def turned(self) -> Equation:
        """The same with its operands changed over."""
        return Equation(self.second, self.first, self.output)

    @property
    def turned_is_nearer(self) -> bool:
        """Whether the product has the order of the output, or takes fewer axes for one, the other way round."""
        if self.product == self.output:
            return False
        return self.turned.product == self.output or (not self.batch and len(self.columns) > 1 >= len(self.rows))


def parse_equation(text: str) -> Equation:
    """The equation of two operands that a text states.

    Raises:
        Decline: it has another number of operands, an ellipsis, an index that stands twice in one operand, or one that
            only one operand has and that is summed.
    """
    found = _TWO_OPERANDS.fullmatch("".join(text.split()))
    if found is None:
        raise Decline(f"`{text}` is not of two operands, with an index for each axis")
    first, second, output = found.groups()
    if output is None:  # those that stand once, in alphabetical order
        output = "".join(sorted(set(first) ^ set(second)))
        if output not in (output.lower(), output.upper()):
            raise Decline("whether capital indices come first is not agreed on")
    if any(len(set(indices)) != len(indices) for indices in (first, second, output)):
        raise Decline("an index stands twice in one operand")
    if not set(first) ^ set(second) <= set(output) <= set(first) | set(second):
        raise Decline("an index of one operand alone is summed")
    return Equation(first, second, output)

"""What a pass is: a frozen value whose fields are its options and whose text is what `--pipeline` reads."""

from __future__ import annotations

import abc
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from infer_opt import ir

__all__ = ["Change", "Miss", "Outcome", "Pass"]


@dataclass(frozen=True)
class Change:
    """One rewrite that was done.

    Args:
        rule: the rule's name.
        nodes: names of the nodes of the original model that took part.
        detail: what became of them, in a few words.
    """

    rule: str
    nodes: tuple[str, ...]
    detail: str = ""


@dataclass(frozen=True)
class Miss:
    """A rewrite that nearly fired, and why it did not."""

    rule: str
    node: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What a pass did."""

    changes: tuple[Change, ...] = ()
    misses: tuple[Miss, ...] = ()


@dataclass(frozen=True)
class Pass(abc.ABC):
    """A change of the graph, or (`stage` "plan") an instruction to the planner that comes after all graph passes.

    Subclasses are frozen dataclasses; every field is an option with a default and a `metadata["help"]` line. A pass
    holds no state, writes no log and touches no file.
    """

    name: ClassVar[str]
    stage: ClassVar[Literal["graph", "plan"]] = "graph"

    @abc.abstractmethod
    def apply(self, model: ir.Model) -> Outcome:
        """Change `model` in place and say what was changed. Names, dtypes and shapes of the interface stay."""

    def __str__(self) -> str:
        """The text that `--pipeline` reads back: options that differ from their defaults, in order."""
        given = [
            f"{field.name}={_text(getattr(self, field.name))}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"{self.name}{{{','.join(given)}}}" if given else self.name


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

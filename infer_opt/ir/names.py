"""Fresh names: the one place that makes up names for new nodes and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt.ir.edit import all_graphs

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["Names"]


class Names:
    """The names taken in a model, subgraphs included; `fresh` gives one that is free and takes it.

    Made once for a walk over the model, which is read when the first name is asked for (linear in its nodes): most
    walks ask for none. Then constant time for each name.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        self._read = False

    def read(self) -> None:
        """Read the model now: before nodes are taken out that will come back under their names."""
        if self._read:
            return
        self._read = True
        for graph in all_graphs(self._model):
            self._taken.update(value.name for value in graph.inputs if value.name)
            self._taken.update(graph.initializers)
            for node in graph:
                self._taken.update(value.name for value in node.outputs if value.name)
                if node.name:
                    self._taken.add(node.name)

    def fresh(self, wanted: str) -> str:
        """`wanted` itself where it is free, otherwise `wanted_1`, `wanted_2`, ..."""
        self.read()
        if wanted not in self._taken:
            self._taken.add(wanted)
            return wanted
        number = self._next.get(wanted, 1)
        while f"{wanted}_{number}" in self._taken:
            number += 1
        self._next[wanted] = number + 1
        name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

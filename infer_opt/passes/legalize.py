"""The `legalize` pass: the opset that the backend needs. Runs before every pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from infer_opt import ir
from infer_opt.errors import InputError
from infer_opt.passes.engine.base import Change, Outcome, Pass
from infer_opt.passes.rewrites.opsets.opset_adapters import ADAPTERS, NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Legalize"]

_WITHOUT_ADAPTER = {"Scan": 9}  # operators whose older form means something else, and that no exporter still writes


@dataclass(frozen=True)
class Legalize(Pass):
    """Raise the opset of the default domain to what the backend needs; never lowers it.

    Nodes whose operator changed on the way get the new form (attributes that became inputs, Softmax's axis, Upsample
    to Resize); subgraphs are covered. Opset domains that no node uses are dropped.
    """

    name: ClassVar[str] = "legalize"

    opset: int = field(default=NEWEST, metadata={"help": "the opset that the model has afterwards, at least"})

    def apply(self, model: ir.Model) -> Outcome:
        """Adapt and stamp."""
        changes = list(_drop_unused_domains(model))
        current = model.opset_imports[""]
        if current < self.opset:
            if self.opset > NEWEST:
                raise InputError(
                    f"opset {current} cannot be raised to {self.opset}, only up to {NEWEST}",
                    f"export the model with opset {self.opset}",
                )
            changes += _raise(model, current, self.opset)
        return Outcome(tuple(changes))


def _raise(model: ir.Model, current: int, wanted: int) -> Iterator[Change]:
    names = ir.Names(model)
    for version in range(current + 1, wanted + 1):
        for graph in ir.all_graphs(model):
            for node in tuple(graph):
                if _WITHOUT_ADAPTER.get(node.op_type, 0) == version and not node.domain:
                    raise InputError(
                        f"node `{node.name}`: {node.op_type} of opset {current} cannot be raised to {wanted}",
                        f"export the model with opset {wanted}",
                    )
                adapt = ADAPTERS.get((node.op_type, version)) if not node.domain else None
                if adapt is not None and adapt(node, names):
                    yield Change("raise opset", ir.origin(node), f"{node.op_type} to opset {version}")
    for graph in ir.all_graphs(model):
        if "" in graph.opset_imports:
            graph.opset_imports[""] = wanted
    yield Change("raise opset", (), f"{current} to {wanted}")


def _drop_unused_domains(model: ir.Model) -> Iterator[Change]:
    used = {node.domain for graph in ir.all_graphs(model) for node in graph} | {""}
    for domain in sorted(model.opset_imports.keys() - used):
        del model.opset_imports[domain]
        yield Change("unused opset domain", (), domain)

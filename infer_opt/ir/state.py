"""State that a model hands from one run to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt.ir.edit import all_graphs
from infer_opt.ir.shapes import rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx_ir as ir

__all__ = ["recurrent_state"]

# Of LSTM, GRU and RNN: which output is the state after the last step, and which input the one before the first.
_STATES = {"LSTM": ((1, 5), (2, 6)), "GRU": ((1, 5),), "RNN": ((1, 5),)}
_MOVES = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose"})


def recurrent_state(model: ir.Model) -> dict[str, str]:
    """Outputs that hold the last state of a recurrent operator, each with the input that starts it in the next run.

    None where a model has no other output: then the state is what it is run for.
    """
    outputs = {value: str(value.name) for value in model.graph.outputs}
    inputs = {value: str(value.name) for value in model.graph.inputs}
    found: dict[str, str] = {}
    for graph in all_graphs(model):
        for node in graph:
            for last, first in _STATES.get(node.op_type, ()) if not node.domain else ():
                if len(node.outputs) <= last or len(node.inputs) <= first:
                    continue
                start = _origin(node.inputs[first])
                ends = (end for end in _moved(node.outputs[last]) if end in outputs and rank(end) == rank(start))
                if start in inputs and (end := next(ends, None)) is not None:
                    found[outputs[end]] = inputs[start]
    return found if len(found) < len(outputs) else {}


def _origin(value: ir.Value | None) -> ir.Value | None:
    while value is not None and (maker := value.producer()) is not None and maker.op_type in _MOVES:
        value = maker.inputs[0]
    return value


def _moved(value: ir.Value) -> Iterator[ir.Value]:
    """The value, and what it becomes by moves alone."""
    pending = [value]
    while pending:
        value = pending.pop()
        yield value
        pending += [user.outputs[0] for user, index in value.uses() if user.op_type in _MOVES and index == 0]

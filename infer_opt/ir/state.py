"""State that a model hands from one run to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt.ir.edit import all_graphs
from infer_opt.ir.shapes import rank

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["recurrent_state"]

# Of LSTM, GRU and RNN: which output is the state after the last step, and which input the one before the first.
_STATES = {"LSTM": ((1, 5), (2, 6)), "GRU": ((1, 5),), "RNN": ((1, 5),)}
_MOVES = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose"})


def recurrent_state(model: ir.Model) -> dict[str, str]:
    """Outputs that hold the last state of a recurrent operator, each with the input that starts it in the next run."""
    outputs = {value: str(value.name) for value in model.graph.outputs}
    inputs = {value: str(value.name) for value in model.graph.inputs}
    found: dict[str, str] = {}
    for graph in all_graphs(model):
        for node in graph:
            for last, first in _STATES.get(node.op_type, ()) if not node.domain else ():
                if len(node.outputs) <= last or len(node.inputs) <= first:
                    continue
                start, end = _origin(node.inputs[first]), _end(node.outputs[last], outputs)
                if start in inputs and end is not None and rank(start) == rank(end):
                    found[outputs[end]] = inputs[start]
    return found


def _origin(value: ir.Value | None) -> ir.Value | None:
    while value is not None and (maker := value.producer()) is not None and maker.op_type in _MOVES:
        value = maker.inputs[0]
    return value


def _end(value: ir.Value, outputs: dict[ir.Value, str]) -> ir.Value | None:
    """The output that a value becomes by moves alone."""
    pending = [value]
    while pending:
        value = pending.pop()
        if value in outputs:
            return value
        pending += [user.outputs[0] for user, index in value.uses() if user.op_type in _MOVES and index == 0]
    return None

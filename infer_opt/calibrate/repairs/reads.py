"""What the weights of a plan are multiplied with: mean and second moments of the rows of each product, from samples.

A convolution is taken as the matrix product over its windows (im2col), at some output positions drawn at random.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt import ir
from infer_opt.calibrate.repairs.inner_values import inner_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infer_opt.calibrate.plan import WeightSite

__all__ = ["BLOCK", "Moments", "as_rows", "blocks", "from_rows", "gather"]

BLOCK = 16  # inputs whose moments are known two by two, at most; of those farther apart only the means are
_ROWS = 128  # of each sample

Floats = np.ndarray[Any, Any]


@dataclass
class Moments:
    """Sums over the rows x, float64, each of `inputs` numbers, that a weight is multiplied with.

    Args:
        groups: of a grouped convolution, 1 otherwise.
        inputs: numbers that one output is the weighted sum of.
    """

    groups: int
    inputs: int
    rows: int = 0
    sums: Floats = field(init=False)
    squares: Floats = field(init=False)

    def __post_init__(self) -> None:
        count, size = blocks(self.inputs)
        self.sums = np.zeros((self.groups, count, size))
        self.squares = np.zeros((self.groups, count, size, size))

    def add(self, rows: Floats) -> None:
        """Rows of shape (groups, n, inputs)."""
        count, size = blocks(self.inputs)
        padded = np.pad(rows, [(0, 0), (0, 0), (0, count * size - self.inputs)])
        by_block = padded.reshape(self.groups, -1, count, size).transpose(0, 2, 1, 3)
        self.rows += rows.shape[1]
        self.sums += by_block.sum(2, dtype=np.float64)
        self.squares += by_block.swapaxes(2, 3) @ by_block

    def mean(self) -> Floats:
        """Shape (groups, inputs)."""
        return (self.sums / max(self.rows, 1)).reshape(self.groups, -1)[:, : self.inputs]

    def second(self, *, centred: bool) -> Floats:
        """Second moments within the blocks, about the mean or about 0: (groups, blocks, size, size)."""
        mean = self.sums / max(self.rows, 1)
        found = self.squares / max(self.rows, 1)
        return found - mean[..., :, None] * mean[..., None, :] if centred else found


def blocks(inputs: int) -> tuple[int, int]:
    """How many blocks the inputs are cut into, and how many each holds; the last may be padded with zeros."""
    count = -(-inputs // BLOCK)
    return count, -(-inputs // count)


def as_rows(node: ir.Node, weight: Floats) -> Floats | None:
    """The weight as (groups, outputs of a group, inputs); None where its products have no such form."""
    if node.op_type == "Conv":
        groups = int(ir.attribute(node, "group", 1))
        return weight.reshape(groups, weight.shape[0] // groups, -1)
    plain = weight.ndim == 2 and not ir.attribute(node, "transA", 0) and ir.attribute(node, "alpha", 1.0) == 1.0
    if node.op_type in {"Gemm", "MatMul"} and plain:
        return (weight if ir.attribute(node, "transB", 0) else weight.T)[None]
    return None


def from_rows(node: ir.Node, rows: Floats, shape: Sequence[int]) -> Floats:
    """The inverse of `as_rows`."""
    if node.op_type == "Conv" or ir.attribute(node, "transB", 0):
        return rows.reshape(tuple(shape))
    return np.ascontiguousarray(rows[0].T)


def gather(
    model: ir.Model, sites: Sequence[WeightSite], feeds: Sequence[Mapping[str, Floats]], threads: int, seed: int
) -> dict[str, Moments]:
    """The moments of what each site's node reads, by node name.

    Args:
        sites: whose weights have the form of `as_rows`.
    """
    nodes = {str(node.name): node for node in model.graph}
    reads = {site.node: str(nodes[site.node].inputs[0].name) for site in sites}  # type: ignore[union-attr]
    found: dict[str, Moments] = {}
    for site in sites:
        rows = as_rows(nodes[site.node], site.array(model.graph.initializers))
        assert rows is not None  # noqa: S101 - the caller's promise
        found[site.node] = Moments(rows.shape[0], rows.shape[2])
    rng = np.random.default_rng(seed)
    for values in inner_values(model, list(reads.values()), feeds, threads):
        for name in (name for name, value in reads.items() if value in values):
            found[name].add(_rows(nodes[name], values[reads[name]], rng))
    return found


def _rows(node: ir.Node, value: Floats, rng: np.random.Generator) -> Floats:
    """Some rows of the product, (groups, n, inputs): of a batch of several, from all of it."""
    if node.op_type == "Conv":
        return _windows(node, value, rng)
    flat = value.reshape(-1, value.shape[-1])
    return flat[_drawn(rng, len(flat))][None]


def _windows(node: ir.Node, value: Floats, rng: np.random.Generator) -> Floats:
    kernel = node.inputs[1].shape.numpy()[2:]  # type: ignore[union-attr]
    strides, dilations = (ir.attribute(node, name, [1] * len(kernel)) for name in ("strides", "dilations"))
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    padded = np.pad(value, [(0, 0), (0, 0), *_pads(node, value.shape[2:], reach, strides)])
    axes = tuple(range(2, value.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=axes)
    # One entry of the view for every output position and tap.
    thinned = [slice(None, None, step) for step in (*strides, *dilations)]
    windows = windows[(slice(None), slice(None), *thinned)]
    places = np.moveaxis(windows, 1, len(kernel) + 1)  # batch, positions, channels, taps
    positions = places.shape[: len(kernel) + 1]
    drawn = places[np.unravel_index(_drawn(rng, int(np.prod(positions))), positions)]
    groups = int(ir.attribute(node, "group", 1))
    return drawn.reshape(len(drawn), groups, -1).swapaxes(0, 1)


def _pads(node: ir.Node, shape: Sequence[int], reach: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    how = ir.attribute(node, "auto_pad", "NOTSET")
    if how in {"NOTSET", "VALID"}:
        pads = ir.attribute(node, "pads", [0] * 2 * len(shape)) if how == "NOTSET" else [0] * 2 * len(shape)
        return list(zip(pads[: len(shape)], pads[len(shape) :], strict=True))
    found = []
    for size, window, step in zip(shape, reach, strides, strict=True):
        total = max(0, (-(-size // step) - 1) * step + window - size)
        less, more = total // 2, total - total // 2
        found.append((less, more) if how == "SAME_UPPER" else (more, less))
    return found


def _drawn(rng: np.random.Generator, count: int) -> Floats:
    return rng.choice(count, min(_ROWS, count), replace=False)

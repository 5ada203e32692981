"""Rounding weights so that the errors of a sum cancel, without gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infer_opt.calibrate.repairs.reads import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infer_opt.calibrate.quantization import Format

__all__ = ["mean_error", "rounded"]

_DAMPING = 0.01  # share of the mean square that is added to each, as in the paper
_EMPTY = 1e-12  # of the largest square: an input that is always the same, whose rounding cannot matter

_AT_ONCE = 2 << 20  # numbers of a weight that are worked on: a vocabulary of 51,864 words has 20 million

Floats = np.ndarray[Any, Any]


def rounded(weights: Floats, scales: Floats, moments: Floats, form: Format) -> Floats:
    """Levels of least expected squared error of the sums, found input by input.

    Source: E. Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers",
    2022: each input's rounding error is made good by the inputs that are not rounded yet, as the inverse of the
    second moments tells, from its Cholesky factor. Here moments are known within blocks of inputs; errors are made good
    within a block.

    Args:
        weights: (groups, outputs, inputs).
        scales: (groups, outputs).
        moments: (groups, blocks, size, size) of the inputs, see `reads.blocks`.
        form: a symmetric format.

    Returns:
        levels, of the weights' shape, of the format's type.
    """
    factors = _factors(moments.reshape(-1, *moments.shape[-2:])).astype(np.float32)
    levels = np.empty(weights.shape, form.storage())
    for part in _portions(weights.shape):
        levels[:, part] = _rounded(weights[:, part], scales[:, part], factors, form)
    return levels


def mean_error(weights: Floats, levels: Floats, scales: Floats, means: Floats) -> Floats:
    """What rounding adds to each output on average: (groups, outputs), float64.

    Args:
        weights, levels: (groups, outputs, inputs).
        scales: (groups, outputs).
        means: (groups, inputs).
    """
    found = np.empty(weights.shape[:2])
    for part in _portions(weights.shape):
        error = levels[:, part] * scales[:, part, None].astype(np.float64) - weights[:, part]
        found[:, part] = np.einsum("goi,gi->go", error, means)
    return found


def _portions(shape: tuple[int, ...]) -> Iterator[slice]:
    """The outputs in parts: each is rounded without regard to the others."""
    groups, outputs, inputs = shape
    step = max(1, _AT_ONCE // max(1, groups * inputs))
    return (slice(start, start + step) for start in range(0, outputs, step))


def _rounded(weights: Floats, scales: Floats, factors: Floats, form: Format) -> Floats:
    groups, outputs, inputs = weights.shape
    count, size = blocks(inputs)
    padded = np.pad(weights, [(0, 0), (0, 0), (0, count * size - inputs)])
    # One column of all blocks after the other: (size, groups * blocks, outputs).
    left = padded.reshape(groups, outputs, count, size).transpose(3, 0, 2, 1).reshape(size, -1, outputs)
    left = np.ascontiguousarray(left, np.float32)
    steps = np.repeat(scales[:, None], count, axis=1).reshape(-1, outputs).astype(np.float32)
    lowest, highest = form.limits()
    levels = np.empty_like(left)
    for column in range(size):
        levels[column] = np.clip(np.rint(left[column] / steps), lowest, highest)
        error = (left[column] - levels[column] * steps) / factors[:, column, column, None]
        left[column + 1 :] -= factors[:, column, column + 1 :].T[:, :, None] * error
    found = levels.reshape(size, groups, count, outputs).transpose(1, 3, 2, 0).reshape(groups, outputs, -1)
    return found[:, :, :inputs].astype(form.storage())


def _factors(moments: Floats) -> Floats:
    """Upper Cholesky factors of the inverses."""
    damped = moments.copy()
    squares = np.einsum("bii->bi", damped)  # a view
    empty = squares <= _EMPTY * squares.max(axis=1, keepdims=True)
    squares[empty] = 1.0
    squares += _DAMPING * squares.mean(axis=1, keepdims=True)
    return np.linalg.cholesky(np.linalg.inv(damped)).swapaxes(1, 2)

"""Parameters of a normalisation: constants in the shape that the operator wants, from however they were broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from infer_opt import ir
from infer_opt.passes.engine.rules import Decline
from infer_opt.passes.rewrites.formulas.polynomials import Monomial
from infer_opt.passes.rewrites.linear.linear import narrow

__all__ = ["Array", "Parameter", "channels_of"]

Array = np.ndarray[Any, Any]

_LARGEST = 1 << 16  # elements that a constant may be repeated to


@dataclass(frozen=True)
class Parameter:
    """A factor, or what is added: a number, times a constant where there is a `value`."""

    value: ir.Value | None
    factor: float
    default: str = ""

    @classmethod
    def of(cls, monomial: Monomial, factor: float, default: str) -> Parameter | None:
        """The parameter that a product of atoms is: none, or one constant."""
        if not monomial:
            return cls(None, factor, default)
        ((value, power), *others) = monomial
        if others or power != 1:
            return None
        if not ir.is_constant(value):
            return None
        return cls(value, factor, default)

    @property
    def name(self) -> str:
        """Of the initializer to make."""
        return (self.value.name if self.value is not None else None) or self.default

    def of_last_axes(self, x: ir.Value, count: int) -> Array:
        """The parameter in the shape of the last axes of x.

        Raises:
            Decline: it varies along other axes, or raises the rank.
        """
        dims = ir.dims(x) or ()
        shape = tuple(size for size in dims[-count:] if isinstance(size, int))
        if len(shape) != count:
            raise Decline("the normalised dimensions are not fixed")
        array = self._array(len(dims))
        leading = array.shape[: max(0, array.ndim - count)]
        if any(size != 1 for size in leading):
            raise Decline(f"`{self.name}` varies along an axis that is not normalised")
        return self._repeated(array.reshape(array.shape[len(leading) :]), shape, x)

    def per_channel(self, x: ir.Value) -> Array:
        """The parameter as one number for each channel of x.

        Raises:
            Decline: it varies along other axes, or raises the rank.
        """
        dims, channels = ir.dims(x) or (), channels_of(x)
        array = self._array(len(dims))
        shape = (1,) * (len(dims) - array.ndim) + array.shape
        if any(size != 1 for axis, size in enumerate(shape) if axis != 1):
            raise Decline(f"`{self.name}` varies along an axis that is not that of the channels")
        return self._repeated(array.reshape(-1), (channels,), x)

    def _array(self, rank: int) -> Array:
        constant = np.ones(()) if self.value is None else ir.array(self.value).astype(np.float64)
        if constant.ndim > rank:
            raise Decline(f"`{self.name}` raises the rank of the result")
        return constant * self.factor

    def _repeated(self, array: Array, shape: tuple[int, ...], x: ir.Value) -> Array:
        if int(np.prod(shape)) > max(_LARGEST, array.size):
            raise Decline(f"`{self.name}` would be repeated to more than {_LARGEST} elements")
        try:
            spread = np.ascontiguousarray(np.broadcast_to(array, shape))
        except ValueError:
            raise Decline(f"`{self.name}` does not have the shape of the normalised axes") from None
        return narrow(spread, ir.numpy_dtype(x))


def channels_of(x: ir.Value) -> int:
    """How many channels x has.

    Raises:
        Decline: that is not fixed.
    """
    dims = ir.dims(x) or ()
    channels = dims[1] if len(dims) > 1 else None
    if not isinstance(channels, int):
        raise Decline("the channels are not fixed")
    return channels

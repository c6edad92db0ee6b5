"""Arrays of constants: arithmetic in a defined order, and copies that nobody can change.

What is computed here ends up in programs, whose bits must not depend on the processor. NumPy's products of floats do: BLAS sums
in an order, and with or without fused multiply-adds, as the processor likes it best. So do its sine, cosine and their kin.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any, NoReturn

import numpy as np

from linkwork.ir.functions import sqrt


def product(a: np.ndarray, b: np.ndarray) -> Any:
    """a @ b of small arrays, over numbers or symbols, summed from the first term to the last."""
    if a.dtype.hasobject or b.dtype.hasobject:
        return a @ b  # NumPy adds objects one after the other
    found = a.astype(object) @ b.astype(object)
    return found.astype(float) if isinstance(found, np.ndarray) else float(found)


def length(x: np.ndarray) -> Any:
    """The length of a vector, over numbers or symbols."""
    return sqrt(product(x, x))


def frozen(x: Any) -> np.ndarray:
    """A copy as floats that cannot be written, nor be made writable: its memory is that of an immutable object."""
    if type(x) is np.ndarray and type(x.base) is bytes and x.dtype == float:
        return x
    array = np.ascontiguousarray(x, dtype=float) + 0.0  # no -0: it is equal to 0, and so must be what is made of it
    return np.ndarray(array.shape, float, array.tobytes())


class Immutable:
    """A value whose attributes are set once, by its constructor through `put`."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot change {name!r}: a {type(self).__name__} is a value; make another one")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete {name!r}: a {type(self).__name__} is a value")


put = object.__setattr__

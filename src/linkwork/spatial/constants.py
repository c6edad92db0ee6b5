"""Constant arrays: products with a defined order of summation, and immutable copies.

These constants become part of programs, whose bits must not depend on the processor. NumPy's products of
floats do: BLAS chooses the order of summation and the use of fused multiply-adds. So do its sine, cosine and
similar functions.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from math import nan
from typing import Any, NoReturn

import numpy as np

from linkwork.compiler.ir.functions import sqrt


def product(a: np.ndarray, b: np.ndarray) -> Any:
    """Return a @ b of small arrays of numbers or symbols, summed from first to last term."""
    if a.dtype.hasobject or b.dtype.hasobject:
        return a @ b  # NumPy sums objects in order
    # the most frequent products, which take a tenth of the time with Python's floats
    if a.shape == (3, 3) and a.dtype == b.dtype == float:
        if b.shape == (3,):
            return np.array(_times(a.tolist(), b.tolist()))
        if b.shape == (3, 3):
            rows = a.tolist()
            return np.array([_times(rows, column) for column in b.T.tolist()]).T
    result = a.astype(object) @ b.astype(object)
    return result.astype(float) if isinstance(result, np.ndarray) else float(result)


def _times(rows: list[list[float]], x: list[float]) -> list[float]:
    """Return the product of a matrix of three columns and a vector."""
    x0, x1, x2 = x
    return [a * x0 + b * x1 + c * x2 for a, b, c in rows]


def length(x: np.ndarray) -> Any:
    """Return the Euclidean norm of a vector of numbers or symbols."""
    return sqrt(product(x, x))


def frozen(x: Any) -> np.ndarray:
    """Return a float copy that cannot be made writable, since an immutable object owns its memory."""
    if type(x) is np.ndarray and isinstance(x.base, bytes) and x.dtype == float:
        return x
    # Adding 0.0 turns -0.0 into 0.0, so that equal arrays have equal bytes.
    array = np.ascontiguousarray(x, dtype=float) + 0.0
    return np.ndarray(array.shape, float, array.tobytes())


def real(x: Any) -> float:
    """Return a number as a float; raise TypeError for text, Booleans and other objects."""
    if isinstance(x, (str, bytes, bytearray, bool, np.bool_)):
        raise TypeError(f"{x!r} is not a number")
    return float(x)


def reals(x: Any) -> np.ndarray:
    """Return numbers as a float array; raise TypeError or ValueError for other entries."""
    array = x if isinstance(x, np.ndarray) and x.dtype.kind in "iuf" else np.asarray(x, dtype=object)
    if array.dtype != object:
        return array.astype(float)
    return np.array([real(entry) for entry in array.flat]).reshape(array.shape)


def real_or_nan(x: Any) -> float:
    """Return a number as a float, NaN for other objects."""
    try:
        return real(x)
    except (TypeError, ValueError):
        return nan


class Immutable:
    """A value whose attributes are set only by its constructor, with `set_frozen`."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot set {name!r}: {type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete {name!r}: {type(self).__name__} is immutable")


set_frozen = object.__setattr__

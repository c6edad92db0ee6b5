"""Semantics of the core operations: NumPy functions that every target must match bit for bit.

Two results are equal if they have the same bits or are both NaN.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]

# dtype -> (matching integer, fraction bits, exponent bias)
LAYOUT = {"float64": (np.int64, 52, 1023), "float32": (np.int32, 23, 127)}


def two_sum(a: Values, b: Values) -> tuple[Values, Values]:
    """Return s, a + b rounded, and the error e such that s + e = a + b exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _round_to_odd(s: Values, e: Values) -> Values:
    """Return float64 s with the last bit set if e != 0, so that rounding again to fewer bits is correct."""
    bits = s.view(np.int64)
    away = (e > 0) == (s > 0)
    odd = np.where(away, bits + 1, bits - 1)
    return np.where((e != 0) & (bits & 1 == 0) & np.isfinite(s), odd, bits).view(np.float64)


def _fma32(a: Values, b: Values, c: Values) -> Values:
    product = a.astype(np.float64) * b.astype(np.float64)  # exact: 24 + 24 bits
    s, e = two_sum(product, c.astype(np.float64))
    return _round_to_odd(s, e).astype(np.float32)


def _fma64_exact(a: float, b: float, c: float) -> float:
    """Evaluate the definition on rationals, for the few rows where `_fma64` could over- or underflow."""
    if not np.isfinite(c) and np.isfinite(a) and np.isfinite(b):
        return c
    if not (np.isfinite(a) and np.isfinite(b)) or a == 0 or b == 0:
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    if c == 0:
        return float(np.float64(a) * np.float64(b))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    try:
        return exact.numerator / exact.denominator  # integer division rounds correctly, subnormals included
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


FEW_ROWS = 64  # up to which numbers of Python take less time than arrays
_SPLIT = 134217729.0  # 2**27 + 1, Veltkamp's constant
_BIG = 2.0**900  # below it, and above its reciprocal, no step of `_fma64` over- or underflows


def _fma64_of_numbers(a: float, b: float, c: float) -> float:
    """Return a b + c: `_fma64` on three numbers."""
    u = a * b
    if not (abs(a) < _BIG and abs(b) < _BIG and abs(c) < _BIG and 1.0 / _BIG < abs(u) < _BIG):
        return _fma64_exact(a, b, c)
    ha = a * _SPLIT
    ha = ha - (ha - a)
    hb = b * _SPLIT
    hb = hb - (hb - b)
    la = a - ha
    lb = b - hb
    v = ((ha * hb - u) + ha * lb + la * hb) + la * lb
    t = c + v
    x = t - c
    t_err = (c - (t - x)) + (v - x)
    w = u + t
    x = w - u
    w_err = (u - (w - x)) + (t - x)
    z = t_err + w_err
    x = z - t_err
    z_err = (t_err - (z - x)) + (w_err - x)
    if z_err != 0.0:  # round z to odd
        bits = _INTEGER.unpack(_DOUBLE.pack(z))[0]
        if bits & 1 == 0:
            z = _DOUBLE.unpack(_INTEGER.pack(bits + 1 if (z_err > 0.0) == (z > 0.0) else bits - 1))[0]
    return w + z


_DOUBLE = struct.Struct("<d")
_INTEGER = struct.Struct("<q")


def _fma64(a: Values, b: Values, c: Values) -> Values:
    """Return a b + c by error-free transformations and one rounding to odd (Boldo and Melquiond)."""
    if a.size <= FEW_ROWS:
        return np.array([*map(_fma64_of_numbers, a.tolist(), b.tolist(), c.tolist())], dtype=np.float64)
    ha = a * _SPLIT
    ha = ha - (ha - a)
    hb = b * _SPLIT
    hb = hb - (hb - b)
    la = a - ha
    lb = b - hb
    u = a * b
    v = ((ha * hb - u) + ha * lb + la * hb) + la * lb
    t, t_err = two_sum(c, v)
    w, w_err = two_sum(u, t)
    z, z_err = two_sum(t_err, w_err)
    result = w + _round_to_odd(z, z_err)
    zero_product = (u == 0) & ((a == 0) | (b == 0))  # an exact product of zero, with its sign
    result = np.where(zero_product, u + c, result)
    size = np.abs(u)
    safe = (np.abs(a) < _BIG) & (np.abs(b) < _BIG) & (np.abs(c) < _BIG) & (size < _BIG) & (size > 1 / _BIG)
    if not (safe | zero_product).all():
        for i in np.flatnonzero(~(safe | zero_product)):
            result[i] = _fma64_exact(float(a[i]), float(b[i]), float(c[i]))
    return result


def _fma(a: Values, b: Values, c: Values) -> Values:
    return _fma32(a, b, c) if a.dtype == np.float32 else _fma64(a, b, c)


def _pow2(a: Values) -> Values:
    integer, fraction_bits, bias = LAYOUT[a.dtype.name]
    low = a.dtype.type(1 - bias)
    k = np.where(a > low, a, low)
    k = np.where(k < bias, k, a.dtype.type(bias))
    return ((np.rint(k).astype(integer) + bias) << fraction_bits).view(a.dtype)


def _exponent(a: Values) -> Values:
    integer, fraction_bits, bias = LAYOUT[a.dtype.name]
    field = (a.view(integer) >> fraction_bits) & (2 * bias + 1)
    return (field - bias).astype(a.dtype)


def _min(a: Values, b: Values) -> Values:
    return np.where(a < b, a, b)


def _max(a: Values, b: Values) -> Values:
    return np.where(a > b, a, b)


SEMANTICS: dict[str, Callable[..., Values]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "fma": _fma,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "min": _min,
    "max": _max,
    "rint": np.rint,
    "pow2": _pow2,
    "exponent": _exponent,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "select": np.where,
}


def round_to_float32(number: float) -> float:
    """Return the nearest float32 as a Python float."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:  # struct raises if the rounded number exceeds the largest float32
        return math.copysign(math.inf, number)


def fold(op: str, dtype: str, values: list[float | bool]) -> float | bool:
    """Return the operation on constants as every target computes it."""
    with np.errstate(all="ignore"):
        arrays = [np.array([v], dtype=bool if isinstance(v, bool) else dtype) for v in values]
        return SEMANTICS[op](*arrays)[0].item()

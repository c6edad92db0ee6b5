"""Small square linear systems over numbers or symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import absolute, where
from linkwork.compiler.ir.symbol import Symbol
from linkwork.spatial.factor import is_zero


def solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return x of A x = b, for a small regular A, (n, n), and b of shape (n,) or (n, m).

    Up to two rows use the adjugate, which needs no pivots; more use Gaussian elimination with partial
    pivoting, chosen at run time.
    """
    n = len(A)
    if n == 0:
        return np.array(b, dtype=object)
    if n == 1:
        return np.array(b, dtype=object) * (1.0 / A[0, 0])
    if n == 2:
        d = 1.0 / (A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0])
        return np.array([(A[1, 1] * b[0] - A[0, 1] * b[1]) * d, (A[0, 0] * b[1] - A[1, 0] * b[0]) * d])
    A = np.array(A, dtype=object)
    x = np.array(b, dtype=object)
    for k in range(n):
        for i in range(k + 1, n):  # move the largest entry to the pivot
            if is_zero(A[i, k]):
                continue
            larger = _magnitude(A[i, k]) > _magnitude(A[k, k])
            for rows in (A, x):
                upper = np.array(rows[k])
                lower = np.array(rows[i])
                rows[k] = _select(larger, lower, upper)
                rows[i] = _select(larger, upper, lower)
        inverse = 1.0 / A[k, k]
        for i in range(k + 1, n):
            factor = A[i, k] * inverse
            A[i, k + 1 :] = A[i, k + 1 :] - factor * A[k, k + 1 :]
            x[i] = x[i] - factor * x[k]
        A[k, k] = inverse
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            x[k] = x[k] - A[k, j] * x[j]
        x[k] = x[k] * A[k, k]
    return x


def solve_without_pivots(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return x of A x = b, (m,) or (m, columns), by elimination without pivoting.

    For a small pivot x is inaccurate or not finite, which the caller must check. x is zero for structurally
    zero rows.
    """
    m = len(b)
    A = np.array(A, dtype=object)
    b = np.array(b, dtype=object)
    inverse: list[Any] = []
    for k in range(m):
        inverse.append(0.0 if is_zero(A[k, k]) else 1.0 / A[k, k])
        for i in range(k + 1, m):
            if is_zero(A[i, k]):
                continue
            factor = A[i, k] * inverse[k]
            for j in range(k + 1, m):
                if not is_zero(A[k, j]):
                    A[i, j] = A[i, j] - factor * A[k, j]
            b[i] = b[i] - factor * b[k]
    for k in reversed(range(m)):
        for j in range(k + 1, m):
            if not is_zero(A[k, j]):
                b[k] = b[k] - A[k, j] * b[j]
        b[k] = b[k] * inverse[k]
    return b


def _magnitude(x: Any) -> Any:
    return absolute(x) if isinstance(x, Symbol) else abs(float(x))


def _select(condition: Any, a: np.ndarray, b: np.ndarray) -> Any:
    if isinstance(condition, (bool, np.bool_)):
        return a if condition else b
    out = np.empty(np.shape(a), dtype=object)
    for k in np.ndindex(out.shape):
        out[k] = where(condition, a[k], b[k])
    return out if out.shape else out[()]

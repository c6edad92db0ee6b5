"""LᵀDL factorization of symmetric matrices that preserves branch-induced sparsity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import map_rows, sqrt, where
from linkwork.compiler.ir.symbol import Symbol
from linkwork.lazy import cached_property

MAX_UNROLLED_ROWS = 4  # larger systems are solved by a loop over columns


class VanishingRow(ZeroDivisionError):
    """A structurally zero row of a matrix, which has no inverse."""

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row} of the matrix is structurally zero")
        self.row = row


class Factor:
    """M = Lᵀ D L of a symmetric positive definite M, (n, n), with L unit lower triangular.

    It proceeds from the last row to the first (Featherstone): if the rows of a mass matrix are ordered with
    parents before children, no fill-in occurs.

    `dependent`: M may be singular. A row whose pivot is at most this fraction of its diagonal entry depends
    on later rows: `solve` returns zero there, and x is a solution if one exists.
    """

    def __init__(self, M: np.ndarray, *, dependent: Any = None) -> None:
        n = len(M)
        A = np.array(M, dtype=object)
        # Rows of L: column and entry, without zeros.
        self.rows: list[list[tuple[int, Any]]] = [[] for _ in range(n)]
        self.pivots = np.zeros(n, dtype=object)  # D
        self.inverse = np.empty(n, dtype=object)  # of D
        for k in reversed(range(n)):
            if is_zero(A[k, k]):
                if dependent is None:
                    raise VanishingRow(k)
                self.inverse[k] = 0.0
                continue
            self.pivots[k] = A[k, k]
            self.inverse[k] = 1.0 / A[k, k]
            if dependent is not None:
                self.inverse[k] = where(A[k, k] <= dependent * M[k, k], 0.0, self.inverse[k])
            filled = [i for i in range(k) if not is_zero(A[k, i])]
            for i in filled:
                factor = A[k, i] * self.inverse[k]
                self.rows[k].append((i, factor))
                for j in filled:
                    if j <= i:
                        A[i, j] = A[i, j] - factor * A[k, j]

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return x of M x = b, for b of shape (n,) or (n, m)."""
        return self.other_half(self.scaled(self.half(b)))

    def half(self, b: np.ndarray) -> np.ndarray:
        """Return L⁻ᵀ b, the first step of `solve`."""
        x = np.array(b, dtype=object)
        for k in reversed(range(len(x))):
            for i, factor in self.rows[k]:
                x[i] = x[i] - factor * x[k]
        return x

    def scaled(self, b: np.ndarray) -> np.ndarray:
        """Return D⁻¹ b."""
        return (np.array(b, dtype=object).T * self.inverse).T

    def root(self, b: np.ndarray) -> np.ndarray:
        """Return x with xᵀ x = bᵀ M⁻¹ b."""
        return (self.half(b).T * np.array([sqrt(x) for x in self.inverse])).T

    def other_half(self, b: np.ndarray) -> np.ndarray:
        """Return L⁻¹ b, the last step of `solve`."""
        x = np.array(b, dtype=object)
        for k, row in enumerate(self.rows):
            for i, factor in row:
                x[k] = x[k] - factor * x[i]
        return x

    @cached_property
    def inverse_rows(self) -> list[dict[int, Any]]:
        """The rows of L⁻¹ by column, without zeros; as sparse as L for a tree."""
        rows: list[dict[int, Any]] = []
        for i, row in enumerate(self.rows):
            entries: dict[int, Any] = {}
            for k, x in row:
                for s, y in rows[k].items():
                    entries[s] = entries[s] - x * y if s in entries else -(x * y)
            rows.append({**entries, i: 1.0})
        return rows

    @cached_property
    def scaled_rows(self) -> list[dict[int, Any]]:
        """The rows of L⁻¹ D⁻¹ by column, without zeros."""
        return [{s: x * self.inverse[s] for s, x in row.items()} for row in self.inverse_rows]

    def solve_sparse(self, B: np.ndarray, *, negative: bool = False, half: bool = False) -> np.ndarray:
        """Return X of M X = B, (n, m), as sums over common entries of L⁻¹ D⁻¹ rows and L⁻ᵀ B columns.

        Columns with the same sparsity of L⁻ᵀ B, such as those of one limb's joints, are solved by one map.
        `negative`: solve M X = -B. `half`: B is already L⁻ᵀ B.
        """
        X = np.zeros(B.shape, dtype=object)
        scaled = self.scaled_rows
        for filled_rows, columns in self._columns_by_sparsity(B).items():
            reached = [i for i, row in enumerate(scaled) if not row.keys().isdisjoint(filled_rows)]

            def solved(b: np.ndarray, filled_rows: Any = filled_rows, reached: Any = reached) -> np.ndarray:
                y = dict(zip(filled_rows, -b if negative else b))
                for k in reversed(() if half else filled_rows):
                    for i, factor in self.rows[k]:
                        y[i] = y[i] - factor * y[k]
                sums = [
                    sum((scaled[i][s] * y[s] for s in filled_rows if s in scaled[i]), 0.0) for i in reached
                ]
                return np.array(sums, dtype=object)

            rows = B[np.ix_(filled_rows, columns)].T
            X[np.ix_(reached, columns)] = (
                map_rows(solved, rows) if len(X) > MAX_UNROLLED_ROWS else np.array([*map(solved, rows)])
            ).T
        return X

    def _columns_by_sparsity(self, B: np.ndarray) -> dict[tuple[int, ...], list[int]]:
        """Return the columns of B by the nonzero rows of their L⁻ᵀ B, without zero columns."""
        columns_by_rows: dict[tuple[int, ...], list[int]] = {}
        for j, column in enumerate(B.T):
            rows = self.reached([i for i, x in enumerate(column) if not is_zero(x)])
            if rows:
                columns_by_rows.setdefault(rows, []).append(j)
        return columns_by_rows

    def segments(self) -> Iterator[tuple[range, list[int]]]:
        """Yield the columns of M⁻¹ of joints in series, and the rows that L⁻ᵀ fills in the last of them."""
        rows = self.inverse_rows
        first = 0
        for last in range(1, len(rows) + 1):
            if last == len(rows) or not rows[last].keys() >= rows[last - 1].keys():
                yield range(first, last), list(rows[last - 1])
                first = last

    def reached(self, rows: Iterable[int]) -> tuple[int, ...]:
        """Return the rows that L⁻ᵀ b fills if b has these: they and the velocities below them."""
        filled = set(rows)
        for k in reversed(range(len(self.rows))):
            if k in filled:
                filled.update(i for i, _ in self.rows[k])
        return tuple(sorted(filled))

    def inverted(self) -> np.ndarray:
        """Return M⁻¹, (n, n), exactly symmetric."""
        rows = self.inverse_rows
        scaled = self.scaled_rows
        X = np.zeros((len(rows), len(rows)), dtype=object)
        for i, row in enumerate(rows):
            for j in range(i + 1):
                X[i, j] = X[j, i] = sum((x * row[s] for s, x in scaled[j].items() if s in row), 0.0)
        return X


def is_zero(x: Any) -> bool:
    """Return True if an entry is structurally zero."""
    return not isinstance(x, Symbol) and x == 0.0


def nonzero_entries(x: np.ndarray) -> np.ndarray:
    """Return which entries are structurally nonzero, as an array of Booleans."""
    flags = [y != 0.0 if type(y) is float else not is_zero(y) for y in x.ravel().tolist()]
    return np.array(flags, dtype=bool).reshape(x.shape)


def sparse_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a @ b of a matrix and a vector or matrix over symbols, by structurally nonzero terms only.

    The terms are summed in the order of `a @ b`; large sparse matrices take less time to trace.
    """
    if not (a.dtype.hasobject or b.dtype.hasobject):
        return a @ b
    columns = b if b.ndim == 2 else b[:, None]
    used = nonzero_entries(a)
    filled = nonzero_entries(columns)
    result: np.ndarray = np.zeros((len(a), columns.shape[1]), dtype=object)
    for i, row in enumerate(a):
        terms = np.flatnonzero(used[i])
        for j in np.flatnonzero(filled[terms].any(axis=0)):
            total: Any = 0.0
            for k in terms[filled[terms, j]]:
                total = total + row[k] * columns[k, j]
            result[i, j] = total
    return result if b.ndim == 2 else result[:, 0]


def any_nonzero(x: np.ndarray) -> bool:
    """Return True if any entry is structurally nonzero."""
    return not all(is_zero(y) for y in x.ravel())


def count_nonzero_entries(x: np.ndarray) -> int:
    """Return the number of structurally nonzero entries."""
    return sum(not is_zero(y) for y in x.ravel())


def mirrored(M: np.ndarray) -> np.ndarray:
    """Return a matrix with its upper triangle copied to the lower one."""
    return np.triu(M) + np.triu(M, 1).T

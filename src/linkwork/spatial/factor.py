"""Factorisation LᵀDL of symmetric matrices, which keeps the sparsity of a tree (branch-induced sparsity)."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.ir.functions import sqrt, where
from linkwork.ir.symbol import Symbol
from linkwork.lazy import cached_property

TOGETHER = 6  # columns that are solved for at once


class Factor:
    """M = Lᵀ D L for a symmetric positive definite M, (n, n), with L lower triangular and ones on its diagonal.

    It works from the last row to the first, as Featherstone does: where the rows of a mass matrix are ordered with parents
    before children, there is no fill-in.

    `dependent`: M may be singular. A row whose pivot is not above this fraction of its diagonal entry depends on those after
    it: `solve` gives zero there, and x is a solution if there is one.
    """

    def __init__(self, M: np.ndarray, *, dependent: float | None = None) -> None:
        n = len(M)
        A = np.array(M, dtype=object)
        self.rows: list[list[tuple[int, Any]]] = [[] for _ in range(n)]  # of L: column and entry, without zeros
        self.pivots = np.zeros(n, dtype=object)  # D
        self.inverse = np.empty(n, dtype=object)  # of D
        for k in reversed(range(n)):
            if is_zero(A[k, k]):
                if dependent is None:
                    raise ZeroDivisionError(f"row {k} of the matrix vanishes")
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
        """x of M x = b, for b of shape (n,) or (n, m)."""
        return self.other_half(self.scaled(self.half(b)))

    def half(self, b: np.ndarray) -> np.ndarray:
        """L⁻ᵀ b: the first half of `solve`."""
        x = np.array(b, dtype=object)
        for k in reversed(range(len(x))):
            for i, factor in self.rows[k]:
                x[i] = x[i] - factor * x[k]
        return x

    def scaled(self, b: np.ndarray) -> np.ndarray:
        """D⁻¹ b."""
        return (np.array(b, dtype=object).T * self.inverse).T

    def root(self, b: np.ndarray) -> np.ndarray:
        """x with xᵀ x = bᵀ M⁻¹ b."""
        return (self.half(b).T * np.array([sqrt(x) for x in self.inverse])).T

    def other_half(self, b: np.ndarray) -> np.ndarray:
        """L⁻¹ b: the last step of `solve`."""
        x = np.array(b, dtype=object)
        for k, row in enumerate(self.rows):
            for i, factor in row:
                x[k] = x[k] - factor * x[i]
        return x

    @cached_property
    def inverse_rows(self) -> list[dict[int, Any]]:
        """The rows of L⁻¹ by column, without zeros: where L has those of a tree, so has it."""
        rows: list[dict[int, Any]] = []
        for i, row in enumerate(self.rows):
            found: dict[int, Any] = {}
            for k, x in row:
                for s, y in rows[k].items():
                    found[s] = found[s] - x * y if s in found else -(x * y)
            rows.append({**found, i: 1.0})
        return rows

    @cached_property
    def scaled_rows(self) -> list[dict[int, Any]]:
        """The rows of L⁻¹ D⁻¹ by column, without zeros."""
        return [{s: x * self.inverse[s] for s, x in row.items()} for row in self.inverse_rows]

    def solve_sparse(self, B: np.ndarray) -> np.ndarray:
        """X of M X = B, (n, m): entries are sums over what a row of L⁻¹ D⁻¹ and a column of L⁻ᵀ B have in common.

        A few columns after the other: what they need of L⁻ᵀ B then stays near.
        """
        X = np.zeros(B.shape, dtype=object)
        for first in range(0, B.shape[1], TOGETHER):
            Y = self.half(B[:, first : first + TOGETHER])
            filled_rows = [[s for s in range(len(Y)) if not is_zero(Y[s, j])] for j in range(Y.shape[1])]
            for i, row in enumerate(self.scaled_rows):
                for j, filled_row in enumerate(filled_rows):
                    X[i, first + j] = sum((row[s] * Y[s, j] for s in filled_row if s in row), 0.0)
        return X

    def inverted(self) -> np.ndarray:
        """M⁻¹, (n, n), which is symmetric to the last bit."""
        rows, scaled = self.inverse_rows, self.scaled_rows
        X = np.zeros((len(rows), len(rows)), dtype=object)
        for i, row in enumerate(rows):
            for j in range(i + 1):
                X[i, j] = X[j, i] = sum((x * row[s] for s, x in scaled[j].items() if s in row), 0.0)
        return X


def is_zero(x: Any) -> bool:
    """Whether an entry is structurally zero."""
    return not isinstance(x, Symbol) and x == 0.0


def filled(x: np.ndarray) -> bool:
    """Whether any entry is structurally nonzero."""
    return not all(is_zero(y) for y in x.ravel())


def mirrored(M: np.ndarray) -> np.ndarray:
    """A matrix that is symmetric in exact arithmetic, made so by copying its upper triangle to the lower one."""
    return np.triu(M) + np.triu(M, 1).T

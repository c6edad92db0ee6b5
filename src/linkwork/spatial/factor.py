"""Factorisation LᵀDL of symmetric matrices, which keeps the sparsity of a tree (branch-induced sparsity)."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.ir.functions import sqrt
from linkwork.ir.symbol import Symbol


class Factor:
    """M = Lᵀ D L for a symmetric positive definite M, (n, n), with L lower triangular and ones on its diagonal.

    It works from the last row to the first, as Featherstone does: where the rows of a mass matrix are ordered with parents
    before children, there is no fill-in.
    """

    def __init__(self, M: np.ndarray) -> None:
        n = len(M)
        A = np.array(M, dtype=object)
        self.rows: list[list[tuple[int, Any]]] = [[] for _ in range(n)]  # of L: column and entry, without zeros
        self.inverse = np.empty(n, dtype=object)  # of D
        for k in reversed(range(n)):
            if is_zero(A[k, k]):
                raise ZeroDivisionError(f"row {k} of the matrix vanishes")
            self.inverse[k] = 1.0 / A[k, k]
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


def is_zero(x: Any) -> bool:
    """Whether an entry is structurally zero."""
    return not isinstance(x, Symbol) and x == 0.0


def filled(x: np.ndarray) -> bool:
    """Whether any entry is structurally nonzero."""
    return not all(is_zero(y) for y in x.ravel())


def mirrored(M: np.ndarray) -> np.ndarray:
    """A matrix that is symmetric in exact arithmetic, made so by copying its upper triangle to the lower one."""
    return np.triu(M) + np.triu(M, 1).T

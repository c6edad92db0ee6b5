"""Block elimination for inverses of symmetric operators with few blocks, such as compliances of frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.errors import LinkworkError
from linkwork.lazy import cached_property
from linkwork.spatial import Factor, mirrored
from linkwork.spatial.constants import product
from linkwork.spatial_operators.operator import Operator, Parts


class BlockInverse(Operator):
    """The inverse of a symmetric positive definite operator, by elimination of its blocks, the last first."""

    def __init__(self, of: Operator) -> None:
        super().__init__(f"({of.name})^-1", of.columns, of.rows)
        self.of = of
        self._columns: dict[int, Parts] = {}

    @property
    def T(self) -> Operator:
        return self

    @property
    def inverse(self) -> Operator:
        return self.of

    @cached_property
    def _factors(self) -> tuple[list[Factor], dict[tuple[int, int], Any]]:
        """D(k) of each block, and L(k, i) for i < k, with the operator = L* D L."""
        n = len(self.rows)
        filled = self.of.pattern()
        A: dict[tuple[int, int], Any] = {
            (i, j): self.of.entry(i, j) for i in range(n) for j in range(i + 1) if filled[i, j]
        }
        D: list[Any] = [None] * n
        L: dict[tuple[int, int], Any] = {}
        for k in reversed(range(n)):
            try:
                D[k] = Factor(mirrored(A[k, k]))
            except (KeyError, ZeroDivisionError):
                raise LinkworkError(
                    f"{self.of.name} has no inverse: {self.rows.names[k]!r} cannot move by itself"
                ) from None
            related = [i for i in range(k) if (k, i) in A]
            for i in related:
                L[k, i] = D[k].solve(A[k, i])
            for i in related:
                for j in (j for j in related if j <= i):
                    change = product(A[k, i].T, L[k, j])
                    A[i, j] = A[i, j] - change if (i, j) in A else -change
        return D, L

    def times(self, x: Parts) -> Parts:
        D, L = self._factors
        y = list(x)
        for k in reversed(range(len(y))):
            for i in range(k):
                if (k, i) in L:
                    y[i] = y[i] - product(L[k, i].T, y[k])
        y = [factor.solve(part) for factor, part in zip(D, y)]
        for k in range(len(y)):
            for i in range(k):
                if (k, i) in L:
                    y[k] = y[k] - product(L[k, i], y[i])
        return y

    transposed_times = times

    def pattern(self) -> np.ndarray:
        reach = self.of.pattern() | np.eye(len(self.rows), dtype=bool)
        for _ in range(len(self.rows)):
            reach = reach @ reach
        return reach

    def entry(self, i: int, j: int) -> np.ndarray:
        if i < j:
            return self.entry(j, i).T
        if j not in self._columns:
            n = self.rows.rows_of(j)
            unit = [np.zeros((self.rows.rows_of(k), n), dtype=object) for k in range(len(self.rows))]
            unit[j][:] = np.eye(n)
            self._columns[j] = self.times(unit)
        block = self._columns[j][i]
        return mirrored(block) if i == j else block

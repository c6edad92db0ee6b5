"""SKO and SPO operators: a step from each node to its parent, and all such steps (SKO Sec. 2 and 3).

A spatial kernel operator E has one block for each node, the weight that leads to its parent. Its 1-resolvent
(1 - E)⁻¹ is a spatial propagation operator; it exists, since E is nilpotent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linkwork.lazy import cached_property
from linkwork.spatial_operators.identity import Identity
from linkwork.spatial_operators.lyapunov import BackwardLyapunov, ForwardLyapunov
from linkwork.spatial_operators.operator import Operator, Parts, Transposed
from linkwork.spatial_operators.spaces import Space

GROUND = -1  # in the place of a parent

Carry = Callable[[int, Any], Any]


class Kernel(Operator):
    """An SKO operator: Σ e_℘(k) E(℘(k), k) e_k*. `parents` has the number of each node's parent, or GROUND.

    `inward(k, F)` is E(℘(k), k) F and `outward(k, V)` is E*(℘(k), k) V; neither is asked of a node on the
    ground.
    """

    def __init__(
        self, name: str, space: Space, parents: Sequence[int], inward: Carry, outward: Carry
    ) -> None:
        super().__init__(name, space, space)
        self.parents = tuple(parents)
        self.inward = inward
        self.outward = outward

    def _zeros(self, x: Parts) -> Parts:
        columns = x[0].shape[1:] if x else ()
        return [np.zeros((self.rows.rows_of(k), *columns), dtype=object) for k in range(len(self.rows))]

    def times(self, x: Parts) -> Parts:
        y = self._zeros(x)
        for k, parent in enumerate(self.parents):
            if parent != GROUND:
                y[parent] = y[parent] + self.inward(k, x[k])
        return y

    def transposed_times(self, x: Parts) -> Parts:
        y = self._zeros(x)
        for k, parent in enumerate(self.parents):
            if parent != GROUND:
                y[k] = self.outward(k, x[parent])
        return y

    def pattern(self) -> np.ndarray:
        pattern = np.zeros((len(self.rows), len(self.rows)), dtype=bool)
        for k, parent in enumerate(self.parents):
            if parent != GROUND:
                pattern[parent, k] = True
        return pattern

    def entry(self, i: int, j: int) -> np.ndarray:
        return self.inward(j, np.eye(self.rows.rows_of(j)).astype(object))


class Propagation(Operator):
    """An SPO operator A = (1 - E)⁻¹, or Ã = A - 1 = E A where `strict`."""

    def __init__(self, name: str, kernel: Kernel, *, strict: bool = False) -> None:
        super().__init__(name, kernel.rows, kernel.rows)
        self.kernel = kernel
        self.parents = kernel.parents
        self.strict = strict
        self._known: dict[tuple[int, int], np.ndarray] = {}

    @cached_property
    def inverse(self) -> Operator:
        """1 - E."""
        return super().inverse if self.strict else Identity(self.rows) - self.kernel

    def times(self, x: Parts) -> Parts:
        """Return the tips-to-base gather y(k) = Σ A(k, i) y(i) + x(k) (Lemma 1).

        For A itself: Σ A(k, i) (y(i) + x(i)) (Corollary 3.1).
        """
        result = list(x)
        for k in reversed(range(len(x))):
            parent = self.parents[k]
            if parent != GROUND:
                result[parent] = result[parent] + self.kernel.inward(k, result[k])
        return self.kernel.times(result) if self.strict else result

    def transposed_times(self, x: Parts) -> Parts:
        """Return the base-to-tips scatter y(k) = A*(℘(k), k) y(℘(k)) + x(k) (Lemma 2).

        For A itself: A* (y(℘(k)) + x(℘(k))) (Corollary 3.1).
        """
        result = list(x)
        for k, parent in enumerate(self.parents):
            if parent != GROUND:
                result[k] = result[k] + self.kernel.outward(k, result[parent])
        return self.kernel.transposed_times(result) if self.strict else result

    @cached_property
    def _pattern(self) -> np.ndarray:
        mask = np.eye(len(self.rows), dtype=bool)
        for k, parent in enumerate(self.parents):
            if parent != GROUND:
                mask[:, k] |= mask[:, parent]
        return mask & ~np.eye(len(self.rows), dtype=bool) if self.strict else mask

    def pattern(self) -> np.ndarray:
        return self._pattern

    def entry(self, i: int, j: int) -> np.ndarray:
        """Return A(i, j) for a node j and its ancestor i: the product of A(℘(l), l) between them."""
        X = np.eye(self.rows.rows_of(j)).astype(object)
        k = j
        while k != i:
            at = self.parents[k]
            if (at, j) not in self._known:
                self._known[at, j] = self.kernel.inward(k, X)
            X = self._known[at, j]
            k = at
        return X

    def sandwich(self, between: Sequence[Operator], right: Operator) -> Operator | None:
        other = right.of if isinstance(right, Transposed) else None
        if not isinstance(other, Propagation) or self.strict or other.strict:
            return None
        return ForwardLyapunov(self, between, other)

    def transposed_sandwich(self, between: Sequence[Operator], right: Operator) -> Operator | None:
        if not isinstance(right, Propagation) or self.strict or right.strict:
            return None
        return BackwardLyapunov(self, between, right)

"""Lyapunov recursions for A X B* and A* X B with SPO operators A, B and block-diagonal X (SKO Sec. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from linkwork.lazy import cached_property
from linkwork.spatial import mirrored
from linkwork.spatial_operators.operator import Operator, Parts
from linkwork.spatial_operators.products import diagonal_block, palindrome
from linkwork.spatial_operators.spaces import Space

GROUND = -1


class Steps(Protocol):
    """The steps of an SPO operator, from each node to its parent."""

    def inward(self, k: int, F: Any, /) -> Any: ...
    def outward(self, k: int, V: Any, /) -> Any: ...


class Resolvent(Protocol):
    """An SPO operator."""

    name: str
    rows: Space
    parents: tuple[int, ...]

    @property
    def kernel(self) -> Steps: ...
    def times(self, x: Parts) -> Parts: ...
    def transposed_times(self, x: Parts) -> Parts: ...
    def pattern(self) -> np.ndarray: ...


class _Lyapunov(Operator):
    """Common base of both products: diagonal blocks Y, and blocks (i, j) from them along the tree."""

    def __init__(self, name: str, A: Any, between: Sequence[Operator], B: Any) -> None:
        super().__init__(name, A.rows, A.rows)
        self.A: Resolvent = A
        self.B: Resolvent = B
        self.between = between
        self.parents = A.parents
        self._same = A is B and palindrome(between)
        self._known: dict[tuple[int, int], np.ndarray] = {}

    @cached_property
    def T(self) -> Operator:
        return self if self._same else super().T

    def _X(self, k: int) -> np.ndarray:
        return diagonal_block(self.between, self.rows, k)

    def _through(self, x: Parts, *, transposed: bool = False) -> Parts:
        for factor in self.between if transposed else reversed(self.between):
            x = factor.transposed_times(x) if transposed else factor.times(x)
        return x

    def _path(self, k: int) -> list[int]:
        """Return a node and its ancestors."""
        path = []
        while k != GROUND:
            path.append(k)
            k = self.parents[k]
        return path


class ForwardLyapunov(_Lyapunov):
    """Z = A X B* = Y + Ã Y + Y B̃* with X = Y - E_A Y E_B* (SKO Lemmas 3 and 4)."""

    def __init__(self, A: Any, between: Sequence[Operator], B: Any) -> None:
        super().__init__(" @ ".join([A.name, *(f.name for f in between), f"{B.name}.T"]), A, between, B)

    @cached_property
    def Y(self) -> list[np.ndarray]:
        """Y(k) = Σ A(k, j) Y(j) B*(k, j) + X(k), tips to base (Eq. 14).

        For composite inertias this is Algorithm 4.1.
        """
        Y = [self._X(k) for k in range(len(self.rows))]
        for k in reversed(range(len(Y))):
            Y[k] = mirrored(Y[k]) if self._same else Y[k]
            parent = self.parents[k]
            if parent != GROUND:
                Y[parent] = Y[parent] + self.A.kernel.inward(k, self.B.kernel.inward(k, Y[k].T).T)
        return Y

    def times(self, x: Parts) -> Parts:
        return self.A.times(self._through(self.B.transposed_times(x)))

    def transposed_times(self, x: Parts) -> Parts:
        return self.B.times(self._through(self.A.transposed_times(x), transposed=True))

    def pattern(self) -> np.ndarray:
        related: np.ndarray = self.A.pattern()
        return related | related.T

    def entry(self, i: int, j: int) -> np.ndarray:
        """Return Z(i, j) by Eq. 15: the diagonal block of the outer node, along the path to the inner one."""
        if i == j:
            return self.Y[i]
        if self.A.pattern()[i, j]:  # i carries j: A(i, k) Z(k, j)
            return self._along(i, j, lambda k, Z: self.A.kernel.inward(k, Z))
        if self._same:
            return self.entry(j, i).T
        return self._along(
            j, i, lambda k, Z: self.B.kernel.inward(k, Z.T).T, swapped=True
        )  # Z(i, k) B*(j, k)

    def _along(self, inner: int, outer: int, step: Any, *, swapped: bool = False) -> np.ndarray:
        Z = self.Y[outer]
        k = outer
        while k != inner:
            at = self.parents[k]
            key = (outer, at) if swapped else (at, outer)
            if key not in self._known:
                self._known[key] = step(k, Z)
            Z = self._known[key]
            k = at
        return Z


class BackwardLyapunov(_Lyapunov):
    """Z = A* X B = Y + Ã* Y + Y B̃ + R with X = Y - diagOf(E_A* Y E_B) (SKO Lemmas 5 and 6,
    Algorithm 4.3).
    """

    def __init__(self, A: Any, between: Sequence[Operator], B: Any) -> None:
        super().__init__(" @ ".join([f"{A.name}.T", *(f.name for f in between), B.name]), A, between, B)

    @cached_property
    def Y(self) -> list[np.ndarray]:
        """Y(k) = A*(℘(k), k) Y(℘(k)) B(℘(k), k) + X(k), base to tips (Eq. 24)."""
        Y: list[np.ndarray] = []
        for k, parent in enumerate(self.parents):
            block = self._X(k)
            if parent != GROUND:
                block = block + self.A.kernel.outward(k, self.B.kernel.outward(k, Y[parent].T).T)
            Y.append(mirrored(block) if self._same else block)
        return Y

    def times(self, x: Parts) -> Parts:
        return self.A.transposed_times(self._through(self.B.times(x)))

    def transposed_times(self, x: Parts) -> Parts:
        return self.B.transposed_times(self._through(self.A.times(x), transposed=True))

    @cached_property
    def _pattern(self) -> np.ndarray:
        roots = np.array([self._path(k)[-1] for k in range(len(self.rows))])
        return roots[:, None] == roots[None, :]

    def pattern(self) -> np.ndarray:
        return self._pattern

    def entry(self, i: int, j: int) -> np.ndarray:
        """Return Z(i, j) by the four cases of Algorithm 4.3."""
        if i == j:  # case 1
            return self.Y[i]
        related = self.A.pattern()
        if related[j, i]:  # case 2: j carries i, so that Z(j, j) goes out along the path to i
            return self._outward(i, j)
        if related[i, j]:  # case 3: i carries j
            return self.entry(j, i).T if self._same else self._across(i, j, i)
        if self._same and i < j:
            return self.entry(j, i).T
        common = next(
            k for k in self._path(i) if related[k, j]
        )  # case 4: from the closest node that carries both
        return self._across(i, j, common)

    def _outward(self, i: int, j: int) -> np.ndarray:
        """Return Z(j, j) multiplied by A*(℘(l), l) for all l on the path from j out to i."""
        Z = self.Y[j]
        path = self._path(i)
        for k in reversed(path[: path.index(j)]):
            if (k, j) not in self._known:
                self._known[k, j] = self.A.kernel.outward(k, Z)
            Z = self._known[k, j]
        return Z

    def _across(self, i: int, j: int, common: int) -> np.ndarray:
        """Return Z(i, common) multiplied by B(℘(l), l) for all l on the path from there out to j."""
        Z = self._outward(i, common)
        path = self._path(j)
        for k in reversed(path[: path.index(common)]):
            if (i, k) not in self._known:
                self._known[i, k] = self.B.kernel.outward(k, Z.T).T
            Z = self._known[i, k]
        return Z

"""Elimination of loop equations: A x + b = 0 for a sparse A over numbers or symbols, factorised once and
block by block.

The block triangular form of A (Dulmage and Mendelsohn; by maximum matching and strongly connected components,
Duff and Reid) leaves irreducible blocks, each solved after those that it needs. Small ones are solved by
their adjugate, which needs no pivot. Larger ones are made triangular by sparse orthogonal transformations
(QR), column by column, the one that fewest equations have first: legs of a parallel robot before their
platform. It needs no pivots in any state.

A may have more rows than columns, where redundant equations are used: x is then the solution of least
squares, and the solution with the transpose the one of least norm. Both use all equations, so that nothing
depends on a choice among these.

Where a block is singular to rounding, its unknowns, and all that depend on them, are NaN, if sizes of entries
are known.
"""

from __future__ import annotations

from collections.abc import Callable
from math import frexp, isfinite
from typing import Any, Protocol

import numpy as np

from linkwork.compiler.ir.functions import absolute, sqrt, where
from linkwork.compiler.ir.symbol import Symbol
from linkwork.loops.block_triangular import block_triangular_form, tall_block_triangular_form
from linkwork.spatial.factor import is_zero

# entries smaller than their operands by this factor times the rounding error count as zero
COARSE = 1536.0
ROW_SCALE_RATIO = 8.0  # rows smaller than others by this factor are scaled before elimination


class Elimination:
    """A factorised, (m, n) with m ≥ n: `solve` gives x of A x + b = 0, in the sense of least squares.

    `sizes`, (m, n), bound the entries of A, so that singularity can be decided by comparison with
    constants. Without them nothing is compared: of a singular A come infinities and NaN, or large
    numbers.
    """

    def __init__(self, A: np.ndarray, sizes: np.ndarray | None = None) -> None:
        self._m, self._n = np.shape(A)
        self._blocks: list[tuple[list[int], list[int], list[list[tuple[int, Any]]], _Block]] = []
        filled = [[j for j, x in enumerate(row) if not is_zero(x)] for row in A]
        form = (
            tall_block_triangular_form(filled, self._n)
            if self._m > self._n
            else block_triangular_form(filled)
        )
        self.singular = form is None
        done: set[int] = set()
        for rows, columns in form or ():
            known = (
                [[(j, A[i, j]) for j in sorted(done) if not is_zero(A[i, j])] for i in rows]
                if done
                else [[] for _ in rows]
            )
            at = np.ix_(rows, columns)
            self._blocks.append(
                (rows, columns, known, _factorised(A[at], None if sizes is None else sizes[at]))
            )
            done.update(columns)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return x of A x + b = 0, (n,) or (n, k), for b of shape (m,) or (m, k).

        Structural zeros stay zero.
        """
        return self._by_columns(self._solved, b, self._n)

    def solve_transposed(self, b: np.ndarray) -> np.ndarray:
        """Return x of Aᵀ x + b = 0, (m,) or (m, k), for b of shape (n,) or (n, k), by the same factors."""
        return self._by_columns(self._solved_transposed, b, self._m)

    def _by_columns(self, solved: Callable[[np.ndarray], np.ndarray], b: np.ndarray, size: int) -> np.ndarray:
        """Return the solutions of one or several right-hand sides, `size` numbers for each."""
        if self.singular:
            return np.full((size, *np.shape(b)[1:]), np.nan, dtype=object)
        if np.ndim(b) == 1:
            return solved(np.array(np.reshape(b, (len(b), 1)), dtype=object))[:, 0]
        return solved(np.array(b, dtype=object))

    def _solved(self, b: np.ndarray) -> np.ndarray:
        x = np.zeros((self._n, b.shape[1]), dtype=object)
        for rows, columns, known, block in self._blocks:
            rhs = b[rows]
            for i, entries in enumerate(known):
                for j, entry in entries:
                    rhs[i] = rhs[i] + entry * x[j]
            x[columns] = block.solve(rhs)
        return x

    def _solved_transposed(self, rhs: np.ndarray) -> np.ndarray:
        """Return the transposed solution, last block first, updating the remaining right-hand sides."""
        x = np.zeros((self._m, rhs.shape[1]), dtype=object)
        for rows, columns, known, block in reversed(self._blocks):
            x[rows] = block.solve_transposed(rhs[columns])
            for i, entries in zip(rows, known):
                for j, entry in entries:
                    rhs[j] = rhs[j] + entry * x[i]
        return x


class _Block(Protocol):
    """An irreducible block, factorised."""

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return the solution for b, (n, m)."""
        ...

    def solve_transposed(self, b: np.ndarray) -> np.ndarray:
        """Return the solution of the transposed system for b, (n, m)."""
        ...


def _factorised(A: np.ndarray, sizes: np.ndarray | None) -> _Block:
    if len(A) > A.shape[1]:
        return _Triangular(A, sizes)
    if len(A) == 1:
        return _One(A[0, 0], None if sizes is None else float(sizes[0, 0]))
    if len(A) == 2:
        return _Two(
            A, None if sizes is None else float(sizes[0, 0] * sizes[1, 1] + sizes[0, 1] * sizes[1, 0])
        )
    return _Triangular(A, sizes)


def negative_reciprocal(x: Any, size: float | None) -> Any:
    """Return -1 / x, or NaN if x is rounding error relative to `size`; without size, if x is zero."""
    if not isinstance(x, Symbol) and x == 0.0:
        return np.nan
    return _guarded(-1.0 / x, x, size)


def _guarded(inverse: Any, x: Any, size: float | None) -> Any:
    """Return an inverse, or NaN if x is below about 1e-13 of `size` (1e-4 in single precision)."""
    if size is None or not 0.0 < size < np.inf:
        return inverse
    large = COARSE * size
    return where(x + large == large, np.nan, inverse)


class _One:
    def __init__(self, a: Any, size: float | None) -> None:
        self._inverse = negative_reciprocal(a, size)

    def solve(self, b: np.ndarray) -> np.ndarray:
        return b * self._inverse

    solve_transposed = solve


class _Two:
    """By the adjugate: forward errors are those that the condition allows,
    for rows and columns of any scale.
    """

    def __init__(self, A: np.ndarray, size: float | None) -> None:
        """`size` is that of the products in its determinant, if it is known."""
        (a, b), (c, d) = A
        self._adjugate = np.array([[d, -b], [-c, a]], dtype=object)
        self._inverse = negative_reciprocal(a * d - b * c, size)
        self._scaled = False

    def solve(self, b: np.ndarray) -> np.ndarray:
        b = self._scaled_by_inverse(b)
        return self._adjugate @ b

    def solve_transposed(self, b: np.ndarray) -> np.ndarray:
        b = self._scaled_by_inverse(b)
        return self._adjugate.T @ b

    def _scaled_by_inverse(self, b: np.ndarray) -> np.ndarray:
        """Return b over the determinant, or b if the adjugate becomes the inverse.

        The latter takes fewer operations if b has many entries.
        """
        if sum(not is_zero(x) for x in b.ravel()) > 2 and not self._scaled:
            self._adjugate = self._adjugate * self._inverse
            self._scaled = True
        return b if self._scaled else b * self._inverse


class _Triangular:
    """By orthogonal transformations of the rows that have a column, which leave it to one of them (QR).

    A column is done when few rows have it, so that rows fill up late. Rows of two are turned (Givens), more
    are reflected (Householder). Steps are remembered, and done to right-hand sides when these come. Each
    pivot is compared with the length of its column.
    """

    def __init__(self, A: np.ndarray, sizes: np.ndarray | None) -> None:
        scale = _row_scales(sizes) if sizes is not None else np.ones(len(A))
        self._scale = scale
        rows: list[dict[int, Any]] = [
            {j: x if s == 1.0 else x * s for j, x in enumerate(row) if not is_zero(x)}
            for row, s in zip(A, scale)
        ]
        lengths = None if sizes is None else np.sqrt(np.sum((sizes * scale[:, None]) ** 2, axis=0))
        self._m, self._n = A.shape
        self._lengths = [None] * self._n if lengths is None else lengths.tolist()
        self._steps: list[_Step] = []
        self._upper: list[
            tuple[int, int, Any, list[tuple[int, Any]]]
        ] = []  # column, row, inverse pivot, others of the row
        remaining = list(range(self._m))
        for _ in range(self._n):
            column, having = _cheapest(rows, remaining)
            self._eliminate(rows, column, having)
            remaining.remove(self._upper[-1][1])

    def _eliminate(self, rows: list[dict[int, Any]], column: int, having: list[int]) -> None:
        entries = [rows[i].pop(column) for i in having]
        step = _step(having, entries)
        others = sorted({j for i in having for j in rows[i]})
        for j in others if len(having) > 1 else ():
            for i, x in zip(having, step.done([rows[i].get(j, 0.0) for i in having])):
                if is_zero(x):
                    rows[i].pop(j, None)
                else:
                    rows[i][j] = x
        if len(having) > 1:
            self._steps.append(step)
        keeper = having[0]
        inverse = _guarded(step.inverse, step.length, self._lengths[column])
        self._upper.append((column, keeper, inverse, sorted(rows[keeper].items())))

    def solve(self, b: np.ndarray) -> np.ndarray:
        x = [row if s == 1.0 else row * s for row, s in zip(b, self._scale)]
        for step in self._steps:
            for i, row in zip(step.rows, step.done([x[i] for i in step.rows])):
                x[i] = row
        y = np.zeros((self._n, *np.shape(b)[1:]), dtype=object)
        for column, row, inverse, others in reversed(self._upper):
            rhs = x[row]
            for j, entry in others:
                rhs = rhs + entry * y[j]
            y[column] = rhs * inverse
        return y

    def solve_transposed(self, b: np.ndarray) -> np.ndarray:
        rhs = list(b)
        x = [np.zeros(np.shape(b)[1:], dtype=object) for _ in range(self._m)]
        for column, row, inverse, others in self._upper:
            x[row] = rhs[column] * inverse
            for j, entry in others:
                rhs[j] = rhs[j] + entry * x[row]
        for step in reversed(self._steps):
            for i, back in zip(step.rows, step.done([x[i] for i in step.rows])):
                x[i] = back
        return np.array([row if s == 1.0 else row * s for row, s in zip(x, self._scale)], dtype=object)


class _Step(Protocol):
    """A symmetric orthogonal transformation of rows that leaves one column in the first of them only."""

    rows: list[int]
    length: Any  # what is left of the column in the first row, without its sign
    inverse: Any  # -1 over that, with its sign

    def done(self, x: list[Any]) -> list[Any]:
        """Return entries (or right-hand sides) of these rows, transformed."""
        ...


class _Alone:
    def __init__(self, rows: list[int], entries: list[Any]) -> None:
        self.rows = rows
        self.length, self.inverse = absolute(entries[0]), negative_reciprocal(entries[0], None)

    def done(self, x: list[Any]) -> list[Any]:
        return x


class _Rotation:
    """Of two rows (Givens): it takes their entries to (-length, 0)."""

    def __init__(self, rows: list[int], entries: list[Any]) -> None:
        self.rows = rows
        a, b = entries
        self.length = sqrt(a * a + b * b)
        self.inverse = 1.0 / self.length if isinstance(self.length, Symbol) or self.length else np.nan
        self._c = a * self.inverse
        self._s = b * self.inverse

    def done(self, x: list[Any]) -> list[Any]:
        u, v = x
        return [-(self._c * u) - self._s * v, self._c * v - self._s * u]


class _Reflection:
    """A Householder reflection of several rows.

    It maps their entries x to (e, 0, ...), with e = ∓ length, by y + v (w · y). That is y - d (d · y) / β
    with d = (x_0 - e, x_1, ...) and β = d · d / 2 = -e d_0: v = -d / d_0 and w = -d / e.
    """

    def __init__(self, rows: list[int], entries: list[Any]) -> None:
        self.rows = rows
        first = entries[0]
        others = entries[1:]
        self.length = sqrt(sum(x * x for x in entries))
        end = where(first < 0.0, self.length, -self.length)  # no digits cancel in x_0 - e
        self.inverse = negative_reciprocal(end, None)
        over = negative_reciprocal(first - end, None)
        self._v = [-1.0, *(x * over for x in others)]
        self._w = [(first - end) * self.inverse, *(x * self.inverse for x in others)]

    def done(self, x: list[Any]) -> list[Any]:
        along: Any = 0.0
        for w, y in zip(self._w, x):
            along = along + w * y
        return [y + v * along for v, y in zip(self._v, x)]


def _step(rows: list[int], entries: list[Any]) -> _Step:
    return (_Alone, _Rotation, _Reflection)[min(len(rows), 3) - 1](rows, entries)


def _cheapest(rows: list[dict[int, Any]], remaining: list[int]) -> tuple[int, list[int]]:
    """Return the remaining column with the fewest numbers to transform, and its rows."""
    having: dict[int, list[int]] = {}
    for i in remaining:
        for j in rows[i]:
            having.setdefault(j, []).append(i)

    def work(j: int) -> tuple[int, int]:
        width = len({c for i in having[j] for c in rows[i]})
        return (len(having[j]) - 1) * width, j

    best = min(having, key=work)
    return best, having[best]


def _row_scales(sizes: np.ndarray) -> np.ndarray:
    """Return powers of two that balance rows of different sizes, as of lengths beside angles."""
    largest = sizes.max(axis=1)
    most = float(largest.max())
    return np.array(
        [_power(most / x) if x > 0.0 and most > ROW_SCALE_RATIO * x else 1.0 for x in largest.tolist()]
    )


def _power(x: float) -> float:
    """Return the power of two below x."""
    return 2.0 ** (frexp(x)[1] - 1)


def rounded_up(sizes: np.ndarray) -> np.ndarray:
    """Return sizes rounded up to powers of two, so that their last bits do not matter."""
    return np.array(
        [2.0 ** frexp(1.37 * x)[1] if x > 0.0 and isfinite(x) else 0.0 for x in sizes.ravel()]
    ).reshape(sizes.shape)

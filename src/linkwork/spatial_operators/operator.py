"""Operators between spaces of stacked vectors: lazy sums, products and transposes."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from operator import add
from typing import Any

import numpy as np

from linkwork.compiler.ir.symbol import Symbol
from linkwork.errors import LinkworkError
from linkwork.lazy import cached_property
from linkwork.spatial import Factor, mirrored
from linkwork.spatial.constants import product
from linkwork.spatial.solve import solve
from linkwork.spatial_operators.products import palindrome, product_block, reduced_factors
from linkwork.spatial_operators.spaces import Space, check_compatible, numbers
from linkwork.spatial_operators.sparsity import Sparsity

Parts = list[Any]
"""The blocks of a stacked vector."""


class Operator(ABC):
    """A linear map from the stacked vectors of `columns` to those of `rows`, in blocks by pairs of nodes.

    `@` with a stacked vector, (n,), or several as columns, (n, m), returns the product; with an operator, an
    operator. Also `.T`, `+`, `-` and multiplication by a number; `inverse` where it has a closed form;
    `block`, `diagonal_part` and `dense()` for numbers, and `sparsity()` for the pattern of the tree.
    """

    __array_ufunc__ = None  # NumPy leaves x @ operator to us
    diagonal = False  # whether it is block-diagonal

    def __init__(self, name: str, rows: Space, columns: Space) -> None:
        self.name = name
        self.rows = rows
        self.columns = columns

    @abstractmethod
    def times(self, x: Parts) -> Parts:
        """Return the blocks of the product with a stacked vector, given its blocks."""

    @abstractmethod
    def transposed_times(self, x: Parts) -> Parts:
        """Return the blocks of the product of the transpose with a stacked vector."""

    @abstractmethod
    def pattern(self) -> np.ndarray:
        """Return a boolean for each pair of blocks: whether the tree can fill it."""

    @abstractmethod
    def entry(self, i: int, j: int) -> np.ndarray:
        """Return the block in row i and column j, which must be in the pattern."""

    def sandwich(self, between: Sequence[Operator], right: Operator) -> Operator | None:
        """Return self X right with block-diagonal X, if a recursion exists (SKO Sec. 4)."""
        return None

    @property
    def symmetric(self) -> bool:
        """True if the operator is known to be symmetric."""
        return self.T is self

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of its matrix."""
        return self.rows.size, self.columns.size

    @cached_property
    def T(self) -> Operator:
        """Transpose, the star of SKO."""
        return Transposed(self)

    @property
    def inverse(self) -> Operator:
        """Inverse, for operators with a closed form."""
        raise LinkworkError(f"{self.name} has no inverse in closed form")

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Operator):
            check_compatible(self.columns, other.rows, f"{self.name} @ {other.name}")
            return Product([*self.factors, *other.factors])
        return self.rows.stacked(self.times(self.columns.parts(other)))

    def __rmatmul__(self, x: Any) -> Any:
        array = np.asarray(x)
        return (self.T @ array.T).T

    @property
    def factors(self) -> Sequence[Operator]:
        """Factors of a product; otherwise the operator itself."""
        return (self,)

    @property
    def terms(self) -> Sequence[Operator]:
        """Terms of a sum; otherwise the operator itself."""
        return (self,)

    def __add__(self, other: Any) -> Operator:
        if not isinstance(other, Operator):
            return NotImplemented
        for one, another in ((self.rows, other.rows), (self.columns, other.columns)):
            check_compatible(one, another, f"{self.name} + {other.name}")
        return Sum([*self.terms, *other.terms])

    def __sub__(self, other: Any) -> Operator:
        return self + (-other) if isinstance(other, Operator) else NotImplemented

    def __neg__(self) -> Operator:
        return Scaled(-1.0, self)

    def __mul__(self, factor: Any) -> Operator:
        return Scaled(factor, self) if isinstance(factor, (int, float, np.number, Symbol)) else NotImplemented

    __rmul__ = __mul__

    def block(self, row: Any, column: Any) -> np.ndarray:
        """Return one block, by names or numbers of its row and column; zero outside the pattern."""
        i = self.rows.place(row)
        j = self.columns.place(column)
        if not self.pattern()[i, j]:
            return np.zeros((self.rows.rows_of(i), self.columns.rows_of(j)))
        return numbers(np.array(self.entry(i, j), dtype=object))

    def blocks(self, rows: Sequence[Any], columns: Sequence[Any]) -> np.ndarray:
        """Return the matrix of the blocks of some nodes, by names or numbers, stacked in the order given.

        Of two `Operators.segments` it is a block of SKO Eq. 61 to 63. Of any groups of nodes it is a block of
        the same operator of the tree in which each group is aggregated to one node.
        """
        return np.block([[self.block(row, column) for column in columns] for row in rows])

    def dense(self) -> np.ndarray:
        """Return the matrix, (rows, columns)."""
        matrix = np.zeros(self.shape, dtype=object)
        for i, j in zip(*np.nonzero(self.pattern())):
            matrix[self.rows.slices[i], self.columns.slices[j]] = self.entry(int(i), int(j))
        return numbers(matrix)

    def diagonal_part(self) -> Operator:
        """Return the block-diagonal operator of the diagonal blocks (diagOf)."""
        if len(self.rows) != len(self.columns):
            raise LinkworkError(
                f"{self.name} has no diagonal blocks: it maps {self.columns.quantity} to {self.rows.quantity}"
            )
        factors = self.reduced if isinstance(self, Product) else [self]
        operator = factors[0] if len(factors) == 1 else self
        pattern = operator.pattern()

        def block(k: int) -> np.ndarray:
            if pattern[k, k]:
                return operator.entry(k, k)
            return np.zeros((self.rows.rows_of(k), self.columns.rows_of(k)), dtype=object)

        same = self.symmetric or operator.symmetric
        return BlockDiagonal(f"diag({self.name})", self.rows, self.columns, block, symmetric=same)

    def sparsity(self) -> Sparsity:
        """Return the pattern by serial-chain segments, to print or draw (SKO Sec. 7)."""
        return Sparsity(
            self.name,
            self.pattern(),
            (self.rows.names, self.columns.names),
            (self.rows.segment, self.columns.segment),
        )

    def __repr__(self) -> str:
        (n, m), (i, j) = self.shape, (len(self.rows), len(self.columns))
        return f"<linkwork operator {self.name}: {n} x {m} in {i} x {j} blocks>"


class Transposed(Operator):
    """The transpose of an operator."""

    def __init__(self, of: Operator) -> None:
        name = f"({of.name}).T" if " " in of.name else f"{of.name}.T"
        super().__init__(name, of.columns, of.rows)
        self.of = of
        self.diagonal = of.diagonal

    @property
    def T(self) -> Operator:
        return self.of

    @property
    def inverse(self) -> Operator:
        return self.of.inverse.T

    def times(self, x: Parts) -> Parts:
        return self.of.transposed_times(x)

    def transposed_times(self, x: Parts) -> Parts:
        return self.of.times(x)

    def pattern(self) -> np.ndarray:
        return self.of.pattern().T

    def entry(self, i: int, j: int) -> np.ndarray:
        return self.of.entry(j, i).T

    def sandwich(self, between: Sequence[Operator], right: Operator) -> Operator | None:
        find = getattr(self.of, "transposed_sandwich", None)
        return None if find is None else find(between, right)


class BlockDiagonal(Operator):
    """A block-diagonal operator; `block(k)` returns the block of node k and is called once.

    `quick` and `quick_transposed` multiply block k or its transpose by a vector without the block.
    """

    diagonal = True

    def __init__(
        self,
        name: str,
        rows: Space,
        columns: Space,
        block: Callable[[int], np.ndarray],
        *,
        symmetric: bool = False,
        quick: Callable[[int, Any], Any] | None = None,
        quick_transposed: Callable[[int, Any], Any] | None = None,
    ) -> None:
        super().__init__(name, rows, columns)
        self._block = block
        self._symmetric = symmetric
        self._blocks: dict[int, np.ndarray] = {}
        self._quick = quick
        self._quick_transposed = quick if symmetric else quick_transposed

    @cached_property
    def T(self) -> Operator:
        return self if self._symmetric else Transposed(self)

    def entry(self, i: int, j: int) -> np.ndarray:
        if i not in self._blocks:
            self._blocks[i] = np.array(self._block(i), dtype=object)
        return self._blocks[i]

    def times(self, x: Parts) -> Parts:
        if self._quick is not None:
            return [self._quick(k, part) for k, part in enumerate(x)]
        return [product(self.entry(k, k), part) for k, part in enumerate(x)]

    def transposed_times(self, x: Parts) -> Parts:
        if self._quick_transposed is not None:
            return [self._quick_transposed(k, part) for k, part in enumerate(x)]
        return [product(self.entry(k, k).T, part) for k, part in enumerate(x)]

    def pattern(self) -> np.ndarray:
        return np.eye(len(self.rows), dtype=bool)

    @cached_property
    def inverse(self) -> Operator:
        if any(self.rows.rows_of(k) != self.columns.rows_of(k) for k in range(len(self.rows))):
            return super().inverse
        factors: dict[int, Factor] = {}

        def solved(k: int, x: Any) -> Any:
            if not self._symmetric:
                return solve(self.entry(k, k), x)
            if k not in factors:
                try:
                    factors[k] = Factor(self.entry(k, k))
                except ZeroDivisionError:
                    raise LinkworkError(
                        f"{self.name} has no inverse: its block of {self.rows.names[k]!r} is singular"
                    ) from None
            return factors[k].solve(x)

        def inverted(k: int) -> np.ndarray:
            return solved(k, np.eye(self.rows.rows_of(k)).astype(object))

        quick = solved if self._symmetric else None
        return BlockDiagonal(
            f"{self.name}^-1", self.columns, self.rows, inverted, symmetric=self._symmetric, quick=quick
        )


class Scaled(Operator):
    """A number times an operator."""

    def __init__(self, factor: Any, of: Operator) -> None:
        prefix = "-" if isinstance(factor, float) and factor == -1.0 else f"{factor} "
        super().__init__(f"{prefix}{of.name}", of.rows, of.columns)
        self.factor = factor
        self.of = of
        self.diagonal = of.diagonal

    @cached_property
    def T(self) -> Operator:
        return self if self.of.symmetric else Scaled(self.factor, self.of.T)

    def times(self, x: Parts) -> Parts:
        return [self.factor * part for part in self.of.times(x)]

    def transposed_times(self, x: Parts) -> Parts:
        return [self.factor * part for part in self.of.transposed_times(x)]

    def pattern(self) -> np.ndarray:
        return self.of.pattern()

    def entry(self, i: int, j: int) -> np.ndarray:
        return self.factor * self.of.entry(i, j)


class Sum(Operator):
    """A sum of operators."""

    def __init__(self, terms: Sequence[Operator]) -> None:
        label = "".join(
            f" - {t.name[1:]}" if k and t.name.startswith("-") else f"{' + ' * bool(k)}{t.name}"
            for k, t in enumerate(terms)
        )
        super().__init__(label, terms[0].rows, terms[0].columns)
        self._terms = tuple(terms)
        self.diagonal = all(term.diagonal for term in terms)

    @property
    def terms(self) -> Sequence[Operator]:
        return self._terms

    @cached_property
    def T(self) -> Operator:
        return self if all(term.symmetric for term in self._terms) else Sum([term.T for term in self._terms])

    def _summed(self, each: list[Parts]) -> Parts:
        return [functools.reduce(add, parts) for parts in zip(*each)]

    def times(self, x: Parts) -> Parts:
        return self._summed([term.times(x) for term in self._terms])

    def transposed_times(self, x: Parts) -> Parts:
        return self._summed([term.transposed_times(x) for term in self._terms])

    def pattern(self) -> np.ndarray:
        return np.logical_or.reduce([term.pattern() for term in self._terms])

    def entry(self, i: int, j: int) -> np.ndarray:
        return functools.reduce(add, [term.entry(i, j) for term in self._terms if term.pattern()[i, j]])


class Product(Operator):
    """A product of operators; blocks come from Lyapunov recursions if possible."""

    def __init__(self, factors: Sequence[Operator]) -> None:
        label = " @ ".join(f"({f.name})" if " " in f.name else f.name for f in factors)
        super().__init__(label, factors[0].rows, factors[-1].columns)
        self._factors = tuple(factors)
        self.diagonal = all(factor.diagonal for factor in factors)
        self._blocks: dict[tuple[int, int], np.ndarray] = {}

    @property
    def factors(self) -> Sequence[Operator]:
        return self._factors

    @cached_property
    def T(self) -> Operator:
        if palindrome(self._factors):
            return self
        return Product([factor.T for factor in reversed(self._factors)])

    @property
    def inverse(self) -> Operator:
        return Product([factor.inverse for factor in reversed(self._factors)])

    def times(self, x: Parts) -> Parts:
        for factor in reversed(self._factors):
            x = factor.times(x)
        return x

    def transposed_times(self, x: Parts) -> Parts:
        for factor in self._factors:
            x = factor.transposed_times(x)
        return x

    @cached_property
    def reduced(self) -> Sequence[Operator]:
        """The factors, with every A X B* and A* X B as one (SKO Lemmas 3 and 5)."""
        return reduced_factors(self._factors)

    def pattern(self) -> np.ndarray:
        return self._pattern

    @cached_property
    def _pattern(self) -> np.ndarray:
        return functools.reduce(np.matmul, [factor.pattern() for factor in self.reduced])

    def entry(self, i: int, j: int) -> np.ndarray:
        if self.symmetric and i < j:
            return self.entry(j, i).T
        if (i, j) not in self._blocks:
            block = product_block(self.reduced, i, j)
            self._blocks[i, j] = mirrored(block) if self.symmetric and i == j else block
        return self._blocks[i, j]

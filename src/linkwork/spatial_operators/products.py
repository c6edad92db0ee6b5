"""Blocks of products of operators, from the blocks of their factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.spatial.constants import product

if TYPE_CHECKING:
    from linkwork.spatial_operators.operator import Operator
    from linkwork.spatial_operators.spaces import Space


def reduced_factors(factors: Sequence[Operator]) -> Sequence[Operator]:
    """Return the factors of a product, with every A X B* and A* X B as one (SKO Lemmas 3 and 5)."""
    reduced = list(factors)
    i = 0
    while i < len(reduced):
        end = i + 1
        while end < len(reduced) and reduced[end].diagonal:
            end += 1
        sandwich = reduced[i].sandwich(reduced[i + 1 : end], reduced[end]) if end < len(reduced) else None
        if sandwich is not None:
            reduced[i : end + 1] = [sandwich]
        i += 1
    return reduced


def product_block(factors: Sequence[Operator], i: int, j: int) -> np.ndarray:
    """Return block (i, j) of a product, from those blocks of its factors that contribute to it."""
    reachable = [np.zeros(len(factors[-1].columns), dtype=bool)]
    reachable[0][j] = True
    for factor in reversed(factors[1:]):
        reachable.append(factor.pattern() @ reachable[-1])
    reachable.reverse()  # of each factor's columns, those that lead to j
    row: dict[int, Any] = {}
    first = factors[0]
    for k in np.nonzero(first.pattern()[i] & reachable[0])[0]:
        row[int(k)] = first.entry(i, int(k))
    for factor, contributing in zip(factors[1:], reachable[1:]):
        next_row: dict[int, Any] = {}
        pattern = factor.pattern()
        for column, block in row.items():
            for m in map(int, np.nonzero(pattern[column] & contributing)[0]):
                term = product(block, factor.entry(column, m))
                next_row[m] = next_row[m] + term if m in next_row else term
        row = next_row
    return row[j]


def palindrome(factors: Sequence[Operator]) -> bool:
    """Return whether a product is symmetric because it reads the same from both ends: H A M A* H*."""
    return all(one.T is other for one, other in zip(factors, reversed(factors)))


def diagonal_block(factors: Sequence[Operator], space: Space, k: int) -> np.ndarray:
    """Return block k of a product of block-diagonal operators; identity if there are none."""
    result: Any = None
    for factor in factors:
        block = factor.entry(k, k)
        result = block if result is None else product(result, block)
    return np.eye(space.rows_of(k)).astype(object) if result is None else result

"""Sums and merges whose bits depend on the samples alone, not on chunks, workers or the order in which they
finish.

Samples are cut into blocks of a fixed size, counted from sample 0. Each block is summarised by itself, and
summaries are merged along one binary tree over the blocks' numbers: node (level, k) covers blocks k 2**level
to (k + 1) 2**level - 1. Every worker computes a node by the same merges. If the number of blocks is not a
power of two, the remaining nodes are merged from the right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import numpy as np

State = dict[str, np.ndarray]
T = TypeVar("T")

BLOCK = 1024  # samples


def block_size(group: int) -> int:
    """Return the samples of a block that holds whole groups."""
    return group * max(1, BLOCK // group)


def tree_nodes(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the (level, number) of the fewest nodes that cover blocks `first` to `last - 1`, from left to
    right.
    """
    while first < last:
        level = (first & -first).bit_length() - 1 if first else (last - first).bit_length() - 1
        while first + (1 << level) > last:
            level -= 1
        yield level, first >> level
        first += 1 << level


class MergeTree(Generic[T]):
    """Summaries of nodes that arrive in any order, merged as soon as both halves of a node are there."""

    def __init__(self, merge: Callable[[T, T], T]) -> None:
        self._merge = merge
        self._nodes: dict[tuple[int, int], T] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, level: int, number: int, summary: T) -> None:
        """Add the summary of a node."""
        while (level, number ^ 1) in self._nodes:
            sibling = self._nodes.pop((level, number ^ 1))
            summary = self._merge(summary, sibling) if number % 2 == 0 else self._merge(sibling, summary)
            level = level + 1
            number = number >> 1
        self._nodes[level, number] = summary

    def total(self) -> T | None:
        """Return the summary of everything so far, or None."""
        ordered = sorted(self._nodes.items(), key=lambda item: item[0][1] << item[0][0])
        if not ordered:
            return None
        *remaining, (_, total) = ordered
        for _, summary in reversed(remaining):
            total = self._merge(summary, total)
        return total


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounded sum, and what rounding lost (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add_compensated(
    a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of two compensated sums."""
    total, lost = two_sum(a[0], b[0])
    return total, (a[1] + b[1]) + lost


def sum_blocks(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the compensated sums over axis 1 of x, (blocks, size, ...): upper and lower half,
    over and over.
    """
    size = 1 << (x.shape[1] - 1).bit_length() if x.shape[1] else 1
    if size != x.shape[1]:
        x = np.concatenate([x, np.zeros((len(x), size - x.shape[1], *x.shape[2:]))], axis=1)
    lost = np.zeros_like(x[:, :1])
    first = True
    while size > 1:
        size //= 2
        x, error = two_sum(x[:, :size], x[:, size:])
        lost = error if first else (lost[:, :size] + lost[:, size:]) + error
        first = False
    return x[:, 0], lost[:, 0]


def fold_pairs(state: State, merge: Callable[[State, State], State]) -> State:
    """Merge stacked summaries of 2**n neighbouring blocks, arrays (blocks, ...), down to one."""
    while len(next(iter(state.values()))) > 1:
        state = merge({k: x[0::2] for k, x in state.items()}, {k: x[1::2] for k, x in state.items()})
    return state

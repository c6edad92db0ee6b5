"""The block triangular form of a sparse square matrix, from where its entries are alone.

Maximum matching of rows and columns by augmenting paths, then strongly connected components (Tarjan), as in Duff and Reid,
An implementation of Tarjan's algorithm for the block triangularization of a matrix (1978): for a matrix with a perfect
matching that is the fine decomposition of Dulmage and Mendelsohn. Neither recurses, so matrices may be large.
"""

from __future__ import annotations

from collections.abc import Sequence

Block = tuple[list[int], list[int]]  # its rows and columns, both in order


def block_triangular_form(filled: Sequence[Sequence[int]]) -> list[Block] | None:
    """The irreducible blocks of a matrix whose row i has entries in the columns `filled[i]`, each after those it needs.

    The columns of a row outside of its block belong to blocks before it. None where no permutation fills the diagonal: then
    the matrix is singular, whatever its numbers are.
    """
    matched = maximum_matching(filled)
    if len(matched) < len(filled):
        return None
    row_of = {column: row for row, column in matched.items()}
    needs = [[row_of[j] for j in columns] for columns in filled]
    return [(sorted(rows), sorted(matched[i] for i in rows)) for rows in strong_components(needs)]


def maximum_matching(filled: Sequence[Sequence[int]]) -> dict[int, int]:
    """As many rows as possible, each with a column of its own: row -> column."""
    row_of: dict[int, int] = {}
    column_of: dict[int, int] = {}
    for start in range(len(filled)):
        came: dict[int, int] = {}  # column -> the row that reached it
        stack: list[int] = [start]
        end: int | None = None
        while stack and end is None:
            row = stack.pop()
            for column in filled[row]:
                if column in came:
                    continue
                came[column] = row
                if column not in row_of:
                    end = column
                    break
                stack.append(row_of[column])
        while end is not None:  # swap along the augmenting path
            row = came[end]
            before = column_of.get(row)
            row_of[end], column_of[row] = row, end
            end = before
    return column_of


def strong_components(needs: Sequence[Sequence[int]]) -> list[list[int]]:
    """The strongly connected components of a graph, each after all that it can reach (Tarjan)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: list[int] = []
    closed: set[int] = set()
    found: list[list[int]] = []
    for start in range(len(needs)):
        if start in order:
            continue
        order[start] = low[start] = len(order)
        open_.append(start)
        path = [(start, iter(needs[start]))]
        while path:
            node, others = path[-1]
            for other in others:
                if other not in order:
                    order[other] = low[other] = len(order)
                    open_.append(other)
                    path.append((other, iter(needs[other])))
                    break
                if other not in closed:
                    low[node] = min(low[node], order[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    at = open_.index(node)
                    found.append(open_[at:])
                    closed.update(open_[at:])
                    del open_[at:]
    return found

"""The block triangular form of a sparse square matrix, from where its entries are alone.

Maximum matching of rows and columns by augmenting paths, then strongly connected components (Tarjan), as in
Duff and Reid, An implementation of Tarjan's algorithm for the block triangularization of a matrix (1978): for
a matrix with a perfect matching that is the fine decomposition of Dulmage and Mendelsohn. Neither recurses,
so matrices may be large.
"""

from __future__ import annotations

from collections.abc import Sequence

Block = tuple[list[int], list[int]]  # its rows and columns, both in order


def block_triangular_form(filled: Sequence[Sequence[int]]) -> list[Block] | None:
    """Return the irreducible blocks of a matrix, each after the blocks it depends on.

    Row i has entries in the columns `filled[i]`; those outside its block belong to earlier blocks. None if no
    permutation fills the diagonal, so that the matrix is structurally singular.
    """
    matched = maximum_matching(filled)
    if len(matched) < len(filled):
        return None
    row_of = {column: row for row, column in matched.items()}
    needs = [[row_of[j] for j in columns] for columns in filled]
    return [(sorted(rows), sorted(matched[i] for i in rows)) for rows in strong_components(needs)]


def tall_block_triangular_form(filled: Sequence[Sequence[int]], columns: int) -> list[Block] | None:
    """Return the blocks of a matrix with at least as many rows as columns, overdetermined ones first.

    The overdetermined part (the coarse decomposition of Dulmage and Mendelsohn) consists of all rows
    connected to a row without a column of its own. Its rows have no entries elsewhere, so that the other
    blocks can be solved exactly. Rows without entries are left out. None if some columns cannot have a row of
    their own.
    """
    matched = maximum_matching(filled)
    if len(matched) < columns:
        return None
    row_of = {column: row for row, column in matched.items()}
    spare = [row for row in range(len(filled)) if row not in matched and len(filled[row])]
    reached = set(spare)
    while spare:
        for column in filled[spare.pop()]:
            if row_of[column] not in reached:
                reached.add(row_of[column])
                spare.append(row_of[column])
    blocks = _connected([(row, filled[row]) for row in sorted(reached)])
    done = {column for _, block_columns in blocks for column in block_columns}
    square_rows = [row for row in sorted(matched) if row not in reached]
    place = {matched[row]: n for n, row in enumerate(square_rows)}
    form = block_triangular_form([[place[j] for j in filled[row] if j not in done] for row in square_rows])
    assert form is not None
    return blocks + [
        ([square_rows[i] for i in rows], [matched[square_rows[j]] for j in block_columns])
        for rows, block_columns in form
    ]


def _connected(rows: Sequence[tuple[int, Sequence[int]]]) -> list[Block]:
    """Return rows with their columns in groups that share no column."""
    groups: list[tuple[set[int], set[int]]] = []
    for row, columns in rows:
        one: tuple[set[int], set[int]] = {row}, {*columns}
        for other in [group for group in groups if group[1] & one[1]]:
            one = one[0] | other[0], one[1] | other[1]
            groups.remove(other)
        groups.append(one)
    return sorted((sorted(rows_of_group), sorted(columns)) for rows_of_group, columns in groups)


def maximum_matching(filled: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return a maximum matching of rows to columns: row -> column."""
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
    """Return the strongly connected components of a graph, each after all it can reach (Tarjan)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: list[int] = []
    closed: set[int] = set()
    components: list[list[int]] = []
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
                    components.append(open_[at:])
                    closed.update(open_[at:])
                    del open_[at:]
    return components

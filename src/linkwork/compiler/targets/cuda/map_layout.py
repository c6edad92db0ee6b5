"""Common layout of the rows of isomorphic maps, so that one body serves them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from linkwork.compiler.targets.cuda.maps import Row


class Offsets:
    """Places of the numbers of several rows: a base of each row plus common offsets, with exceptions.

    Attributes
    ----------
    distances
        Common offset of each number from the base
    irregular
        Numbers that do not lie at the common offset in every row
    missing
        Irregular numbers without a place in some row
    """

    def __init__(self, rows: list[Sequence[int | None]]) -> None:
        every = range(len(rows[0]))
        middle = max(every, key=lambda e: sum(row[e] is not None for row in rows), default=0)
        self.distances = []
        for e in every:
            count = Counter(
                a - b for a, b in ((row[e], row[middle]) for row in rows) if a is not None and b is not None
            )
            self.distances.append(count.most_common(1)[0][0] if count else 0)
        bases = [self.base(row) for row in rows]
        self.irregular = [
            e for e in every if any(row[e] != base + self.distances[e] for row, base in zip(rows, bases))
        ]
        self.missing = {e for e in self.irregular if any(row[e] is None for row in rows)}

    def base(self, row: Sequence[int | None]) -> int:
        """Return the base from which most numbers of a row lie at the common offsets."""
        count = Counter(place - d for place, d in zip(row, self.distances) if place is not None)
        return count.most_common(1)[0][0]


class GroupLayout:
    """Differences between the rows of a group: slots of arguments, places of results, negated arguments.

    Attributes
    ----------
    maps
        Offsets of shared values from map to map (see `MapKernel.offset_patterns`)
    slots
        Slots of the arguments
    results
        Places of the results
    signed
        Arguments that some row negates
    """

    def __init__(self, rows: list[Row], maps: list[tuple[tuple[int, int], ...]]) -> None:
        self.maps = maps
        self.slots = Offsets([[slot for slot, _ in row.sources] for row in rows])
        self.results = Offsets([row.targets for row in rows])
        self.signed = [
            e
            for e, sources in enumerate(zip(*(row.sources for row in rows)))
            if any(negated for _, negated in sources)
        ]

"""Slots: reusable places in a scratch array for values that are temporarily in memory.

The unit of time is the caller's: positions of a program where registers run out (`ir.spills`), or functions
of a long program, for values computed in one and read in a later one (`crossing_ranges`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Slots:
    """Slot of each value; values with overlapping ranges have different slots.

    Attributes
    ----------
    of
        Value -> its slot
    size
        Number of slots: the largest number of values in memory at once
    """

    of: dict[int, int] = field(default_factory=dict)
    size: int = 0


def assign_slots(ranges: Mapping[int, range]) -> Slots:
    """Return slots for values that lie in memory from the start of their range to just before its stop.

    A linear scan; the slot that was freed last is taken first, since it is still in the nearest cache.
    """
    of: dict[int, int] = {}
    free: list[int] = []
    busy: list[tuple[int, int]] = []  # (stop, slot)
    for v in sorted(ranges, key=lambda v: (ranges[v].start, v)):
        while busy and busy[0][0] <= ranges[v].start:
            free.append(heapq.heappop(busy)[1])
        of[v] = free.pop() if free else len(busy)
        heapq.heappush(busy, (ranges[v].stop, of[v]))
    return Slots(of, max(of.values(), default=-1) + 1)


def crossing_ranges(home: Mapping[int, int], uses: Iterable[tuple[int, int]]) -> dict[int, range]:
    """Return the functions for which values of the functions `home` must lie in memory.

    Only values that a later function uses are listed. `uses` are pairs (value, function). A range ends before
    the last function that reads the value: this one may write another value into the slot if it reads all its
    slots before it writes any.
    """
    last: dict[int, int] = {}
    for v, function in uses:
        last[v] = max(function, last.get(v, function))
    return {v: range(home[v], function) for v, function in last.items() if function > home[v]}

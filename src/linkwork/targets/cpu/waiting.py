"""Which values of a long program wait in memory, where they lie there, and when they are fetched.

The order of a program is known, so it is known how long each value has to wait for its next use. Of more values than
`held` the one that waits longest leaves its register (Belady's rule), and all leave at a cut. A value that ever waits is
stored once, when it is made, and its place is free after its last use: few places, which stay in the nearest cache.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

from linkwork.ir.needs import needs
from linkwork.ir.program import Program


class Waiting:
    """A plan for a program in parts.

    Attributes:
        reads: position -> blocks (array, number) of an input that are read there, `lanes` elements long
        fetches: position -> values that the instruction there has to fetch from their places
        slots: value that waits -> its place
        size: number of places
    """

    def __init__(self, program: Program, parts: Sequence[range], lanes: int, held: int) -> None:
        self.reads: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.fetches: defaultdict[int, list[int]] = defaultdict(list)
        self._program, self._lanes, self._held, self._whole = program, lanes, held, len(parts) == 1
        self._needs = needs(program)
        self._uses: list[list[int]] = [[] for _ in program.code]  # those to come, the last one first
        for position in reversed(range(len(program.code))):
            for v in self._needs[position]:
                self._uses[v].append(position)
        self._columns: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # block of an input -> its values
        for v, (op, _, attr) in enumerate(program.code):
            if op == "input":
                self._columns[attr[0], attr[1] // lanes].append(v)
        self._born: dict[int, int] = {}
        self._waits: set[int] = set()
        last = {v: positions[0] for v, positions in enumerate(self._uses) if positions}
        for part in parts:
            self._plan(part)
        if lanes == 1:  # inputs are read again where they lie
            self._waits -= {v for values in self._columns.values() for v in values}
        self.slots, self.size = self._places(last)

    def _plan(self, part: range) -> None:
        code, uses = self._program.code, self._uses
        here: dict[int, int] = {}  # value in a register -> its next use

        def hold(v: int) -> None:
            here[v] = uses[v][-1]
            if len(here) > self._held or here[v] >= part.stop:
                longest = max(here, key=here.__getitem__)
                del here[longest]
                self._waits.add(longest)

        for position in part:
            needed = self._needs[position]
            for v in needed:
                uses[v].pop()
                if here.pop(v, None) is not None:
                    continue
                if code[v].op != "input" or (v in self._born and self._lanes > 1):
                    self.fetches[position].append(v)
                    continue
                block = code[v].attr[0], code[v].attr[1] // self._lanes
                self.reads[position].append(block)
                for u in self._columns[block]:
                    self._born[u] = position
                    if uses[u] and self._whole:
                        hold(u)
                    elif uses[u] and u != v:  # to turn rows into columns takes all registers
                        self._waits.add(u)
            for v in needed:
                if uses[v]:
                    hold(v)
            if uses[position] and code[position].op != "input":
                self._born[position] = position
                hold(position)

    def _places(self, last: dict[int, int]) -> tuple[dict[int, int], int]:
        slots: dict[int, int] = {}
        free: list[int] = []
        busy: list[tuple[int, int]] = []  # (last use, place)
        for v in sorted(self._waits, key=lambda v: (self._born[v], v)):
            while busy and busy[0][0] < self._born[v]:
                free.append(heapq.heappop(busy)[1])
            slots[v] = free.pop() if free else len(busy)
            heapq.heappush(busy, (last[v], slots[v]))
        return slots, max(slots.values(), default=-1) + 1

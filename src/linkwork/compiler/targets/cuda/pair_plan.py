"""The plan of a packed program: two neighbouring threads of a warp do a state together.

A value of which each thread has its own waits in a slot of its thread. One that both have waits in half a
slot, once for both. What a thread needs of the other one's goes through shared memory: it waits in a slot,
and both read it there. Wherever one thread could come to a place before the other one has left it, they are
brought together ("sync").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cuda.packed import Packed, own_values
from linkwork.compiler.targets.cuda.plan import CHUNK, Action, Chunk, Plan, Pool, Walk, loaded_early, written


def pair_plan(packed: Packed, registers: int, slots: int, *, ahead: int = 2, lead: int = 0) -> Plan:
    """The plan of a packed program for so many values in registers and so many slots of shared memory for
    each thread.

    Slots are counted in halves: those of a thread's own values are 0, 2, 4, ...; those of constants -1, -2,
    ...
    """
    walk = _PairWalk(packed, registers, _HalfPool(slots), ahead)
    made = walk.run()
    made.slots = walk.pool.size
    return loaded_early(made, lead) if lead else made


def constants(program: Program) -> list[tuple[float, float]]:
    """The constants of the two threads, in the order of their slots."""
    return [attr for op, _, attr in program.code if op == "const2"]


class _HalfPool(Pool):
    """Slots and halves of slots. What was given back first is taken first, so that threads need not wait for
    each other.
    """

    def __init__(self, shared: int) -> None:
        super().__init__(shared)
        self.whole: deque[int] = deque()
        self.half: deque[int] = deque()

    def take_for(self, own: bool) -> int | None:
        """A slot, or half of one for what both threads have; None where there is none left."""
        if not own and self.half:
            return self.half.popleft()
        if self.whole:
            slot = self.whole.popleft()
        elif self.size < self.shared:
            slot = 2 * self.size
            self.size = self.size + 1
        else:
            return None
        if not own:
            self.half.append(slot + 1)
        return slot

    def give_back(self, slot: int, own: bool) -> None:
        """Back to those that are free; two halves of a slot become a whole one."""
        if not own and slot ^ 1 in self.half:
            self.half.remove(slot ^ 1)
            own = True
        if own:
            self.whole.append(slot // 2 * 2)
        else:
            self.half.append(slot)


class _PairWalk(Walk):
    """The walk through a packed program."""

    pool: _HalfPool

    def __init__(self, packed: Packed, registers: int, pool: _HalfPool, ahead: int) -> None:
        self.places = packed.places
        self.own = own_values(packed.program)
        self.fresh: set[int] = set()  # halves of slots that were stored since the threads were last together
        self.touched: set[int] = set()  # those that a thread used for itself since then
        self.shared: set[int] = set()  # those that both used
        super().__init__(packed.program, registers, pool, ahead)
        for v, (op, _, _) in enumerate(packed.program.code):
            if op == "const2":
                self.slot[v] = -1 - len(self.pinned)
                self.pinned.add(self.slot[v])

    # the order

    def _items(self) -> list[Action]:
        """Reads, operations and writes in order."""
        items: list[Action] = []
        code = self.program.code
        chunk_of = self._input_chunks()
        chunks = self._output_chunks()
        fetched: set[Chunk] = set()

        def fetch(v: int) -> None:
            if v not in chunk_of:
                return
            chunk, members = chunk_of[v]
            if chunk in fetched:
                return
            fetched.add(chunk)
            number = len(self.made.fetches)
            self.made.fetches.append(chunk)
            items.append(Action("arrive", number))
            items.extend(Action("take", u, code[u].attr[1] - chunk.start) for u in members)
            items.append(Action("issue", number + self.ahead))

        first_write = None
        for v, (op, args, _) in enumerate(code):
            if not self.needed[v]:
                continue
            for a in args:
                fetch(self.plain[a])
            if op not in ("const", "const2", "input", "input2", "neg"):
                items.append(Action("op", v))
            for chunk, values in chunks.get(v, ()):
                for a in values:
                    fetch(self.plain[a])
                items += written(chunk, values)
                first_write = len(self.made.fetches) if first_write is None else first_write
        self.made.writes_late = first_write is None or first_write == len(self.made.fetches)
        return items

    def _input_chunks(self) -> dict[int, tuple[Chunk, list[int]]]:
        """For each input, the chunk that it is read with, and all that are."""
        runs: dict[tuple[int, int | None], list[tuple[int, int]]] = {}
        for v, (op, _, attr) in enumerate(self.program.code):
            if op in ("input", "input2") and self.needed[v]:
                array, element, *other = attr
                runs.setdefault((array, other[0] - element if other else None), []).append((element, v))
        found: dict[int, tuple[Chunk, list[int]]] = {}
        for (array, other), members in runs.items():
            for some in _split(sorted(members), gaps=True):
                chunk = Chunk(array, some[0][0], some[-1][0] - some[0][0] + 1, other)
                values = [v for _, v in some]
                found |= dict.fromkeys(values, (chunk, values))
        return found

    def _output_chunks(self) -> dict[int, list[tuple[Chunk, tuple[int, ...]]]]:
        """The chunks of outputs by the value that is known last."""
        found: dict[int, list[tuple[Chunk, tuple[int, ...]]]] = {}
        for array, (values, places) in enumerate(zip(self.program.results, self.places, strict=True)):
            runs: dict[int | None, list[tuple[int, int]]] = {}
            for v, (element, other) in zip(values, places, strict=True):
                runs.setdefault(None if other is None else other - element, []).append((element, v))
            for other, members in runs.items():
                for some in _split(sorted(members), gaps=False):
                    chunk = Chunk(array, some[0][0], len(some), other)
                    known = max(v for _, v in some)
                    found.setdefault(known, []).append((chunk, tuple(v for _, v in some)))
        return found

    # the walk

    def _act(self, kind: str, value: Any = None, place: Any = None) -> None:
        if kind in ("store", "load", "even", "odd") and place >= 0:
            crossing = kind in ("even", "odd")
            own = self.own[value] or crossing
            halves = {place // 2 * 2, place // 2 * 2 + 1} if own else {place}
            if kind == "store":
                if halves & self.shared or (not own and halves & self.touched):
                    self._together()
                self.fresh |= halves
            elif crossing and halves & self.fresh:
                self._together()
            if own and not crossing:
                self.touched |= halves
            else:
                self.shared |= halves
        super()._act(kind, value, place)

    def _together(self) -> None:
        super()._act("sync")
        self.fresh, self.touched, self.shared = set(), set(), set()

    def _operate(self, item: Action, position: int) -> None:
        op, args, _ = self.program.code[item.value]
        if item.kind != "op" or op not in ("even", "odd"):
            super()._operate(item, position)
            return
        x = args[0]
        v = item.value
        if x not in self.slot:
            slot = self.pool.take_for(own=True)
            if slot is None:
                self._bring(x, [x])
                super()._act("op", v)  # by a shuffle
                self._used(x, position)
                self._made_value(v)
                return
            self._act("store", x, slot)
            self.totals.stores += 1
            self.slot[x] = slot
            self.left.discard(x)
        self._act(op, v, self.slot[x])
        self.totals.loads += 1
        self._used(x, position)
        self._made_value(v)

    def _slot_for(self, v: int, force: bool) -> int | None:
        return self.pool.take_for(self.own[v])

    def _free(self, v: int) -> None:
        slot = self.slot.pop(v, None)
        if slot is not None and slot not in self.pinned:
            self.pool.give_back(slot, self.own[v])


def _split(members: list[tuple[int, int]], gaps: bool) -> Iterable[list[tuple[int, int]]]:
    """Elements in runs of at most a chunk; with gaps or without."""
    some = members[:1]
    for (before, _), each in pairwise(members):
        if each[0] - some[0][0] >= CHUNK or (each[0] != before + 1 and not gaps) or each[0] == before:
            yield some
            some = []
        some.append(each)
    if some:
        yield some

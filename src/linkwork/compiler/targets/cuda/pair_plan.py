"""Plan of a packed program, which two neighbouring threads of a warp run for each state.

A value that differs between the threads waits in a slot of each thread. A common value waits once for both,
in half a slot. A value of one thread that both need waits in a slot of shared memory, where both read it.
The threads are synchronized ("sync") wherever one could overwrite a slot that the other still uses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cuda.actions import (
    CHUNK,
    Action,
    Chunk,
    Plan,
    SlotPool,
    hoist_loads,
    write_actions,
)
from linkwork.compiler.targets.cuda.packed import Packed, lane_values
from linkwork.compiler.targets.cuda.planner import Planner


def pair_plan(packed: Packed, registers: int, slots: int, *, ahead: int = 2, lead: int = 0) -> Plan:
    """Return the plan of a packed program, given the registers and shared-memory slots of a thread.

    Slots are counted in halves: those of values that differ are 0, 2, 4, ...; those of constants -1, -2, ...
    """
    planner = _PairPlanner(packed, registers, _HalfSlotPool(slots), ahead)
    result = planner.run()
    result.slots = planner.pool.size
    return hoist_loads(result, lead) if lead else result


def constants(program: Program) -> list[tuple[float, float]]:
    """Return the constants of the two threads, in the order of their slots."""
    return [attr for op, _, attr in program.code if op == "const2"]


class _HalfSlotPool(SlotPool):
    """Slots and halves of slots. The slot that was released first is taken first, so that threads synchronize
    less often.
    """

    def __init__(self, shared: int) -> None:
        super().__init__(shared)
        self.full: deque[int] = deque()
        self.half: deque[int] = deque()

    def acquire_for(self, is_full: bool) -> int | None:
        """Return a slot, or half of one for a common value; None if there is none."""
        if not is_full and self.half:
            return self.half.popleft()
        if self.full:
            slot = self.full.popleft()
        elif self.size < self.shared:
            slot = 2 * self.size
            self.size = self.size + 1
        else:
            return None
        if not is_full:
            self.half.append(slot + 1)
        return slot

    def release_for(self, slot: int, is_full: bool) -> None:
        """Release a slot or half of one; two free halves become a slot."""
        if not is_full and slot ^ 1 in self.half:
            self.half.remove(slot ^ 1)
            is_full = True
        if is_full:
            self.full.append(slot // 2 * 2)
        else:
            self.half.append(slot)


class _PairPlanner(Planner):
    """Planner of a packed program."""

    pool: _HalfSlotPool

    def __init__(self, packed: Packed, registers: int, pool: _HalfSlotPool, ahead: int) -> None:
        self.places = packed.places
        self.differs = lane_values(packed.program)
        self.fresh: set[int] = set()  # half slots stored since the last synchronization
        self.touched: set[int] = set()  # half slots used by one thread since then
        self.shared: set[int] = set()  # half slots used by both threads
        super().__init__(packed.program, registers, pool, ahead)
        for v, (op, _, _) in enumerate(packed.program.code):
            if op == "const2":
                self.slot[v] = -1 - len(self.pinned)
                self.pinned.add(self.slot[v])

    def _ordered_actions(self) -> list[Action]:
        """Return reads, operations and writes in order."""
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
            number = len(self.plan.fetches)
            self.plan.fetches.append(chunk)
            items.append(Action("arrive", number))
            items.extend(Action("take", u, code[u].attr[1] - chunk.start) for u in members)
            items.append(Action("issue", number + self.ahead))

        first_write = None
        for v, (op, args, _) in enumerate(code):
            if not self.needed[v]:
                continue
            for a in args:
                fetch(self.unsigned[a])
            if op not in ("const", "const2", "input", "input2", "neg"):
                items.append(Action("op", v))
            for chunk, values in chunks.get(v, ()):
                for a in values:
                    fetch(self.unsigned[a])
                items += write_actions(chunk, values)
                first_write = len(self.plan.fetches) if first_write is None else first_write
        self.plan.writes_late = first_write is None or first_write == len(self.plan.fetches)
        return items

    def _input_chunks(self) -> dict[int, tuple[Chunk, list[int]]]:
        """Return, for each input, its chunk and all inputs of that chunk."""
        runs: dict[tuple[int, int | None], list[tuple[int, int]]] = {}
        for v, (op, _, attr) in enumerate(self.program.code):
            if op in ("input", "input2") and self.needed[v]:
                array, element, *other = attr
                runs.setdefault((array, other[0] - element if other else None), []).append((element, v))
        chunk_of: dict[int, tuple[Chunk, list[int]]] = {}
        for (array, other), members in runs.items():
            for run in _split(sorted(members), gaps=True):
                chunk = Chunk(array, run[0][0], run[-1][0] - run[0][0] + 1, other)
                values = [v for _, v in run]
                chunk_of |= dict.fromkeys(values, (chunk, values))
        return chunk_of

    def _output_chunks(self) -> dict[int, list[tuple[Chunk, tuple[int, ...]]]]:
        """Return the chunks of outputs by the value that is known last."""
        chunks: dict[int, list[tuple[Chunk, tuple[int, ...]]]] = {}
        for array, (values, places) in enumerate(zip(self.program.results, self.places, strict=True)):
            runs: dict[int | None, list[tuple[int, int]]] = {}
            for v, (element, other) in zip(values, places, strict=True):
                runs.setdefault(None if other is None else other - element, []).append((element, v))
            for other, members in runs.items():
                for run in _split(sorted(members), gaps=False):
                    chunk = Chunk(array, run[0][0], len(run), other)
                    known = max(v for _, v in run)
                    chunks.setdefault(known, []).append((chunk, tuple(v for _, v in run)))
        return chunks

    def _append(self, kind: str, value: Any = None, place: Any = None) -> None:
        if kind in ("store", "load", "even", "odd") and place >= 0:
            crossing = kind in ("even", "odd")
            is_full = self.differs[value] or crossing
            halves = {place // 2 * 2, place // 2 * 2 + 1} if is_full else {place}
            if kind == "store":
                if halves & self.shared or (not is_full and halves & self.touched):
                    self._synchronize()
                self.fresh |= halves
            elif crossing and halves & self.fresh:
                self._synchronize()
            if is_full and not crossing:
                self.touched |= halves
            else:
                self.shared |= halves
        super()._append(kind, value, place)

    def _synchronize(self) -> None:
        super()._append("sync")
        self.fresh, self.touched, self.shared = set(), set(), set()

    def _run_item(self, item: Action, position: int) -> None:
        op, args, _ = self.program.code[item.value]
        if item.kind != "op" or op not in ("even", "odd"):
            super()._run_item(item, position)
            return
        x = args[0]
        v = item.value
        if x not in self.slot:
            slot = self.pool.acquire_for(is_full=True)
            if slot is None:
                self._load_register(x, [x])
                super()._append("op", v)  # by a shuffle
                self._finish_use(x, position)
                self._define(v)
                return
            self._append("store", x, slot)
            self.totals.stores += 1
            self.slot[x] = slot
            self.unassigned.discard(x)
        self._append(op, v, self.slot[x])
        self.totals.loads += 1
        self._finish_use(x, position)
        self._define(v)

    def _spill_slot(self, v: int, force: bool) -> int | None:
        return self.pool.acquire_for(self.differs[v])

    def _release_slot(self, v: int) -> None:
        slot = self.slot.pop(v, None)
        if slot is not None and slot not in self.pinned:
            self.pool.release_for(slot, self.differs[v])


def _split(members: list[tuple[int, int]], gaps: bool) -> Iterable[list[tuple[int, int]]]:
    """Split elements into runs of at most a chunk, with gaps or without."""
    run = members[:1]
    for (before, _), each in pairwise(members):
        if each[0] - run[0][0] >= CHUNK or (each[0] != before + 1 and not gaps) or each[0] == before:
            yield run
            run = []
        run.append(each)
    if run:
        yield run

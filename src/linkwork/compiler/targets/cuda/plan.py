"""The plan of a kernel: in which order values are read, computed and written, and which of them wait where.

One thread has one state. Of more live values than registers, the one whose next use is farthest waits in
memory (Belady's rule): in a slot of shared memory, stored once, when its register is first taken, and free
again after its last use. Rows are read and written in chunks of neighbouring elements, which a warp moves
together: a chunk is read where its first element is used, and written when its last one is known.

A loop's body is a program of its own. A short loop has its state in registers. A long one has it in slots,
and so has everything else that is live around it, since its body wants all registers; so has what crosses
from one function of a program that is cut to the next. Where shared memory is full, slots are in local
memory; values of uncut code are then left to the assembler, which spills them better than we do.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from linkwork.compiler.ir.liveness import Liveness, needed_values
from linkwork.compiler.ir.operations import REAL
from linkwork.compiler.ir.program import BoundedLoop, Program

# elements of a row that are read or written together: 32 bytes of float32 are what memory hands out at least
CHUNK = 8
LONG_BODY = 300  # instructions from which a loop keeps its state in slots
FARTHER = 4  # times as many operations before its use a value is loaded from memory of the GPU
LONG_STATE = 40  # values from which it does


class Action(NamedTuple):
    """One thing that a thread does.

    kind, value, place:
        "arrive", fetch: wait until a chunk of an input is there
        "take", value, element of the chunk
        "issue", fetch: begin to read a chunk
        "op", value
        "load" and "store", value, slot; "hold" and "held" for conditions
        "loop", value, LoopPlan
        of parts (see `split`): "keep", value, slot in memory of the GPU; "again", value, slot: read there
        once more "begin": a new chunk of an output; "put", value, element of the chunk; "flush", chunk "cut":
        a new function of two threads a state: "even" and "odd", value, slot; "sync"
    """

    kind: str
    value: Any = None
    place: Any = None


class Chunk(NamedTuple):
    """So many elements of an array from `start` on; of two threads a state, the second one's are `other`
    elements farther.
    """

    array: int
    start: int
    length: int
    other: int | None = None  # None: they are for both


@dataclass(frozen=True)
class LoopPlan:
    """How a loop is run.

    Attributes
    ----------
    long
        Whether its state is in slots
    body
        The plan of its body
    states
        Slots of the state
    outer
        For each outer value its slot, or None for a constant
    first
        States as they are stored before the loop, (value, slot)
    given
        Values that are stored for the body alone, (value, slot)
    last
        States that are stored at the body's end, (value, slot); the others are stored where they are
        made
    again
        Slot of the condition to go on, if it is made in another function than the last
    """

    long: bool
    body: Plan
    states: list[int] = field(default_factory=list)
    outer: list[int | None] = field(default_factory=list)
    first: list[tuple[int, int]] = field(default_factory=list)
    given: list[tuple[int, int]] = field(default_factory=list)
    last: list[tuple[int, int]] = field(default_factory=list)
    again: int | None = None


@dataclass
class Plan:
    """What a program does, and what it takes: slots in all, and how often one is stored and loaded, bodies
    counted once.
    """

    actions: list[Action] = field(default_factory=list)
    fetches: list[Chunk] = field(default_factory=list)
    slots: int = 0
    loads: int = 0
    stores: int = 0
    again: int = 0  # times that a value of another part is read again for want of a slot
    left: int = 0  # times that a value was left to the assembler for want of a slot
    writes_late: bool = True  # no chunk is written before the last one is read


class Pool:
    """Slots. The lowest free one is taken first, so that those in shared memory are."""

    def __init__(self, shared: int) -> None:
        self.shared = shared
        self.size = 0
        self._free: list[int] = []

    def take(self, force: bool) -> int | None:
        """A slot; None where shared memory has none left, unless there must be one."""
        if self._free and (force or self._free[0] < self.shared):
            return heapq.heappop(self._free)
        if not force and self.size >= self.shared:
            return None
        self.size += 1
        return self.size - 1

    def give(self, slot: int) -> None:
        heapq.heappush(self._free, slot)


class Crossing(NamedTuple):
    """Of one part of a program (see `split`): the chunks that its outputs are, the slots of values that it
    keeps and reads.
    """

    chunks: tuple[Chunk, ...]
    keeps: tuple[int, ...]
    reads: tuple[int, ...]


def plan(
    program: Program,
    registers: int,
    shared: int,
    *,
    ahead: int = 2,
    lead: int = 0,
    write: int = CHUNK,
    crossing: Crossing | None = None,
) -> Plan:
    """The plan of a lowered program for so many values in registers and so many slots of shared memory.

    So many chunks of inputs are read ahead; values are loaded so many operations before they are used;
    `write` elements of outputs are written together. `crossing` is given where the program is one of several
    parts.
    """
    walk = Walk(program, registers, Pool(shared), ahead, write=write, crossing=crossing)
    made = walk.run()
    made.slots = walk.pool.size
    return loaded_early(made, lead) if lead else made


def loaded_early(made: Plan, lead: int) -> Plan:
    """The same plan with loads so many operations earlier: few warps hide little of the time that a load
    takes.
    """
    found: list[Action] = []
    for action in made.actions:
        kind, value, place = action
        at = len(found)
        passed = 0
        if kind in ("load", "again"):
            while at and passed < (lead if kind == "load" else FARTHER * lead):
                before = found[at - 1]
                if before.kind in ("cut", "loop") or (
                    before.kind in ("store", "hold") and before.place == place
                ):
                    break
                at = at - 1
                passed = passed + (before.kind in ("op", "put"))
        elif kind == "loop" and place.long:
            action = Action(kind, value, replace(place, body=loaded_early(place.body, lead)))
        found.insert(at, action)
    return replace(made, actions=found)


def written(chunk: Chunk, values: Sequence[int]) -> list[Action]:
    """The actions that write a chunk of outputs."""
    return [Action("begin"), *(Action("put", a, k) for k, a in enumerate(values)), Action("flush", chunk)]


class Walk:
    """The walk through one program, or the body of a long loop, that decides."""

    def __init__(
        self,
        program: Program,
        registers: int,
        pool: Pool,
        ahead: int,
        homes: dict[int, int] | None = None,
        totals: Plan | None = None,
        write: int = CHUNK,
        crossing: Crossing | None = None,
    ) -> None:
        self.crossing = crossing
        self.read: dict[int, int] = {}  # value that another part has made -> its slot in memory of the GPU
        if crossing is not None and crossing.reads:
            array = len(program.inputs) - 1
            given = ((v, attr) for v, (op, _, attr) in enumerate(program.code) if op == "input")
            self.read = {v: crossing.reads[attr[1]] for v, attr in given if attr[0] == array}
        self.program = program
        self.registers = registers
        self.pool = pool
        self.ahead = ahead
        self.write = write
        self.is_body = homes is not None
        self.made = Plan()
        self.totals = totals or self.made
        self.needed = needed_values(program)
        self.plain = _plain(program)
        self.register = [
            k == REAL and op not in ("const", "neg", "loop") and n
            for k, (op, _, _), n in zip(program.kinds, program.code, self.needed, strict=True)
        ]
        self.slot: dict[int, int] = dict(homes or {})  # value -> slot that it is in
        for v, (op, _, _) in enumerate(program.code):
            if self.is_body and op == "input" and v not in self.slot:
                self.register[v] = False  # a constant outside
        self.pinned = set(self.slot.values())  # they are not ours to give back
        self.held: dict[int, int] = {}  # value in a register -> its next use
        self.left: set[int] = set()  # values without a slot that the assembler must keep somewhere
        self.farthest: list[tuple[int, int]] = []  # (-next use, value) of those, and entries that are void
        self.items = self._items()
        self.uses: dict[int, list[int]] = {}
        for position, (kind, value, _) in enumerate(self.items):
            for v in self._operands(kind, value):
                self.uses.setdefault(v, []).append(position)
        self.cursor = dict.fromkeys(self.uses, 0)

    # the order

    def _items(self) -> list[Action]:
        """Reads, operations and writes in order; loads and stores come between them later."""
        items: list[Action] = []
        fetched: dict[tuple[int, int], int] = {}
        wanted: dict[tuple[int, int], list[int]] = {}
        code = self.program.code
        chunks = self._output_chunks()
        if not self.is_body:
            for v, (op, _, attr) in enumerate(code):
                if op == "input" and self.needed[v]:
                    wanted.setdefault((attr[0], attr[1] // CHUNK), []).append(v)
        cuts = set(self.program.cuts)
        keeps = (
            dict(zip(self.program.results[-1], self.crossing.keeps))
            if self.crossing and self.crossing.keeps
            else {}
        )

        def fetch(v: int) -> None:
            array, element = code[v].attr
            key = (array, element // CHUNK)
            if self.is_body or key in fetched:
                return
            fetched[key] = number = len(self.made.fetches)
            start = key[1] * CHUNK
            self.made.fetches.append(Chunk(array, start, min(CHUNK, self.program.inputs[array].size - start)))
            items.append(Action("arrive", number))
            items.extend(Action("take", u, code[u].attr[1] - start) for u in wanted[key])
            items.append(Action("issue", number + self.ahead))

        writes = self._writes(chunks)
        first_write = None
        for v, (op, args, attr) in enumerate(code):
            if v in cuts and items and items[-1].kind != "cut":
                items.append(Action("cut"))
            if not self.needed[v]:
                continue
            for a in args:
                if code[self.plain[a]].op == "input":
                    fetch(self.plain[a])
            if op not in ("const", "input", "neg", "result"):
                items.append(Action("loop" if isinstance(attr, BoundedLoop) else "op", v))
            if v in keeps:
                items.append(Action("keep", v, keeps[v]))
            for _, values in chunks.get(v, ()):
                for a in values:
                    if code[self.plain[a]].op == "input":
                        fetch(self.plain[a])
            if v in writes:
                items += writes[v]
                first_write = len(self.made.fetches) if first_write is None else first_write
        self.made.writes_late = first_write is None or first_write == len(self.made.fetches)
        return items

    def _writes(self, chunks: dict[int, list[tuple[Chunk, tuple[int, ...]]]]) -> dict[int, list[Action]]:
        """What is done behind each value to write outputs: a chunk when its last element is known.

        In parts, which have a buffer for it anyway, an element is put there as soon as it is made, behind the
        chunk before.
        """
        found: dict[int, list[Action]] = {}
        free: int | None = None  # the value behind which the chunk before is written
        for v, some in sorted(chunks.items()):
            for chunk, values in some:
                begin, *puts, flush = written(chunk, values)
                if self.crossing is None:
                    found.setdefault(v, []).extend([begin, *puts, flush])
                    continue
                plain = [self.plain[put.value] for put in puts]
                made = [
                    v if self.program.code[a].op in ("const", "input") else max(a, free or 0) for a in plain
                ]
                found.setdefault(min(made) if free is None else free, []).append(begin)
                for put, at in sorted(zip(puts, made), key=lambda each: each[1]):
                    found.setdefault(at, []).append(put)
                found.setdefault(v, []).append(flush)
                free = v
        return found

    def _output_chunks(self) -> dict[int, list[tuple[Chunk, tuple[int, ...]]]]:
        """The chunks of outputs by the value that is known last."""
        found: dict[int, list[tuple[Chunk, tuple[int, ...]]]] = {}
        if self.is_body:
            return found
        if self.crossing is not None:
            for chunk, values in zip(self.crossing.chunks, self.program.results):
                found.setdefault(max(values), []).append((chunk, values))
            return found
        for array, values in enumerate(self.program.results):
            for start in range(0, len(values), self.write):
                some = values[start : start + self.write]
                found.setdefault(max(some), []).append((Chunk(array, start, len(some)), some))
        return found

    def _operands(self, kind: str, v: Any) -> Iterable[int]:
        if kind in ("put", "keep"):
            args: Iterable[int] = (v,)
        elif kind in ("op", "loop"):
            args = self.program.code[v].args
        else:
            return ()
        return [a for a in dict.fromkeys([self.plain[a] for a in args]) if self.register[a]]

    def _next_use(self, v: int) -> int | None:
        uses = self.uses.get(v, ())
        k = self.cursor.get(v, 0)
        return uses[k] if k < len(uses) else None

    # the walk

    def run(self) -> Plan:
        """Walk through all items."""
        if not self.is_body:
            for number in range(min(self.ahead, len(self.made.fetches))):
                self._act("issue", number)
        for position, item in enumerate(self.items):
            kind, v, place = item
            if kind == "cut":
                self._clear(force=True)
                self._act("cut")
            elif kind == "issue":
                if v < len(self.made.fetches):
                    self._act("issue", v)
            elif kind == "take":
                self._act(kind, v, place)
                self._hold(v)
            elif kind == "loop":
                self._loop(v, position)
            elif kind in ("op", "put", "keep"):
                self._operate(item, position)
            else:
                self._act(kind, v, place)
        return self.made

    def _act(self, kind: str, value: Any = None, place: Any = None) -> None:
        self.made.actions.append(Action(kind, value, place))

    def _operate(self, item: Action, position: int) -> None:
        operands = list(self._operands(item.kind, item.value))
        for a in operands:
            self._bring(a, operands)
        self._act(*item)
        for a in operands:
            self._used(a, position)
        if item.kind == "op":
            self._made_value(item.value)

    def _made_value(self, v: int) -> None:
        if self.register[v]:
            self._hold(v)

    def _bring(self, v: int, keep: Iterable[int]) -> None:
        """Have a value in a register."""
        if v in self.held:
            return
        self._room(set(keep))
        if v in self.left:
            self.left.discard(v)
        elif v not in self.slot:
            self._act("again", v, self.read[v])
            self.totals.again += 1
        else:
            self._act("load", v, self.slot[v])
            self.totals.loads += 1
        self.held[v] = -1

    def _used(self, v: int, position: int) -> None:
        """After a use: look for the next one, or forget the value."""
        uses = self.uses[v]
        self.cursor[v] = bisect_right(uses, position, self.cursor[v])
        following = self._next_use(v)
        if following is None:
            self.held.pop(v, None)
            self.left.discard(v)
            self._free(v)
        elif v in self.held:
            self.held[v] = following
            heapq.heappush(self.farthest, (-following, v))

    def _free(self, v: int) -> None:
        slot = self.slot.pop(v, None)
        if slot is not None and slot not in self.pinned:
            self.pool.give(slot)

    def _hold(self, v: int) -> None:
        following = self._next_use(v)
        if following is None:
            return
        self._room({v})
        self.held[v] = following
        heapq.heappush(self.farthest, (-following, v))

    def _room(self, keep: set[int], spare: int = 1) -> None:
        """Let values wait until so many registers are free."""
        kept: list[tuple[int, int]] = []
        while len(self.held) + spare > self.registers and self.farthest:
            entry = heapq.heappop(self.farthest)
            v = entry[1]
            if self.held.get(v) != -entry[0]:
                continue
            if v in keep:
                kept.append(entry)
            else:
                self._wait(v, force=False)
        for entry in kept:
            heapq.heappush(self.farthest, entry)

    def _wait(self, v: int, force: bool) -> None:
        """Let a value wait in a slot; where none is left and none must be, the assembler keeps it."""
        if v not in self.slot:
            slot = self._slot_for(v, force)
            if slot is None and v not in self.read:
                slot = self._slot_of_read()
            if slot is None and v in self.read:
                pass  # it is in memory of the GPU anyway
            elif slot is None:
                self.left.add(v)
                self.totals.left += 1
            else:
                self._act("store", v, slot)
                self.totals.stores += 1
                self.slot[v] = slot
        self.held.pop(v, None)

    def _slot_for(self, v: int, force: bool) -> int | None:
        """A slot for a value to wait in; None where none is left and none must be."""
        return self.pool.take(force)

    def _slot_of_read(self) -> int | None:
        """The slot of the value of another part whose next use is farthest: it can be read again."""
        given = [u for u in self.read if u in self.slot]
        return self.slot.pop(max(given, key=lambda u: self._next_use(u) or 0)) if given else None

    def _clear(self, force: bool) -> None:
        """Let everything wait."""
        for v in [*self.held, *self.left]:
            if v in self.held or force:
                self.left.discard(v)
                self._wait(v, force)

    # loops

    def _loop(self, v: int, position: int) -> None:
        loop: BoundedLoop = self.program.code[v].attr
        operands = list(self._operands("loop", v))
        results = [
            r for r in range(v + 1, len(self.program.code)) if self.program.code[r][:2] == ("result", (v,))
        ]
        if (
            len(loop.body) <= LONG_BODY
            and len(self.program.code[v].args) <= LONG_STATE
            and not loop.body.cuts
        ):
            need = min(Liveness.of(loop.body).largest, self.registers // 2)
            for a in operands:
                self._bring(a, operands)
            self._room(set(operands), spare=need)
            self._act("loop", v, LoopPlan(False, Plan()))
            for a in operands:
                self._used(a, position)
            for r in results:
                self._made_value(r)
            return
        self._long_loop(v, loop, operands, results, position)

    def _long_loop(
        self, v: int, loop: BoundedLoop, operands: list[int], results: list[int], position: int
    ) -> None:
        code = self.program.code
        args = self.program.code[v].args
        self._clear(force=False)
        first: list[tuple[int, int]] = []
        given: list[tuple[int, int]] = []
        states: list[int] = []
        for a in args[: loop.states]:
            slot = self.pool.take(force=True)
            assert slot is not None
            states.append(slot)
            first.append((a, slot))
        outer: list[int | None] = []
        own: list[int] = []
        for a in args[loop.states :]:
            if code[a].op == "const":
                outer.append(None)
            elif code[a].op != "neg" and a in self.slot:
                outer.append(self.slot[a])
            else:
                slot = self.pool.take(force=True)
                assert slot is not None
                own.append(slot)
                given.append((a, slot))
                outer.append(slot)
        body = loop.body
        places = [states, outer]
        homes = {}
        for u, (op, _, attr) in enumerate(body.code):
            if op == "input":
                slot = places[attr[0]][attr[1]]
                if slot is not None:
                    homes[u] = slot
        inner = _BodyWalk(body, self.registers, self.pool, homes, states, self.totals)
        inner.pinned |= {*states, *(slot for slot in outer if slot is not None)}
        made = inner.run()
        self._act("loop", v, LoopPlan(True, made, states, outer, first, given, inner.last, inner.again))
        for slot in [*own, *([] if inner.again is None else [inner.again])]:
            self.pool.give(slot)
        for a in operands:
            self._used(a, position)
        wanted = {}
        for r in results:
            if self._next_use(r) is not None:
                wanted[code[r].attr] = r
        for k, slot in enumerate(states):
            if k in wanted:
                self.slot[wanted[k]] = slot
            else:
                self.pool.give(slot)


class _BodyWalk(Walk):
    """The walk through a long loop's body: states are in slots, and are stored there again."""

    def __init__(
        self,
        body: Program,
        registers: int,
        pool: Pool,
        homes: dict[int, int],
        states: list[int],
        totals: Plan,
    ) -> None:
        super().__init__(body, registers, pool, 0, homes, totals)
        self.states = states
        self.again: int | None = None
        end = len(self.items)
        old = {attr[1]: u for u, (op, _, attr) in enumerate(body.code) if op == "input" and attr[0] == 0}
        same = {k for k, r in enumerate(body.results[0]) if r == old.get(k)}
        moved = {self.plain[r] for k, r in enumerate(body.results[0]) if k not in same}
        place = {}
        for position, (kind, value, _) in enumerate(self.items):
            if kind == "op":
                place[value] = position
        self.direct: dict[
            int, int
        ] = {}  # value -> slot of the state that it becomes, stored where it is made
        self.last: list[tuple[int, int]] = []
        for k, r in enumerate(body.results[0]):
            if k in same:
                continue
            before = old.get(k)
            used = self.uses.get(before, [-1])[-1] if before is not None else -1
            free = before is None or before not in moved
            if r in place and self.register[r] and free and used <= place[r] and r not in self.direct:
                self.direct[r] = states[k]
            else:
                self.last.append((r, states[k]))
                if self.register[self.plain[r]]:
                    self.uses.setdefault(self.plain[r], []).append(end)
                    self.cursor.setdefault(self.plain[r], 0)
        self.condition = body.results[1][0]
        cut_at = [n for n, item in enumerate(self.items) if item.kind == "cut"]
        self.early = bool(cut_at) and place.get(self.condition, end) < cut_at[-1]
        self.end = end

    def run(self) -> Plan:
        """Walk through the body, then have what is stored at its end in registers."""
        super().run()
        operands = list(dict.fromkeys(self.plain[r] for r, _ in self.last if self.register[self.plain[r]]))
        for a in operands:
            self._bring(a, operands)
        for a in operands:
            self._used(a, self.end)
        return self.made

    def _operate(self, item: Action, position: int) -> None:
        super()._operate(item, position)
        if self.early and item.value == self.condition and item.kind == "op":
            self.again = self.pool.take(force=True)
            self._act("hold", item.value, self.again)

    def _made_value(self, v: int) -> None:
        slot = self.direct.get(v)
        if slot is not None:
            self._act("store", v, slot)
            self.totals.stores += 1
            self.slot[v] = slot
        super()._made_value(v)


def _plain(program: Program) -> list[int]:
    """For each value, the one that it is but for its sign."""
    plain = list(range(len(program.code)))
    for v, (op, args, _) in enumerate(program.code):
        if op == "neg":
            plain[v] = plain[args[0]]
    return plain

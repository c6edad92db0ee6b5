"""Assignment of a thread's values to registers and slots."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from linkwork.compiler.ir.liveness import Liveness
from linkwork.compiler.ir.operations import REAL
from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.targets.cuda.actions import CHUNK, Action, Crossing, LoopPlan, Plan, SlotPool
from linkwork.compiler.targets.cuda.plan_order import ActionOrder

LONG_BODY = 300  # instructions from which a loop keeps its state in slots
LONG_STATE = 40  # states from which it does


class Planner(ActionOrder):
    """Assignment of values to registers and slots in one program, or in the body of a long loop."""

    def __init__(
        self,
        program: Program,
        registers: int,
        pool: SlotPool,
        ahead: int,
        input_slots: dict[int, int] | None = None,
        totals: Plan | None = None,
        write: int = CHUNK,
        crossing: Crossing | None = None,
    ) -> None:
        super().__init__(program, ahead, write, crossing, input_slots is not None)
        self.crossing_slots: dict[int, int] = {}  # value of another part -> its slot in GPU memory
        if crossing is not None and crossing.reads:
            array = len(program.inputs) - 1
            inputs = ((v, attr) for v, (op, _, attr) in enumerate(program.code) if op == "input")
            self.crossing_slots = {v: crossing.reads[attr[1]] for v, attr in inputs if attr[0] == array}
        self.registers = registers
        self.pool = pool
        self.totals = totals or self.plan
        self.needs_register = [
            k == REAL and op not in ("const", "neg", "loop") and n
            for k, (op, _, _), n in zip(program.kinds, program.code, self.needed, strict=True)
        ]
        self.slot: dict[int, int] = dict(input_slots or {})  # value -> its slot
        for v, (op, _, _) in enumerate(program.code):
            if self.is_body and op == "input" and v not in self.slot:
                self.needs_register[v] = False  # a constant outside the body
        self.pinned = set(self.slot.values())  # slots that belong to the surrounding program
        self.in_register: dict[int, int] = {}  # value in a register -> its next use
        self.unassigned: set[int] = set()  # values without a slot, which the assembler places
        # (-next use, value) of values in registers, and stale entries
        self.eviction_heap: list[tuple[int, int]] = []
        self.ordered = self._ordered_actions()
        self.uses: dict[int, list[int]] = {}
        for position, (kind, value, _) in enumerate(self.ordered):
            for v in self._operands(kind, value):
                self.uses.setdefault(v, []).append(position)
        self.cursor = dict.fromkeys(self.uses, 0)

    def _operands(self, kind: str, v: Any) -> Iterable[int]:
        if kind in ("put", "keep"):
            args: Iterable[int] = (v,)
        elif kind in ("op", "loop"):
            args = self.program.code[v].args
        else:
            return ()
        return [a for a in dict.fromkeys([self.unsigned[a] for a in args]) if self.needs_register[a]]

    def _next_use(self, v: int) -> int | None:
        uses = self.uses.get(v, ())
        k = self.cursor.get(v, 0)
        return uses[k] if k < len(uses) else None

    # the walk

    def run(self) -> Plan:
        """Run through the ordered actions and insert loads and stores."""
        if not self.is_body:
            for number in range(min(self.ahead, len(self.plan.fetches))):
                self._append("issue", number)
        for position, item in enumerate(self.ordered):
            kind, v, place = item
            if kind == "cut":
                self._evict_all(force=True)
                self._append("cut")
            elif kind == "issue":
                if v < len(self.plan.fetches):
                    self._append("issue", v)
            elif kind == "take":
                self._append(kind, v, place)
                self._assign_register(v)
            elif kind == "loop":
                self._loop(v, position)
            elif kind in ("op", "put", "keep"):
                self._run_item(item, position)
            else:
                self._append(kind, v, place)
        return self.plan

    def _append(self, kind: str, value: Any = None, place: Any = None) -> None:
        self.plan.actions.append(Action(kind, value, place))

    def _run_item(self, item: Action, position: int) -> None:
        operands = list(self._operands(item.kind, item.value))
        for a in operands:
            self._load_register(a, operands)
        self._append(*item)
        for a in operands:
            self._finish_use(a, position)
        if item.kind == "op":
            self._define(item.value)

    def _define(self, v: int) -> None:
        if self.needs_register[v]:
            self._assign_register(v)

    def _load_register(self, v: int, keep: Iterable[int]) -> None:
        """Bring a value into a register."""
        if v in self.in_register:
            return
        self._free_registers(set(keep))
        if v in self.unassigned:
            self.unassigned.discard(v)
        elif v not in self.slot:
            self._append("reread", v, self.crossing_slots[v])
            self.totals.rereads += 1
        else:
            self._append("load", v, self.slot[v])
            self.totals.loads += 1
        self.in_register[v] = -1

    def _finish_use(self, v: int, position: int) -> None:
        """Record a use: find the next one, or drop the value."""
        uses = self.uses[v]
        self.cursor[v] = bisect_right(uses, position, self.cursor[v])
        following = self._next_use(v)
        if following is None:
            self.in_register.pop(v, None)
            self.unassigned.discard(v)
            self._release_slot(v)
        elif v in self.in_register:
            self.in_register[v] = following
            heapq.heappush(self.eviction_heap, (-following, v))

    def _release_slot(self, v: int) -> None:
        slot = self.slot.pop(v, None)
        if slot is not None and slot not in self.pinned:
            self.pool.release(slot)

    def _assign_register(self, v: int) -> None:
        following = self._next_use(v)
        if following is None:
            return
        self._free_registers({v})
        self.in_register[v] = following
        heapq.heappush(self.eviction_heap, (-following, v))

    def _free_registers(self, keep: set[int], spare: int = 1) -> None:
        """Evict values until `spare` registers are free."""
        protected: list[tuple[int, int]] = []
        while len(self.in_register) + spare > self.registers and self.eviction_heap:
            entry = heapq.heappop(self.eviction_heap)
            v = entry[1]
            if self.in_register.get(v) != -entry[0]:
                continue
            if v in keep:
                protected.append(entry)
            else:
                self._evict(v, force=False)
        for entry in protected:
            heapq.heappush(self.eviction_heap, entry)

    def _evict(self, v: int, force: bool) -> None:
        """Move a value from its register to a slot, or leave it to the assembler if none is free.

        With `force` it gets a slot in local memory.
        """
        if v not in self.slot:
            slot = self._spill_slot(v, force)
            if slot is None and v not in self.crossing_slots:
                slot = self._evict_crossing()
            if slot is None and v in self.crossing_slots:
                pass  # it is in GPU memory anyway
            elif slot is None:
                self.unassigned.add(v)
                self.totals.unassigned += 1
            else:
                self._append("store", v, slot)
                self.totals.stores += 1
                self.slot[v] = slot
        self.in_register.pop(v, None)

    def _spill_slot(self, v: int, force: bool) -> int | None:
        """Return a slot for a value; None if there is none, unless one is forced."""
        return self.pool.acquire(force)

    def _evict_crossing(self) -> int | None:
        """Return the slot of the crossing value with the farthest next use, which can be read again."""
        reloadable = [u for u in self.crossing_slots if u in self.slot]
        return self.slot.pop(max(reloadable, key=lambda u: self._next_use(u) or 0)) if reloadable else None

    def _evict_all(self, force: bool) -> None:
        """Evict all values."""
        for v in [*self.in_register, *self.unassigned]:
            if v in self.in_register or force:
                self.unassigned.discard(v)
                self._evict(v, force)

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
            need = min(Liveness.of(loop.body).max_pressure, self.registers // 2)
            for a in operands:
                self._load_register(a, operands)
            self._free_registers(set(operands), spare=need)
            self._append("loop", v, LoopPlan(False, Plan()))
            for a in operands:
                self._finish_use(a, position)
            for r in results:
                self._define(r)
            return
        self._long_loop(v, loop, operands, results, position)

    def _long_loop(
        self, v: int, loop: BoundedLoop, operands: list[int], results: list[int], position: int
    ) -> None:
        args = self.program.code[v].args
        self._evict_all(force=False)
        states = [self._acquire_slot() for _ in range(loop.states)]
        initial_states = list(zip(args[: loop.states], states))
        outer, outer_stores = self._outer_slots(args[loop.states :])
        body = loop.body
        places = [states, outer]
        input_slots = {}
        for u, (op, _, attr) in enumerate(body.code):
            if op == "input":
                slot = places[attr[0]][attr[1]]
                if slot is not None:
                    input_slots[u] = slot
        inner = _BodyPlanner(body, self.registers, self.pool, input_slots, states, self.totals)
        inner.pinned |= {*states, *(slot for slot in outer if slot is not None)}
        body_plan = inner.run()
        self._append(
            "loop",
            v,
            LoopPlan(
                True,
                body_plan,
                states,
                outer,
                initial_states,
                outer_stores,
                inner.final_states,
                inner.condition_slot,
            ),
        )
        for _, slot in outer_stores:
            self.pool.release(slot)
        if inner.condition_slot is not None:
            self.pool.release(inner.condition_slot)
        for a in operands:
            self._finish_use(a, position)
        self._keep_used_results(results, states)

    def _acquire_slot(self) -> int:
        slot = self.pool.acquire(force=True)
        assert slot is not None
        return slot

    def _outer_slots(self, values: Sequence[int]) -> tuple[list[int | None], list[tuple[int, int]]]:
        """Return the slot of each value from outside a loop, None for constants, and which are stored for
        it.
        """
        code = self.program.code
        outer: list[int | None] = []
        stores: list[tuple[int, int]] = []
        for a in values:
            if code[a].op == "const":
                outer.append(None)
            elif code[a].op != "neg" and a in self.slot:
                outer.append(self.slot[a])
            else:
                slot = self._acquire_slot()
                stores.append((a, slot))
                outer.append(slot)
        return outer, stores

    def _keep_used_results(self, results: list[int], states: list[int]) -> None:
        """Leave results of a loop that are used in its slots, and release the other slots."""
        used_results = {self.program.code[r].attr: r for r in results if self._next_use(r) is not None}
        for k, slot in enumerate(states):
            if k in used_results:
                self.slot[used_results[k]] = slot
            else:
                self.pool.release(slot)


class _BodyPlanner(Planner):
    """Planner of a long loop's body, whose states are in slots and are stored there again."""

    def __init__(
        self,
        body: Program,
        registers: int,
        pool: SlotPool,
        input_slots: dict[int, int],
        states: list[int],
        totals: Plan,
    ) -> None:
        super().__init__(body, registers, pool, 0, input_slots, totals)
        self.states = states
        self.condition_slot: int | None = None
        end = len(self.ordered)
        old = {attr[1]: u for u, (op, _, attr) in enumerate(body.code) if op == "input" and attr[0] == 0}
        same = {k for k, r in enumerate(body.results[0]) if r == old.get(k)}
        moved = {self.unsigned[r] for k, r in enumerate(body.results[0]) if k not in same}
        place = {}
        for position, (kind, value, _) in enumerate(self.ordered):
            if kind == "op":
                place[value] = position
        self.direct: dict[int, int] = {}  # value stored where it is made -> slot of the state that it becomes
        self.final_states: list[tuple[int, int]] = []
        for k, r in enumerate(body.results[0]):
            if k in same:
                continue
            before = old.get(k)
            used = self.uses.get(before, [-1])[-1] if before is not None else -1
            free = before is None or before not in moved
            if r in place and self.needs_register[r] and free and used <= place[r] and r not in self.direct:
                self.direct[r] = states[k]
            else:
                self.final_states.append((r, states[k]))
                if self.needs_register[self.unsigned[r]]:
                    self.uses.setdefault(self.unsigned[r], []).append(end)
                    self.cursor.setdefault(self.unsigned[r], 0)
        self.condition = body.results[1][0]
        cut_at = [n for n, item in enumerate(self.ordered) if item.kind == "cut"]
        self.is_condition_early = bool(cut_at) and place.get(self.condition, end) < cut_at[-1]
        self.end = end

    def run(self) -> Plan:
        """Plan the body, then bring the states that are stored at its end into registers."""
        super().run()
        operands = list(
            dict.fromkeys(
                self.unsigned[r] for r, _ in self.final_states if self.needs_register[self.unsigned[r]]
            )
        )
        for a in operands:
            self._load_register(a, operands)
        for a in operands:
            self._finish_use(a, self.end)
        return self.plan

    def _run_item(self, item: Action, position: int) -> None:
        super()._run_item(item, position)
        if self.is_condition_early and item.value == self.condition and item.kind == "op":
            self.condition_slot = self.pool.acquire(force=True)
            self._append("store_condition", item.value, self.condition_slot)

    def _define(self, v: int) -> None:
        slot = self.direct.get(v)
        if slot is not None:
            self._append("store", v, slot)
            self.totals.stores += 1
            self.slot[v] = slot
        super()._define(v)

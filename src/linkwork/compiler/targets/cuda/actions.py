"""Actions of a thread, and plans made of them (see `plan`)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

CHUNK = 8  # elements of a row that are read or written together: a memory sector of 32 bytes in float32
CROSSING_LEAD = 4  # factor by which crossing values are loaded earlier than values in shared memory


class Action(NamedTuple):
    """One step of a thread.

    Kinds, with their value and place:

    - "issue", fetch: start reading a chunk of an input
    - "arrive", fetch: wait until the chunk has arrived
    - "take", value, element of the chunk
    - "op", value: compute
    - "load" and "store", value, slot; "store_condition" for conditions
    - "loop", value, LoopPlan
    - "begin": a new chunk of an output; "put", value, element of the chunk; "flush", chunk: write it
    - "cut": start a new function
    - in parts (see `split`): "keep", value, slot in GPU memory; "reread", value, slot
    - with two threads per state: "even" and "odd", value, slot; "sync"
    """

    kind: str
    value: Any = None
    place: Any = None


class Chunk(NamedTuple):
    """`length` elements of an array from `start` on; with two threads per state, those of the second thread
    are `other` elements behind.
    """

    array: int
    start: int
    length: int
    other: int | None = None  # None: elements for both threads


@dataclass(frozen=True)
class LoopPlan:
    """Plan of a loop.

    Attributes
    ----------
    long
        Whether the state is in slots
    body
        Plan of the body
    states
        Slots of the state
    outer
        Slot of each outer value, None for a constant
    initial_states
        States stored before the loop, (value, slot)
    outer_stores
        Outer values stored for the body alone, (value, slot)
    final_states
        States stored at the end of the body, (value, slot); others are stored where they are made
    condition_slot
        Slot of the condition to continue, if it is made in a function before the last
    """

    long: bool
    body: Plan
    states: list[int] = field(default_factory=list)
    outer: list[int | None] = field(default_factory=list)
    initial_states: list[tuple[int, int]] = field(default_factory=list)
    outer_stores: list[tuple[int, int]] = field(default_factory=list)
    final_states: list[tuple[int, int]] = field(default_factory=list)
    condition_slot: int | None = None


@dataclass
class Plan:
    """Actions of a program, its slots, and its loads and stores (bodies of loops counted once)."""

    actions: list[Action] = field(default_factory=list)
    fetches: list[Chunk] = field(default_factory=list)
    slots: int = 0
    loads: int = 0
    stores: int = 0
    rereads: int = 0  # crossing values that are read again for want of a slot
    unassigned: int = 0  # values left to the assembler for want of a slot
    writes_late: bool = True  # no chunk is written before the last one is read


class SlotPool:
    """Slots of a thread, the lowest first, so that shared memory fills before local memory."""

    def __init__(self, shared: int) -> None:
        self.shared = shared
        self.size = 0
        self._free: list[int] = []

    def acquire(self, force: bool) -> int | None:
        """Return a free slot; None if shared memory is full, unless a slot is forced."""
        if self._free and (force or self._free[0] < self.shared):
            return heapq.heappop(self._free)
        if not force and self.size >= self.shared:
            return None
        self.size += 1
        return self.size - 1

    def release(self, slot: int) -> None:
        heapq.heappush(self._free, slot)


class Crossing(NamedTuple):
    """Values that a part of a program (see `split`) exchanges: chunks of outputs, slots that it writes and
    reads.
    """

    chunks: tuple[Chunk, ...]
    keeps: tuple[int, ...]
    reads: tuple[int, ...]


def hoist_loads(plan: Plan, lead: int) -> Plan:
    """Return the plan with loads `lead` operations earlier, since few warps hide little of their latency."""
    hoisted: list[Action] = []
    for action in plan.actions:
        kind, value, place = action
        position = len(hoisted)
        passed = 0
        if kind in ("load", "reread"):
            while position and passed < (lead if kind == "load" else CROSSING_LEAD * lead):
                before = hoisted[position - 1]
                if before.kind in ("cut", "loop") or (
                    before.kind in ("store", "store_condition") and before.place == place
                ):
                    break
                position = position - 1
                passed = passed + (before.kind in ("op", "put"))
        elif kind == "loop" and place.long:
            action = Action(kind, value, replace(place, body=hoist_loads(place.body, lead)))
        hoisted.insert(position, action)
    return replace(plan, actions=hoisted)


def write_actions(chunk: Chunk, values: Sequence[int]) -> list[Action]:
    """Return the actions that write a chunk of outputs."""
    return [Action("begin"), *(Action("put", a, k) for k, a in enumerate(values)), Action("flush", chunk)]

"""Scheduling: short programs in the order of their critical path, long ones so that few values wait.

A processor looks a few hundred instructions ahead. In a short program the longest chain decides, so its instructions come
as early as they can. In a long one the values that wait in memory decide. The traced order, which follows the mechanism,
keeps few of them; what is within sight of each other in it is put in a better order.
"""

from __future__ import annotations

import heapq

from linkwork.ir.liveness import register_operands
from linkwork.ir.program import Program
from linkwork.passes.dead import reorder

SHORT = 2500  # instructions
SIGHT = 240  # instructions from which the next one is chosen, in a long program
LATENCY = {"div": 14, "sqrt": 20, "loop": 200, "neg": 0, "const": 0, "input": 0, "result": 0}
FREE = frozenset({"const", "input", "neg", "result"})


def latency(op: str) -> int:
    """Cycles until the result of an operation can be used, on a typical processor of today."""
    return LATENCY.get(op, 4)


def schedule(program: Program) -> Program:
    """The same instructions in an order that runs faster, in loop bodies too."""
    program = program.map_bodies(schedule)
    return reorder(program, _critical_path_order(program) if len(program) <= SHORT else _few_waiting_order(program))


def _users(program: Program) -> tuple[list[list[int]], list[int]]:
    """Which instructions use each value, and for how many values each instruction waits."""
    users: list[list[int]] = [[] for _ in program.code]
    waiting = [0] * len(program.code)
    for v, (_, args, _) in enumerate(program.code):
        for a in set(args):
            users[a].append(v)
            waiting[v] += 1
    return users, waiting


def _critical_path_order(program: Program) -> list[int]:
    """List scheduling on a machine that starts one instruction a cycle: of those ready, the one with most work after it."""
    code = program.code
    users, waiting = _users(program)
    after = [0] * len(code)
    for v in range(len(code) - 1, -1, -1):
        after[v] = latency(code[v].op) + max([after[u] for u in users[v]], default=0)

    order: list[int] = []
    ready_at = [0] * len(code)
    ready = [(-after[v], v) for v in range(len(code)) if not waiting[v]]
    heapq.heapify(ready)
    later: list[tuple[int, int]] = []  # (cycle at which it can start, value)
    cycle = 0

    def issue(v: int) -> None:
        order.append(v)
        for u in users[v]:
            waiting[u] -= 1
            ready_at[u] = max(ready_at[u], cycle + latency(code[v].op))
            if waiting[u]:
                continue
            if code[u].op == "result":  # stays behind its loop
                issue(u)
            else:
                heapq.heappush(later, (ready_at[u], u))

    while ready or later:
        if not ready:
            cycle = max(cycle, later[0][0])
        while later and later[0][0] <= cycle:
            v = heapq.heappop(later)[1]
            heapq.heappush(ready, (-after[v], v))
        v = heapq.heappop(ready)[1]
        issue(v)
        cycle += code[v].op not in FREE
    return order


def _few_waiting_order(program: Program) -> list[int]:
    """Of the next instructions that are ready, the one that is the last to use most values; else the order as it is."""
    code, needed = program.code, register_operands(program)
    uses, places = [0] * len(code), [0] * len(code)  # how many use a value and are still to come, and the sum of their places
    for v, values in enumerate(needed):
        for a in values:
            uses[a] += 1
            places[a] += v
    # how many values fewer wait after an instruction than before
    gain = [-int(uses[v] > 0 and op != "neg") for v, (op, _, _) in enumerate(code)]
    for v, values in enumerate(needed):
        gain[v] += sum(uses[a] == 1 for a in values)
        if code[v].op in ("const", "result"):
            gain[v] = 1 << 30  # at once: they cost nothing, and a result stays behind its loop
    users, waiting = _users(program)

    order: list[int] = []
    taken = [False] * len(code)
    ready: list[tuple[int, int]] = []  # (-gain, value); an entry whose gain has grown since is void
    end = 0  # of what is in sight

    def offer(v: int) -> None:
        if v < end and not waiting[v]:
            heapq.heappush(ready, (-gain[v], v))

    while len(order) < len(code):
        while end < len(code) and (end - len(order) < SIGHT or code[end].op == "result"):
            end += 1
            offer(end - 1)
        lost, v = heapq.heappop(ready)
        if taken[v] or -lost != gain[v]:
            continue
        taken[v] = True
        order.append(v)
        for a in needed[v]:
            uses[a] -= 1
            places[a] -= v
            if uses[a] == 1:
                gain[places[a]] += 1
                offer(places[a])
        for u in users[v]:
            waiting[u] -= 1
            offer(u)
    return order

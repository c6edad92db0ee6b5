"""Scheduling: short programs in the order of their critical path, long ones in the order they were written.

A processor looks a few hundred instructions ahead. In a short program the longest chain decides, so its instructions come
as early as they can. In a long one the values that wait in memory decide, and the traced order, which follows the
mechanism, keeps fewer of them than any list schedule we tried.
"""

from __future__ import annotations

import heapq

from linkwork.ir.program import Program
from linkwork.passes.dead import reorder

SHORT = 2500  # instructions
LATENCY = {"div": 14, "sqrt": 20, "loop": 200, "neg": 0, "const": 0, "input": 0, "result": 0}
FREE = frozenset({"const", "input", "neg", "result"})


def latency(op: str) -> int:
    """Cycles until the result of an operation can be used, on a typical processor of today."""
    return LATENCY.get(op, 4)


def schedule(program: Program) -> Program:
    """The same instructions in an order that runs faster, in loop bodies too."""
    program = program.map_bodies(schedule)
    if len(program) > SHORT:
        return program
    return reorder(program, _critical_path_order(program))


def _critical_path_order(program: Program) -> list[int]:
    """List scheduling on a machine that starts one instruction a cycle: of those ready, the one with most work after it."""
    code = program.code
    users: list[list[int]] = [[] for _ in code]
    waiting = [0] * len(code)
    for v, (_, args, _) in enumerate(code):
        for a in set(args):
            users[a].append(v)
            waiting[v] += 1
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

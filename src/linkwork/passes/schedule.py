"""Scheduling: short programs in the order of their critical path, long ones for low register pressure.

A processor looks a few hundred instructions ahead. In a short program the longest chain decides, so its instructions come
as early as they can. In a long one the values that are spilled decide. The traced order, which follows the mechanism, keeps few
values live; within a window that moves along it, instructions are put in a better order.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from linkwork.errors import ProgramError
from linkwork.ir.liveness import register_operands
from linkwork.ir.program import Program
from linkwork.passes.dead import reorder
from linkwork.passes.interleave import interleave

LATENCY = {"div": 14, "sqrt": 20, "loop": 200, "neg": 0, "const": 0, "input": 0, "result": 0}
IN_MAPS = 4  # sums side by side in bodies of maps
FREE = frozenset({"const", "input", "neg", "result"})


def latency(op: str) -> int:
    """Cycles until the result of an operation can be used, on a typical processor of today."""
    return LATENCY.get(op, 4)


@dataclass(frozen=True)
class Scheduling:
    """Programs up to `short` instructions are scheduled by critical path, longer ones for low register pressure.

    In a long one the next instruction is chosen from a window of so many instructions, and so many sums that share factors are
    then added up side by side (see `interleave`).
    """

    short: int = 2500
    window: int = 240
    together: int = 1

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ProgramError(f"window must be at least 1 instruction, not {self.window}")


USUAL = Scheduling()


def schedule(program: Program, scheduling: Scheduling = USUAL) -> Program:
    """The same instructions in an order that runs faster, in loop bodies too.

    Bodies of maps stay as they were traced, with sums side by side.
    """
    program = program.map_bodies(lambda body: schedule(body, scheduling), only=("loop",))
    program = program.map_bodies(lambda body: interleave(body, IN_MAPS), only=("map",))
    if len(program) <= scheduling.short:
        return reorder(program, _critical_path_order(program))
    program = reorder(program, _low_pressure_order(program, scheduling.window))
    return interleave(program, scheduling.together) if scheduling.together > 1 else program


def _users(program: Program) -> tuple[list[list[int]], list[int]]:
    """Which instructions use each value, and how many operands of each instruction are missing at first."""
    users: list[list[int]] = [[] for _ in program.code]
    missing = [0] * len(program.code)
    for v, (_, args, _) in enumerate(program.code):
        for a in set(args):
            users[a].append(v)
            missing[v] += 1
    return users, missing


def _critical_path_order(program: Program) -> list[int]:
    """List scheduling on a machine that starts one instruction a cycle: of those ready, the one with most work after it."""
    code = program.code
    users, missing = _users(program)
    after = [0] * len(code)
    for v in range(len(code) - 1, -1, -1):
        after[v] = latency(code[v].op) + max([after[u] for u in users[v]], default=0)

    order: list[int] = []
    ready_at = [0] * len(code)
    ready = [(-after[v], v) for v in range(len(code)) if not missing[v]]
    heapq.heapify(ready)
    later: list[tuple[int, int]] = []  # (cycle at which it can start, value)
    cycle = 0

    def issue(v: int) -> None:
        order.append(v)
        for u in users[v]:
            missing[u] -= 1
            ready_at[u] = max(ready_at[u], cycle + latency(code[v].op))
            if missing[u]:
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


def _low_pressure_order(program: Program, window: int) -> list[int]:
    """Of the instructions in the window that are ready, the one that is the last use of most values; else the next one."""
    code, operands = program.code, register_operands(program)
    uses, positions = [0] * len(code), [0] * len(code)  # how many uses of a value are still to come, the sum of their positions
    for v, values in enumerate(operands):
        for a in values:
            uses[a] += 1
            positions[a] += v
    # how many fewer values are live after an instruction than before
    gain = [-int(uses[v] > 0 and op != "neg") for v, (op, _, _) in enumerate(code)]
    for v, values in enumerate(operands):
        gain[v] += sum(uses[a] == 1 for a in values)
        if code[v].op in ("const", "result"):
            gain[v] = 1 << 30  # at once: they cost nothing, and a result stays behind its loop
    users, missing = _users(program)

    order: list[int] = []
    taken = [False] * len(code)
    ready: list[tuple[int, int]] = []  # (-gain, value); an entry whose gain has grown since is void
    end = 0  # of the window

    def offer(v: int) -> None:
        if v < end and not missing[v]:
            heapq.heappush(ready, (-gain[v], v))

    while len(order) < len(code):
        while end < len(code) and (end - len(order) < window or code[end].op == "result"):
            end += 1
            offer(end - 1)
        lost, v = heapq.heappop(ready)
        if taken[v] or -lost != gain[v]:
            continue
        taken[v] = True
        order.append(v)
        for a in operands[v]:
            uses[a] -= 1
            positions[a] -= v
            if uses[a] == 1:
                gain[positions[a]] += 1
                offer(positions[a])
        for u in users[v]:
            missing[u] -= 1
            offer(u)
    return order
